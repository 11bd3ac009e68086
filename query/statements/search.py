"""Statements of lists, newest or longest first, and the lookup of existing attribute keys."""

from dataclasses import dataclass

from query.fields import TelemetryTable
from query.statements.base import BaseStatement
from query.statements.predicates import Condition
from query.statements.window import Window


@dataclass(frozen=True, slots=True)
class Position:
    """A position in a list ordered by time, trace, span, batch and row, all descending: that of the last row shown.

    In a list of the longest spans `duration_ns` (0 for a negative duration) comes before these; None in other lists.
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
    """Rows of one signal with a time in `window` that ended after `after_ns` and before the window does, besides those
    of `shown` (batch and row); those that ended last first, at most `limit`. A log record ends at its time.
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
    """The spans at these positions, of which there is at least one; longest first, at most `limit`."""

    positions: tuple[Position, ...]
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class ExistingAttributeKeys(BaseStatement):
    """Which of `names` the roll-up of attribute keys has in `window`. It lacks keys that a crash lost."""

    names: tuple[str, ...]
    window: Window
