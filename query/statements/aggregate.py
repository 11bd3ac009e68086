"""Statements that aggregate spans, or count log records, by group and time bucket."""

from dataclasses import dataclass
from enum import StrEnum

from query.fields import SPANS, TelemetryTable
from query.statements.base import BaseStatement
from query.statements.predicates import Condition, Subject
from query.statements.window import Window


class Fn(StrEnum):
    """The function applied to the spans of a group. pXX: the smallest observed value that at least XX percent of the
    values do not exceed.
    """

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
        """For a percentile, how many thousandths of the values are at most as large: 950 for p95."""
        return int(self[1:].ljust(3, "0")) if self[0] == "p" else None


GroupKey = str | int | bytes | None


@dataclass(frozen=True, slots=True)
class TimeBuckets:
    """Time divided into buckets of `width_ns`; bucket 0 begins at `origin_ns`."""

    origin_ns: int
    width_ns: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanCount(BaseStatement):
    """The number of spans, or rows of another `signal`, in the complete buckets `whole_buckets` and in
    `partial_buckets`.
    """

    whole_buckets: Window | None
    partial_buckets: tuple[Window, ...]
    signal: TelemetryTable = SPANS


@dataclass(frozen=True, slots=True, kw_only=True)
class _GroupedStatement(BaseStatement):
    """`fn` over `subject` for groups of the spans in `window` that meet all conditions; without `group_by` all of them
    are one group. Rows of another `signal` are only counted, without a subject.
    """

    window: Window
    conditions: tuple[Condition, ...]
    fn: Fn
    subject: Subject | None
    group_by: Subject | None
    signal: TelemetryTable = SPANS


@dataclass(frozen=True, slots=True, kw_only=True)
class Aggregation(_GroupedStatement):
    """The first `limit` groups by value, each with the value of every bucket that has spans."""

    buckets: TimeBuckets
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupRanking(_GroupedStatement):
    """The first `limit` groups by value."""

    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSeries(_GroupedStatement):
    """For each of `groups` (empty: for all), the value of every bucket that has spans."""

    buckets: TimeBuckets
    groups: tuple[GroupKey, ...]
