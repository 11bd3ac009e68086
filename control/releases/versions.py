"""Compares versions of releases by Semantic Versioning 2.0.0; pure.

A version is `1.2.3`, `v1.2.3`, or either behind the name of its package: `checkout@1.2.3`, `@shop/checkout@1.2.3`.
"""

import re
from typing import Final, NamedTuple

# https://semver.org, the suggested expression, in ASCII
_SEMVER: Final = re.compile(
    r"v?(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)\.(0|[1-9][0-9]*)"
    r"(?:-((?:0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*)(?:\.(?:0|[1-9][0-9]*|[0-9]*[a-zA-Z-][0-9a-zA-Z-]*))*))?"
    r"(?:\+[0-9a-zA-Z-]+(?:\.[0-9a-zA-Z-]+)*)?"
)
_MAX_LENGTH: Final = 200

# Of a pre-release, numeric identifiers precede others: (0, number, "") or (1, 0, text).
Precedence = tuple[tuple[int, int, int], bool, tuple[tuple[int, int, str], ...]]


class SemanticVersion(NamedTuple):
    """A package, empty if none is named, and what orders its versions. Build metadata does not."""

    package: str
    precedence: Precedence


def parse_version(text: str) -> SemanticVersion | None:
    """None for a version of another form."""
    if len(text) > _MAX_LENGTH:
        return None
    package, _, number = text.rpartition("@")
    match = _SEMVER.fullmatch(number)
    if match is None:
        return None
    core = int(match[1]), int(match[2]), int(match[3])
    identifiers = tuple(map(_identifier, match[4].split("."))) if match[4] else ()
    return SemanticVersion(package, (core, not identifiers, identifiers))  # a pre-release precedes its release


def _identifier(text: str) -> tuple[int, int, str]:
    return (0, int(text), "") if text.isdigit() else (1, 0, text)
