"""A trace as columns: what the page draws a waterfall of. A third of the bytes of the waterfall, without attributes.

Order and rules are those of the waterfall. Texts are indices into `strings`; times are nanoseconds.
"""

import asyncio
from collections.abc import Callable, Sequence
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from query.read_store import ReadStore
from query.rows import SPAN_KINDS, SPANS, STATUS_CODES, TraceRowColumns
from query.settings import QuerySettings
from query.statements import TraceRows, TraceSize
from query.trace.read import read_shrinking
from query.trace.waterfall import Layout, build_layout
from query.values import Count, Millis, SpanId, Timestamp, TraceId, format_millis, format_timestamp

_ABSENT: Final = -1
Index = Annotated[int, Meta(ge=_ABSENT, description="Index into `strings`; -1: absent.")]


class TraceColumns(msgspec.Struct, rename="camel"):
    """One value for each row, depth first."""

    span_id: list[SpanId]
    parent: Annotated[list[int], Meta(description="Row of the parent; -1 for a root and for an orphan.")]
    depth: list[Count]
    name: list[Index]
    service: list[Index]
    kind: list[Index]
    status: list[Index]
    status_message: list[Index]
    release: list[Index]
    environment: list[Index]
    start_offset_ns: Annotated[list[int], Meta(description="Nanoseconds since `startTime` of the trace.")]
    duration_ns: list[Count]
    self_time_ns: Annotated[list[int], Meta(description="Nanoseconds that no child covers.")]
    events: Annotated[list[int], Meta(description="Number of events.")]
    links: Annotated[list[int], Meta(description="Number of links.")]
    children: Annotated[list[int], Meta(description="Number of children.")]
    orphan: Annotated[list[int], Meta(description="1: its parent is not in the trace, or it is its own ancestor.")]


class TraceTable(msgspec.Struct, rename="camel"):
    """A trace, or the subtree of `root`, as columns."""

    trace_id: TraceId
    root: SpanId | None
    span_count: Annotated[int, Meta(ge=0, description="Number of spans in the trace, including those not shown.")]
    orphan_count: Count
    max_depth: Count
    start_time: Timestamp | None
    end_time: Timestamp | None
    duration_ms: Millis
    services: list[str]
    truncated: Annotated[bool, Meta(description="Whether only the earliest spans are shown.")]
    rows: Count
    columns: TraceColumns
    strings: list[str]


async def read_columns(
    store: ReadStore, settings: QuerySettings, project_id: int, trace_id: bytes, root: bytes | None
) -> bytes | None:
    """The trace as JSON; None for an unknown trace, or one without the span `root`. Laid out in a thread."""
    window = (await store.trace_windows(project_id, trace_id)).get(SPANS.trace_index_code)
    if window is None:
        return None
    rows, limit = await read_shrinking(
        lambda most: store.rows(TraceRows(project_id=project_id, trace_id=trace_id, window=window, limit=most + 1)),
        settings.max_trace_spans,
    )
    span_count = len(rows)
    if span_count > limit:
        ((span_count,),) = await store.rows(TraceSize(project_id=project_id, trace_id=trace_id, window=window))
    spans = [TraceRowColumns._make(row) for row in rows[:limit]]
    return await asyncio.to_thread(encode, trace_id, spans, span_count, root) if spans else None


def encode(trace_id: bytes, spans: Sequence[TraceRowColumns], span_count: int, root: bytes | None) -> bytes | None:
    """The trace as JSON; None without the span `root`. `spans`: distinct, in the order that the layout requires."""
    layout = build_layout(spans)
    if root is not None:
        first = next((at for at, line in enumerate(layout.lines) if spans[line.span].span_id == root), None)
        if first is None:
            return None
        depth = layout.lines[first].depth
        stop = next(
            (at for at in range(first + 1, len(layout.lines)) if layout.lines[at].depth <= depth), len(layout.lines)
        )
        lines = [line._replace(depth=line.depth - depth) for line in layout.lines[first:stop]]
        chosen = [spans[line.span] for line in lines]
        start = min(span.start_ns for span in chosen)
        end = max(span.start_ns + max(span.duration_ns, 0) for span in chosen)
        layout = Layout(lines, start, end)
    return msgspec.json.encode(_table(trace_id, spans, layout, span_count, root))


def _table(
    trace_id: bytes, spans: Sequence[TraceRowColumns], layout: Layout, span_count: int, root: bytes | None
) -> TraceTable:
    texts: dict[str, int] = {}
    lines = layout.lines
    shown = [spans[line.span] for line in lines]
    start = layout.start_ns or 0
    parents = _parents([line.depth for line in lines])

    def indices(read: Callable[[TraceRowColumns], str]) -> list[int]:
        found = (read(span) for span in shown)
        return [texts.setdefault(text, len(texts)) if text else _ABSENT for text in found]

    children = [0] * len(lines)
    for parent in parents:
        if parent != _ABSENT:
            children[parent] += 1
    columns = TraceColumns(
        span_id=[span.span_id.hex() for span in shown],
        parent=parents,
        depth=[line.depth for line in lines],
        name=[texts.setdefault(span.name, len(texts)) for span in shown],
        service=indices(lambda span: span.service_name),
        kind=indices(lambda span: SPAN_KINDS[span.kind]),
        status=indices(lambda span: STATUS_CODES[span.status_code]),
        status_message=indices(lambda span: span.status_message),
        release=indices(lambda span: span.release),
        environment=indices(lambda span: span.environment),
        start_offset_ns=[span.start_ns - start for span in shown],
        duration_ns=[max(span.duration_ns, 0) for span in shown],
        self_time_ns=[line.self_ns for line in lines],
        events=[span.events for span in shown],
        links=[span.links for span in shown],
        children=children,
        orphan=[int(line.orphan) for line in lines],
    )
    return TraceTable(
        trace_id=trace_id.hex(),
        root=None if root is None else root.hex(),
        span_count=span_count,
        orphan_count=sum(columns.orphan),
        max_depth=max(columns.depth, default=0),
        start_time=None if layout.start_ns is None else format_timestamp(layout.start_ns),
        end_time=None if layout.end_ns is None else format_timestamp(layout.end_ns),
        duration_ms=msgspec.Raw(format_millis((layout.end_ns or 0) - start)),
        services=sorted({span.service_name for span in shown if span.service_name}),
        truncated=span_count > len(spans),
        rows=len(lines),
        columns=columns,
        strings=list(texts),
    )


def _parents(depths: Sequence[int]) -> list[int]:
    """The row of each row's parent: the last one above it that is less deep by one."""
    above: list[int] = []
    parents = []
    for at, depth in enumerate(depths):
        del above[depth:]
        parents.append(above[-1] if above else _ABSENT)
        above.append(at)
    return parents
