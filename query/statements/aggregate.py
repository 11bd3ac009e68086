"""Statements of figures over groups and steps of time."""

from dataclasses import dataclass
from enum import StrEnum

from query.statements.base import BaseStatement
from query.statements.predicates import Condition, Subject
from query.statements.window import Window


class Fn(StrEnum):
    """What is made of the spans of a group. pXX is a value that occurs; at least XX percent are not above it."""

    # Specification 4.2, its two undisclosed values (p95, p99), and two extensions.
    COUNT = "count"
    COUNT_UNIQUE = "count_unique"
    SUM = "sum"
    AVG = "avg"
    MIN = "min"
    MAX = "max"
    P50 = "p50"
    P75 = "p75"
    P90 = "p90"
    P95 = "p95"
    P99 = "p99"
    P999 = "p999"

    @property
    def thousandths(self) -> int | None:
        """Of a percentile, how many thousandths of the values are at most as large: 950 for p95."""
        return int(self[1:].ljust(3, "0")) if self[0] == "p" else None


GroupKey = str | int | bytes | None


@dataclass(frozen=True, slots=True)
class TimeBuckets:
    """Time cut into steps of `width_ns`, number 0 beginning at `origin_ns`."""

    origin_ns: int
    width_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanCount(BaseStatement):
    """How many spans there are in the whole buckets `whole` and in the parts of buckets `edges`."""

    whole_buckets: Window | None
    partial_buckets: tuple[Window, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class _GroupedStatement(BaseStatement):
    """`fn` over `subject` for groups of the spans in `window` that meet all conditions; without `group_by` all of them
    are one group.
    """

    window: Window
    conditions: tuple[Condition, ...]
    fn: Fn
    subject: Subject | None
    group_by: Subject | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregation(_GroupedStatement):
    """The first `limit` groups by their figures, each with those of every step that has spans."""

    buckets: TimeBuckets
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRanking(_GroupedStatement):
    """The first `limit` groups by their figures."""

    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSeries(_GroupedStatement):
    """Of each of `groups` (none: of all) the figures of every step that has spans."""

    buckets: TimeBuckets
    groups: tuple[GroupKey, ...]
