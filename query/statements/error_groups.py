"""Statements about error occurrences."""

from dataclasses import dataclass
from enum import StrEnum

from query.statements.base import BaseStatement
from query.statements.predicates import Condition
from query.statements.window import Window


class ErrorOrder(StrEnum):
    """What groups of errors are ordered by, always descending; of equal ones the greater fingerprint is first."""

    LAST_SEEN = "lastSeen"
    COUNT = "count"
    FIRST_SEEN = "firstSeen"


@dataclass(frozen=True, slots=True, kw_only=True)
class _ErrorStatement(BaseStatement):
    """About the error occurrences in `window` that meet all conditions."""

    window: Window
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRanking(_ErrorStatement):
    """The first groups by `order` after `after` (the last one's rank and fingerprint), at most `limit`."""

    order: ErrorOrder
    after: tuple[int, bytes] | None = None
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorFacets(_ErrorStatement):
    """Of each group its extent, and its releases, environments, services and sources, the most frequent first, at most
    `limit` of each. Not `exact`: of a kind with more values, about the most frequent ones and about how many there are,
    in little memory.
    """

    fingerprints: tuple[bytes, ...]
    limit: int
    exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorTraces(_ErrorStatement):
    """In how many traces each group occurred; not `exact`: about, in little memory."""

    fingerprints: tuple[bytes, ...]
    exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestOccurrences(_ErrorStatement):
    """Of each group the first occurrence of its list, by its fingerprint and time; at least one `places`."""

    fingerprint_times: tuple[tuple[bytes, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorSeries(_ErrorStatement):
    """How often a group occurred in each interval since 1970 in which it did."""

    fingerprint: bytes
    interval_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorGroupType(BaseStatement):
    """The type of a group, if the project has any occurrence of it, however old."""

    fingerprint: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRecord(BaseStatement):
    """One occurrence, whole."""

    fingerprint: bytes
    time_ns: int
    batch_id: int
    row: int
