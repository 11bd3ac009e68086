"""Statements about one trace."""

from dataclasses import dataclass

from query.statements.base import BaseStatement
from query.statements.window import Window


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceBounds(BaseStatement):
    """Where a trace lies in time, per signal."""

    trace_id: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSpansBrief(BaseStatement):
    """The spans of a trace without their attributes, resends once, earliest first, at most `limit`."""

    trace_id: bytes
    window: Window
    limit: int


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceSize(BaseStatement):
    """How many spans a trace has, resends counted once."""

    trace_id: bytes
    window: Window


@dataclass(frozen=True, slots=True, kw_only=True)
class TraceAttributes(BaseStatement):
    """The attributes of the rows `places` (batch, row) of a trace; `window` holds their start times. Without places
    those of all rows in the window.
    """

    trace_id: bytes
    window: Window
    row_ids: tuple[tuple[int, int], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class SpanRecords(BaseStatement):
    """The whole stored rows of one span id, resends once, earliest first, at most `limit`."""

    trace_id: bytes
    span_id: bytes
    window: Window
    limit: int
