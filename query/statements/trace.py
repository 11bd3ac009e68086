"""Statements about one trace."""

from dataclasses import dataclass

from query.statements.base import BaseStatement
from query.statements.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceBounds(BaseStatement):
    """The time range of a trace, per signal."""

    trace_id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSpansBrief(BaseStatement):
    """The spans of a trace without their attributes, resent spans once, earliest first, at most `limit`."""

    trace_id: bytes
    window: Window
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceRows(BaseStatement):
    """The same with everything that a row of the page's waterfall shows."""

    trace_id: bytes
    window: Window
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSize(BaseStatement):
    """The number of spans of a trace, resent spans counted once."""

    trace_id: bytes
    window: Window


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceAttributes(BaseStatement):
    """The attributes of the rows `row_ids` (batch, row) of a trace; `window` contains their start times. Without
    `row_ids`, those of all rows in the window.
    """

    trace_id: bytes
    window: Window
    row_ids: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRecords(BaseStatement):
    """The full stored rows of one span id, resent spans once, earliest first, at most `limit`."""

    trace_id: bytes
    span_id: bytes
    window: Window
    limit: int
