"""Statements about error occurrences."""

from dataclasses import dataclass
from enum import StrEnum

from query.statements.predicates import BaseStatement, Condition, Window


class ErrorOrder(StrEnum):
    """Sort order of error groups, always descending; on a tie, the greater fingerprint comes first."""

    LAST_SEEN = "lastSeen"
    COUNT = "count"
    FIRST_SEEN = "firstSeen"


@dataclass(frozen=True, slots=True, kw_only=True)
class _ErrorStatement(BaseStatement):
    """Base of statements on the error occurrences in `window` that meet all conditions."""

    window: Window
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRanking(_ErrorStatement):
    """The first groups by `order` after `after` (the last group's rank and fingerprint), at most `limit`."""

    order: ErrorOrder
    after: tuple[int, bytes] | None = None
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorFacets(_ErrorStatement):
    """For each group: its count, its first and last time, and its releases, environments, services and sources, the
    most frequent first, at most `limit` of each. Not `exact`: if a kind has more values, approximately the most
    frequent values and the approximate number of values, in little memory.
    """

    fingerprints: tuple[bytes, ...]
    limit: int
    exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorTraces(_ErrorStatement):
    """The number of traces in which each group occurred. Not `exact`: the approximate number, in little memory."""

    fingerprints: tuple[bytes, ...]
    exact: bool = True


@dataclass(frozen=True, slots=True, kw_only=True)
class LatestOccurrences(_ErrorStatement):
    """For each group, the first occurrence in its list. `fingerprint_times` has the fingerprint and the time of each,
    and must not be empty.
    """

    fingerprint_times: tuple[tuple[bytes, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorSeries(_ErrorStatement):
    """The number of occurrences of a group in each interval (a multiple since 1970) that has occurrences."""

    fingerprint: bytes
    interval_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorSparklines(_ErrorStatement):
    """The number of occurrences of each group in each of `parts` equal parts of the window that has occurrences."""

    fingerprints: tuple[bytes, ...]
    parts: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FirstOccurrences(BaseStatement):
    """The time of the first stored occurrence of each group in the project, of any age."""

    fingerprints: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorGroupType(BaseStatement):
    """The type of a group, if the project has an occurrence of it, of any age."""

    fingerprint: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorRecord(BaseStatement):
    """The complete record of one occurrence."""

    fingerprint: bytes
    time_ns: int
    batch_id: int
    row: int
