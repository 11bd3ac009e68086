"""One trace: its time range, its waterfall (specification 2.4 and 4.2), and the full records of its spans."""

import asyncio
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final, NamedTuple

import msgspec

from chassis.clickhouse import QueryTooLarge
from chassis.source_maps.resolver import ProjectResolver, SourceMaps
from query.read_store import MAX_RESULT_BYTES, SHRINK_FACTOR, ReadStore, read_shrinking
from query.rows import SPAN_KINDS, SPANS, STATUS_CODES, AttributeColumns, BriefSpanColumns, text_size, within_bytes
from query.search.schemas import SpanRecord
from query.search.serializers import hex_id, span_record
from query.settings import QuerySettings
from query.statements import SpanRecords, TraceAttributes, TraceSize, TraceSpansBrief, Window
from query.trace.waterfall import build_layout
from query.values import (
    Count,
    MergedAttributes,
    Millis,
    Share,
    SpanId,
    SpanKind,
    StatusCode,
    Timestamp,
    TraceId,
    format_millis,
    format_timestamp,
    merged_attributes,
    raw_json,
)

MAX_SPANS_PER_ID: Final = 20  # maximum number of full records shown if spans share an id
_CHUNK_ROWS: Final = 250  # rows that are requested by their ids: as many as fit into a URL

AttributesByRow = Mapping[tuple[int, int], AttributeColumns]  # by batch and row


class WaterfallRow(msgspec.Struct, rename="camel"):
    """A span as a row of the waterfall."""

    # Specification 2.4, exactly its keys.
    span_id: SpanId
    parent_span_id: Annotated[SpanId | None, msgspec.Meta(description="The parent as received; null for a root.")]
    name: str
    kind: SpanKind
    service_name: str | None
    status_code: StatusCode
    depth: Count
    offset_ms: Annotated[
        msgspec.Raw,
        raw_json("Milliseconds from the start of the trace to the start of the span.", type="number", minimum=0),
    ]
    duration_ms: Millis
    offset_ratio: Annotated[Share, msgspec.Meta(description="Offset divided by the duration of the trace.")]
    width_ratio: Annotated[Share, msgspec.Meta(description="Duration divided by the duration of the trace.")]
    self_time_ms: Annotated[
        msgspec.Raw,
        raw_json(
            "The part of the duration that is not covered by children, in milliseconds.", type="number", minimum=0
        ),
    ]
    orphan: Annotated[
        bool,
        msgspec.Meta(
            description="Whether the parent of the span is not in the trace, or the span is its own ancestor."
        ),
    ]
    attributes: MergedAttributes


class Waterfall(msgspec.Struct, rename="camel"):
    """A trace laid out as rows, depth first."""

    # Specification 4.2.
    trace_id: TraceId
    span_count: Annotated[
        int, msgspec.Meta(ge=0, description="Number of spans in the trace, including those not shown.")
    ]
    orphan_count: Count
    max_depth: Count
    start_time: Timestamp | None
    end_time: Timestamp | None
    duration_ms: Millis
    services: list[str]
    truncated: Annotated[bool, msgspec.Meta(description="Whether only the earliest spans are shown.")]
    rows: list[WaterfallRow]


class SpanDetail(SpanRecord, rename="camel"):
    """The full record of the earliest span with the id, and the other spans that have the same id."""

    alternates: Annotated[list[SpanRecord], msgspec.Meta(description="Other spans with the same id.")]


class _Trace(NamedTuple):
    spans: list[BriefSpanColumns]
    attributes: AttributesByRow
    span_count: int


async def read_waterfall(store: ReadStore, settings: QuerySettings, project_id: int, trace_id: bytes) -> bytes | None:
    """The waterfall as JSON; None for an unknown trace. The layout runs in a thread, because a long trace takes some
    time.
    """
    window = (await store.trace_windows(project_id, trace_id)).get(SPANS.trace_index_code)
    if window is None:
        return None
    trace = await _read_trace(store, settings, project_id, trace_id, window)
    if not trace.spans:
        return None
    return await asyncio.to_thread(_encode_waterfall, trace_id, trace)


async def read_span(
    store: ReadStore, project_id: int, trace_id: bytes, span_id: bytes, source_maps: SourceMaps | None = None
) -> bytes | None:
    """The full record of a span as JSON; None if the trace has no such span. Encoded in a thread, like a waterfall."""
    window = (await store.trace_windows(project_id, trace_id)).get(SPANS.trace_index_code)
    if window is None:
        return None
    statement = SpanRecords(
        project_id=project_id, trace_id=trace_id, span_id=span_id, window=window, limit=MAX_SPANS_PER_ID
    )
    try:
        rows = await store.rows(statement, max(store.max_page_bytes, 1))
    except QueryTooLarge:  # only the earliest
        rows = await store.rows(replace(statement, limit=1))
    rows = within_bytes(rows, store.max_page_bytes, page_started=False)
    if not rows:
        return None
    resolver = None if source_maps is None else source_maps.of_project(project_id, source_maps.deadline())
    return await asyncio.to_thread(_encode_span, rows, resolver)


