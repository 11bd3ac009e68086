"""Statements that aggregate.

GroupRanking, GroupSeries, LogRows     spans, or log records, by group and time bucket
FigureRanking, FigureSeries            several figures of the same groups of spans in one scan
Heatmap                                spans counted by columns of time and rows of a number
ServiceCalls, ServiceFigures           a service map: the calls between services, and the figures of each
"""

from dataclasses import dataclass
from enum import StrEnum

from query.rows import SPANS, TelemetryTable
from query.statements.predicates import BaseStatement, Condition, Subject, Window


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
        """The rank of a percentile in thousandths, such as 950 for p95; None for other functions."""
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
    """`fn` over `subject` for groups of the spans in `window` that meet all conditions; without `group_by` all these
    spans are one group. Rows of another `signal` are only counted, without a subject.
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


@dataclass(frozen=True, slots=True)
class Figure:
    """`fn` over `subject`, for the spans of a group that meet all `conditions`."""

    fn: Fn
    subject: Subject | None
    conditions: tuple[Condition, ...] = ()


@dataclass(frozen=True, slots=True, kw_only=True)
class _FiguresStatement(BaseStatement):
    """`figures` for groups of the spans in `window` that meet all conditions. A group has one value for each subject of
    `group_by`; without subjects, all spans are one group.
    """

    window: Window
    conditions: tuple[Condition, ...]
    figures: tuple[Figure, ...]
    group_by: tuple[Subject, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureRanking(_FiguresStatement):
    """The first `limit` groups by the figure at index `rank_by`."""

    rank_by: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class FigureSeries(_FiguresStatement):
    """For each of `groups` (empty: for all), the figures of every bucket that has spans."""

    buckets: TimeBuckets
    groups: tuple[tuple[GroupKey, ...], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedFigures(_FiguresStatement):
    """The first `limit` groups by the figure at index `rank_by`, each with the figures of every bucket that has
    spans."""

    buckets: TimeBuckets
    rank_by: int
    limit: int


@dataclass(frozen=True, slots=True)
class LogRows:
    """Rows between consecutive `edges`, which ascend: row n has the values from edges[n] to below edges[n + 1]. An edge
    is the power of two with the exponent `lowest_octave` + n / `per_octave`, times `unit`, rounded up by less than the
    height of a row. Integers are edges of integers (nanoseconds), floats of doubles.
    """

    edges: tuple[int, ...] | tuple[float, ...]
    lowest_octave: int
    per_octave: int
    unit: int = 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Heatmap(BaseStatement):
    """The spans in `window` that meet all conditions and have a number in `subject`, by column and row."""

    window: Window
    conditions: tuple[Condition, ...]
    subject: Subject
    columns: TimeBuckets
    rows: LogRows


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceCalls(BaseStatement):
    """The calls between services in `window`, most calls first, at most `limit` pairs of services.

    A call is a SERVER or CONSUMER span that meets all conditions and whose parent is a CLIENT or PRODUCER span in
    `window`. `one_in`: only calls of traces whose id has a hash that is divisible by this number (1: all traces).
    """

    window: Window
    conditions: tuple[Condition, ...]
    one_in: int
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ServiceFigures(BaseStatement):
    """The services of spans in `window` that meet all conditions, most spans first, at most `limit`; if `services` is
    not None, only these services. `one_in`: as in `ServiceCalls`.
    """

    window: Window
    conditions: tuple[Condition, ...]
    one_in: int
    services: tuple[str, ...] | None = None
    limit: int
