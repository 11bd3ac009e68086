"""Statements of a list of traces."""

from dataclasses import dataclass

from query.statements.base import BaseStatement
from query.statements.predicates import Condition
from query.statements.window import Window


@dataclass(frozen=True, slots=True)
class TracePosition:
    """The last trace of a page: its rank (a time or a duration, nanoseconds), and its id."""

    rank: int
    trace_id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRanking(BaseStatement):
    """The first `limit` traces that have spans in `window` that meet all conditions: by their newest such span, or
    (`by_duration`) by their longest, greatest first.

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
