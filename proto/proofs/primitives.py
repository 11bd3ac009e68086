"""Strings and numbers with the bounds of specification 2.8. `Text300` has at most 300 characters."""

from enum import StrEnum
from typing import Annotated, Final

from msgspec import Meta, Struct

MAX_SAFE_INTEGER: Final = 9_007_199_254_740_991
IDENTIFIER_PATTERN: Final = r"^[A-Za-z0-9][A-Za-z0-9._:-]{0,127}(?!\n)$"
DIGEST_PATTERN: Final = r"^sha256:[0-9a-f]{64}(?!\n)$"
TIMESTAMP_PATTERN: Final = r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,3})?Z(?!\n)$"

Text40 = Annotated[str, Meta(max_length=40)]
Text60 = Annotated[str, Meta(max_length=60)]
Text80 = Annotated[str, Meta(max_length=80)]
Text120 = Annotated[str, Meta(max_length=120)]
Text200 = Annotated[str, Meta(max_length=200)]
Text300 = Annotated[str, Meta(max_length=300)]
Text400 = Annotated[str, Meta(max_length=400)]
Text500 = Annotated[str, Meta(max_length=500)]
Text512 = Annotated[str, Meta(max_length=512)]
Text600 = Annotated[str, Meta(max_length=600)]
Text1000 = Annotated[str, Meta(max_length=1_000)]
Text1024 = Annotated[str, Meta(max_length=1_024)]
Text2000 = Annotated[str, Meta(max_length=2_000)]
ClaimStatement = Annotated[str, Meta(min_length=1, max_length=400)]
Detail600 = Annotated[str, Meta(min_length=1, max_length=600)]

Identifier = Annotated[
    str,
    Meta(
        pattern=IDENTIFIER_PATTERN,
        description="Must begin with a letter or digit, followed by up to 127 letters, digits, `.`, `_`, `:` and `-`.",
    ),
]
Sha256Digest = Annotated[
    str,
    Meta(pattern=DIGEST_PATTERN, description="Must be `sha256:` followed by 64 lowercase hexadecimal digits."),
]
IsoTimestamp = Annotated[
    str,
    Meta(
        pattern=TIMESTAMP_PATTERN,
        description="Must be a UTC time such as 2026-11-20T15:17:03Z, with at most three decimals of a second.",
    ),
]
Integer = Annotated[int, Meta(ge=-MAX_SAFE_INTEGER, le=MAX_SAFE_INTEGER)]
Count = Annotated[int, Meta(ge=0, le=MAX_SAFE_INTEGER)]
PositiveInteger = Annotated[int, Meta(ge=1, le=MAX_SAFE_INTEGER)]
Amount = Annotated[float, Meta(ge=0)]
PositiveNumber = Annotated[float, Meta(gt=0)]
Ratio = Annotated[float, Meta(ge=0, le=1)]
RatioDelta = Annotated[float, Meta(ge=-1, le=1)]
Percent = Annotated[float, Meta(ge=0, le=100)]
PercentDelta = Annotated[float, Meta(ge=-100, le=100)]


class ProofTier(StrEnum):
    """How strong the proof is."""

    A = "A"
    B = "B"
    C = "C"
    VOID = "VOID"
    NONE = "NONE"


class ProofVerdict(StrEnum):
    """The verdict of the proof on the change."""

    PASSED = "PASSED"
    VOID = "VOID"
    FAILED = "FAILED"


class ClaimStatus(StrEnum):
    """The result of one claim."""

    SUPPORTED = "SUPPORTED"
    REFUTED = "REFUTED"
    INCONCLUSIVE = "INCONCLUSIVE"
    NOT_ATTESTED = "NOT_ATTESTED"


class TestObservation(StrEnum):
    """The result of a test."""

    __test__ = False  # not a test for pytest

    PASSED = "PASSED"
    FAILED = "FAILED"
    ERRORED = "ERRORED"
    NOT_RUN = "NOT_RUN"


class ActorKind(StrEnum):
    """The kind of an actor."""

    USER = "user"
    AGENT = "agent"
    SERVICE = "service"


class AuthorKind(StrEnum):
    """The kind of author of a change."""

    AI = "ai"
    HUMAN = "human"
    HYBRID = "hybrid"


class Shape(Struct, rename="camel", forbid_unknown_fields=True, frozen=True, kw_only=True):
    """An object whose keys are all required, and which has no other keys."""
