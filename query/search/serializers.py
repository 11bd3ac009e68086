"""Rows to the objects of the API (`query.search.schemas`)."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from query.attribute_json import decode_attribute_list, json_value, merged_attributes
from query.fields import SPAN_KINDS, STATUS_CODES
from query.rows import AttributeColumns, LogColumns, ResourceScopeColumns, SpanColumns, SpanRecordColumns
from query.search.schemas import (
    TIME_SOURCES,
    InstrumentationScope,
    Link,
    Log,
    LogPage,
    Resource,
    Span,
    SpanEvent,
    SpanPage,
    SpanRecord,
)
from query.timestamps import format_millis, format_timestamp

_SPAN_END: Final = len(SpanColumns._fields)
_ATTRIBUTES_END: Final = _SPAN_END + len(AttributeColumns._fields)
_RESOURCE_SCOPE_END: Final = _ATTRIBUTES_END + len(ResourceScopeColumns._fields)
_LOG_END: Final = len(LogColumns._fields)
_LOG_ATTRIBUTES_END: Final = _LOG_END + len(AttributeColumns._fields)


class StoredEvent(msgspec.Struct, rename="camel"):
    """An event of a span as the tables hold it; 0 is the time of one that was sent without."""

    time_unix_nano: int
    name: str
    attributes: msgspec.Raw
    dropped_attributes_count: int


class _StoredLink(msgspec.Struct, rename="camel"):
    trace_id: str
    span_id: str
    trace_state: str
    attributes: msgspec.Raw
    dropped_attributes_count: int
    flags: int


_EVENTS_DECODER: Final = msgspec.json.Decoder(list[StoredEvent])
_LINKS_DECODER: Final = msgspec.json.Decoder(list[_StoredLink])


def span(row: Sequence[Any]) -> Span:
    """A row of SPAN_SELECT."""
    return Span(
        **_span_fields(SpanColumns._make(row[:_SPAN_END]), AttributeColumns._make(row[_SPAN_END:_ATTRIBUTES_END]))
    )


def span_record(row: Sequence[Any]) -> SpanRecord:
    """A row of RECORD_SELECT."""
    carried, origin = (
        AttributeColumns._make(row[_SPAN_END:_ATTRIBUTES_END]),
        ResourceScopeColumns._make(row[_ATTRIBUTES_END:_RESOURCE_SCOPE_END]),
    )
    extra = SpanRecordColumns._make(row[_RESOURCE_SCOPE_END:])
    return SpanRecord(
        **_span_fields(SpanColumns._make(row[:_SPAN_END]), carried),
        trace_state=extra.trace_state or None,
        flags=extra.flags,
        dropped_attributes_count=origin.dropped_attributes_count,
        events=[_event(each) for each in span_events(row)],
        dropped_events_count=extra.dropped_events_count,
        links=[_link(each) for each in _LINKS_DECODER.decode(extra.links)] if extra.links else [],
        dropped_links_count=extra.dropped_links_count,
        resource=_resource(carried, origin),
        scope=_scope(carried, origin),
    )


def span_events(row: Sequence[Any]) -> list[StoredEvent]:
    """The events of a row of RECORD_SELECT."""
    events = SpanRecordColumns._make(row[_RESOURCE_SCOPE_END:]).events
    return _EVENTS_DECODER.decode(events) if events else []


def log(row: Sequence[Any]) -> Log:
    """A row of LOG_SELECT."""
    core = LogColumns._make(row[:_LOG_END])
    carried, origin = (
        AttributeColumns._make(row[_LOG_END:_LOG_ATTRIBUTES_END]),
        ResourceScopeColumns._make(row[_LOG_ATTRIBUTES_END:]),
    )
    return Log(
        id=f"{core.batch_id:016x}-{core.row}",
        time=format_timestamp(core.time_ns),
        time_source=TIME_SOURCES[core.time_source],
        observed_time=format_timestamp(core.observed_ns) if core.observed_ns else None,
        trace_id=hex_id(core.trace_id),
        span_id=hex_id(core.span_id),
        flags=core.flags,
        severity_number=core.severity_number,
        severity_text=core.severity_text or None,
        event_name=core.event_name or None,
        body=json_value(core.body, core.body_type),
        environment=carried.environment,
        release=carried.release or None,
        service_name=carried.service_name or None,
        attributes=merged_attributes(carried),
        dropped_attributes_count=origin.dropped_attributes_count,
        resource=_resource(carried, origin),
        scope=_scope(carried, origin),
    )


def span_page(rows: Sequence[Sequence[Any]], next_cursor: str | None) -> SpanPage:
    """Rows of SPAN_SELECT as a page."""
    return SpanPage([span(row) for row in rows], next_cursor, next_cursor is not None)


def log_page(rows: Sequence[Sequence[Any]], next_cursor: str | None) -> LogPage:
    """Rows of LOG_SELECT as a page."""
    return LogPage([log(row) for row in rows], next_cursor, next_cursor is not None)


def hex_id(value: bytes) -> str | None:
    """Lower-case hex; None for zeros, which mean no id."""
    return value.hex() if any(value) else None


def _span_fields(core: SpanColumns, carried: AttributeColumns) -> dict[str, Any]:
    trace_id, span_id = core.trace_id.hex(), core.span_id.hex()
    return {
        "id": f"{trace_id}-{span_id}",
        "trace_id": trace_id,
        "span_id": span_id,
        "parent_span_id": hex_id(core.parent_span_id),
        "name": core.name,
        "kind": SPAN_KINDS[core.kind],
        "start_time": format_timestamp(core.start_ns),
        # The end is shown as it was sent, also before the start; only the duration is not negative.
        "end_time": format_timestamp(core.start_ns + core.duration_ns),
        "duration_ms": msgspec.Raw(format_millis(max(core.duration_ns, 0))),
        "status_code": STATUS_CODES[core.status_code],
        "status_message": core.status_message or None,
        "environment": carried.environment,
        "release": carried.release or None,
        "service_name": carried.service_name or None,
        "attributes": merged_attributes(carried),
    }


def _resource(carried: AttributeColumns, origin: ResourceScopeColumns) -> Resource:
    return Resource(
        attributes=decode_attribute_list(carried.resource),
        dropped_attributes_count=origin.resource_dropped_attributes_count,
        schema_url=origin.resource_schema_url or None,
        entity_refs=msgspec.Raw(origin.entity_refs or "[]"),
    )


def _scope(carried: AttributeColumns, origin: ResourceScopeColumns) -> InstrumentationScope:
    return InstrumentationScope(
        name=carried.scope_name or None,
        version=carried.scope_version or None,
        attributes=decode_attribute_list(carried.scope),
        dropped_attributes_count=origin.scope_dropped_attributes_count,
        schema_url=origin.scope_schema_url or None,
    )


def _event(stored: StoredEvent) -> SpanEvent:
    return SpanEvent(
        time=format_timestamp(stored.time_unix_nano),
        name=stored.name,
        attributes=stored.attributes,
        dropped_attributes_count=stored.dropped_attributes_count,
    )


def _link(stored: _StoredLink) -> Link:
    return Link(
        trace_id=stored.trace_id or None,
        span_id=stored.span_id or None,
        trace_state=stored.trace_state or None,
        attributes=stored.attributes,
        dropped_attributes_count=stored.dropped_attributes_count,
        flags=stored.flags,
    )
