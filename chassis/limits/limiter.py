"""What an implementation of the limits promises, wherever it keeps its buckets."""

from enum import StrEnum
from typing import NamedTuple, Protocol

from chassis.limits.gcra import Rule


class LimitClass(StrEnum):
    """What is counted together; also the label in the metrics."""

    API = "api"  # requests of a principal in an organization
    ANALYSIS = "analysis"  # those of them that read a whole window: aggregate, compare
    FAILED_BEARER = "failed_bearer"  # credentials that were none, by address


class Bucket(NamedTuple):
    """Whose requests of which class."""

    limit: LimitClass
    holder: str


class Verdict(NamedTuple):
    """`reset`: epoch seconds when the bucket is full again. `retry_after`: whole seconds, 0 when the request passed."""

    limit: int
    remaining: int
    reset: int
    retry_after: int


class Limiter(Protocol):
    """Buckets under rules. A bucket is always asked for with the same rule."""

    async def take(self, bucket: Bucket, rule: Rule) -> Verdict:
        """One request: counted, or refused and then not counted."""

    async def look(self, bucket: Bucket, rule: Rule) -> Verdict:
        """The verdict that one request would get, without counting it."""
