"""Statements that find rows: lists of spans and log records (`Listing`, `EndedRows`, `RankedSpans`), one trace
(`Trace...`), lists of traces (`TraceRanking`, `TraceSummaries`), and attribute keys.
"""

from dataclasses import dataclass

from query.rows import SPANS, TelemetryTable
from query.statements.predicates import BaseStatement, Condition, Subject, Window


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a list ordered by time, trace, span, batch and row, all descending: the position of the last row
    shown.

    A list of the longest spans is ordered by `duration_ns` first (0 for a negative duration); in other lists it is
    None.
    """

    time_ns: int
    trace_id: bytes
    span_id: bytes
    batch_id: int
    row: int
    duration_ns: int | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Listing(BaseStatement):
    """Rows of one signal in `window`, newest first (or oldest), after `after`, at most `limit`."""

    signal: TelemetryTable
    window: Window
    conditions: tuple[Condition, ...] = ()
    trace_id: bytes | None = None
    after: Position | None = None
    oldest_first: bool = False
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class EndedRows(BaseStatement):
    """Rows of one signal with a time in `window` that ended after `after_ns` and before the end of the window, except
    the rows in `shown` (batch and row). They are ordered by their end, descending, at most `limit`. A log record ends
    at its time.
    """

    signal: TelemetryTable
    window: Window
    after_ns: int
    conditions: tuple[Condition, ...] = ()
    shown: tuple[tuple[int, int], ...] = ()
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRanking(BaseStatement):
    """The positions of the longest spans in `window` that come after `after`, at most `limit`."""

    window: Window
    conditions: tuple[Condition, ...] = ()
    trace_id: bytes | None = None
    after: Position | None = None
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class RankedSpans(BaseStatement):
    """The spans at the given positions (at least one); longest first, at most `limit`."""

    positions: tuple[Position, ...]
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingAttributeKeys(BaseStatement):
    """The names among `names` that the roll-up of attribute keys has in `window`. After a crash the roll-up may lack
    keys."""

    names: tuple[str, ...]
    window: Window


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceBounds(BaseStatement):
    """The time range of a trace, per signal."""

    trace_id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSpansBrief(BaseStatement):
    """The spans of a trace without their attributes, earliest first, at most `limit`. Spans that were sent again are
    returned once."""

    trace_id: bytes
    window: Window
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRows(BaseStatement):
    """The spans of a trace with the columns of the page's waterfall."""

    trace_id: bytes
    window: Window
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSize(BaseStatement):
    """The number of spans of a trace. Spans that were sent again count once."""

    trace_id: bytes
    window: Window


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceAttributes(BaseStatement):
    """The attributes of the rows `row_ids` (batch, row) of a trace; `window` contains their start times. Without
    `row_ids`, the attributes of all rows in the window.
    """

    trace_id: bytes
    window: Window
    row_ids: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRecords(BaseStatement):
    """The full stored rows of one span id, earliest first, at most `limit`. Spans that were sent again are returned
    once."""

    trace_id: bytes
    span_id: bytes
    window: Window
    limit: int


@dataclass(frozen=True, slots=True)
class TracePosition:
    """The last trace of a page: its rank (a time or a duration, nanoseconds), and its id."""

    rank: int
    trace_id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRanking(BaseStatement):
    """The first `limit` traces that have spans in `window` that meet all conditions: ordered by their newest such span,
    or with `by_duration` by their longest, descending.

    `shown` (only by time): traces with such a span in this later window are left out.
    """

    window: Window
    conditions: tuple[Condition, ...]
    by_duration: bool
    after: TracePosition | None
    shown: Window | None
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSummaries(BaseStatement):
    """Size, services and root of traces. `window` contains all of their spans; `matched` counts those that meet all
    conditions in `matching`.
    """

    trace_ids: tuple[bytes, ...]
    window: Window
    matching: Window
    conditions: tuple[Condition, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRanges(BaseStatement):
    """The time range of the spans of several traces together."""

    trace_ids: tuple[bytes, ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class AttributeKeys(BaseStatement):
    """The attribute keys of spans, the most frequent first, at most `limit`: in the complete buckets `whole_buckets`,
    read from the roll-up, and in `partial_buckets`; together they are one window.

    `estimated`: there are too many keys to count each. An estimate in bounded memory selects the most frequent keys of
    `whole_buckets`, and only these are counted. `partial_buckets` is empty then.
    """

    whole_buckets: Window | None
    partial_buckets: tuple[Window, ...]
    limit: int
    estimated: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class RollupKeys(BaseStatement):
    """At most `limit` arbitrary attribute keys of the complete buckets `whole_buckets`. An empty key stands for
    attributes whose keys the roll-up does not list.
    """

    whole_buckets: Window
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class DistinctAttributeSets(BaseStatement):
    """The distinct attribute lists of the rows of `windows`, with the number of rows that share them."""

    windows: tuple[Window, ...]
    signal: TelemetryTable = SPANS


@dataclass(frozen=True, slots=True, kw_only=True)
class NonFiniteCounts(BaseStatement):
    """For each key of rows' own attributes, the number of rows of `windows` where its value is NaN or infinite."""

    windows: tuple[Window, ...]
    signal: TelemetryTable = SPANS


@dataclass(frozen=True, slots=True, kw_only=True)
class PresenceCounts(BaseStatement):
    """The number of rows in `window`; for each of `present` the number of rows that have it, for each of `numbers` the
    number of rows where it is a number.
    """

    window: Window
    present: tuple[Subject, ...] = ()
    numbers: tuple[Subject, ...] = ()
    signal: TelemetryTable = SPANS