def waterfall(
    trace_id: bytes, spans: Sequence[BriefSpanColumns], attributes: AttributesByRow, span_count: int
) -> Waterfall:
    """Lay out spans as rows. `spans` are distinct and sorted as `query.trace.waterfall.build_layout` requires."""
    layout = build_layout(spans)
    start = layout.start_ns or 0
    length = (layout.end_ns or 0) - start
    rows = []
    for line in layout.lines:
        span = spans[line.span]
        offset, duration = span.start_ns - start, max(span.duration_ns, 0)
        rows.append(
            WaterfallRow(
                span_id=span.span_id.hex(),
                parent_span_id=hex_id(span.parent_span_id),
                name=span.name,
                kind=SPAN_KINDS[span.kind],
                service_name=span.service_name or None,
                status_code=STATUS_CODES[span.status_code],
                depth=line.depth,
                offset_ms=_millis(offset),
                duration_ms=_millis(duration),
                offset_ratio=offset / length if length else 0.0,
                width_ratio=duration / length if length else 0.0,
                self_time_ms=_millis(line.self_ns),
                orphan=line.orphan,
                attributes=merged_attributes(attributes[span.batch_id, span.row]),
            )
        )
    return Waterfall(
        trace_id=trace_id.hex(),
        span_count=span_count,
        orphan_count=sum(row.orphan for row in rows),
        max_depth=max((row.depth for row in rows), default=0),
        start_time=None if layout.start_ns is None else format_timestamp(layout.start_ns),
        end_time=None if layout.end_ns is None else format_timestamp(layout.end_ns),
        duration_ms=_millis(length),
        services=sorted({span.service_name for span in spans if span.service_name}),
        truncated=span_count > len(spans),
        rows=rows,
    )


def _encode_waterfall(trace_id: bytes, trace: _Trace) -> bytes:
    return msgspec.json.encode(waterfall(trace_id, trace.spans, trace.attributes, trace.span_count))


def _encode_span(rows: Sequence[Sequence[Any]], source_maps: ProjectResolver | None) -> bytes:
    first, *others = (span_record(row, source_maps) for row in rows)
    return msgspec.json.encode(SpanDetail(**msgspec.structs.asdict(first), alternates=others))


def _millis(nanos: int) -> msgspec.Raw:
    return msgspec.Raw(format_millis(nanos))


async def _read_trace(
    store: ReadStore, settings: QuerySettings, project_id: int, trace_id: bytes, window: Window
) -> _Trace:
    """The earliest spans of a trace, as many as the settings allow, with their attributes."""
    # With long names `limit` + 1 rows may exceed the byte limit, and then fewer are read.
    rows, limit = await read_shrinking(
        lambda most: store.rows(
            TraceSpansBrief(project_id=project_id, trace_id=trace_id, window=window, limit=most + 1)
        ),
        settings.max_trace_spans,
    )
    span_count = len(rows)
    if span_count > limit:
        ((span_count,),) = await store.rows(TraceSize(project_id=project_id, trace_id=trace_id, window=window))
    spans = [BriefSpanColumns._make(row) for row in rows[:limit]]
    attributes = await _read_attributes(store, project_id, trace_id, spans, settings.max_trace_bytes)
    kept = [span for span in spans if (span.batch_id, span.row) in attributes]
    return _Trace(kept, attributes, span_count)


async def _read_attributes(
    store: ReadStore, project_id: int, trace_id: bytes, spans: Sequence[BriefSpanColumns], budget: int
) -> dict[tuple[int, int], AttributeColumns]:
    """The attributes of the spans, until `budget` bytes are used; the remaining spans are left out.

    All rows are read at once if they fit, otherwise in chunks. Rows of small chunks are requested by their ids: each
    read decodes whole granules, and other rows of these need not be sent.
    """
    found: dict[tuple[int, int], AttributeColumns] = {}
    start, chunk = 0, len(spans)
    while start < len(spans) and budget > 0:
        batch = spans[start : start + chunk]
        statement = TraceAttributes(
            project_id=project_id,
            trace_id=trace_id,
            window=Window(batch[0].start_ns, batch[-1].start_ns + 1),
            row_ids=tuple((span.batch_id, span.row) for span in batch) if chunk <= _CHUNK_ROWS else (),
        )
        try:
            rows = await store.rows(statement, MAX_RESULT_BYTES if chunk == 1 else min(budget, MAX_RESULT_BYTES))
        except QueryTooLarge:
            if chunk == 1:
                raise
            chunk = max(1, chunk // SHRINK_FACTOR)
            continue
        attributes_by_row = {(batch_id, row): AttributeColumns._make(attributes) for batch_id, row, *attributes in rows}
        for span in batch:
            row_id = (span.batch_id, span.row)
            attributes = attributes_by_row.get(row_id)  # None: a partition was dropped between the two reads
            if attributes is None:
                continue
            if budget <= 0:
                break
            found[row_id] = attributes
            budget -= text_size(attributes)
        start += len(batch)
    return found
