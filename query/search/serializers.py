"""Serializes rows to the objects of the API (`query.search.schemas`)."""

from collections.abc import Sequence
from typing import Any, Final

import msgspec

from chassis.source_maps.resolver import ProjectResolver
from query.rows import (
    SPAN_KINDS,
    STATUS_CODES,
    AttributeColumns,
    LogColumns,
    ResourceScopeColumns,
    SpanColumns,
    SpanRecordColumns,
)
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
from query.values import decode_attribute_list, format_millis, format_timestamp, json_value, merged_attributes

EXCEPTION_EVENT: Final = "exception"
_SPAN_END: Final = len(SpanColumns._fields)
_ATTRIBUTES_END: Final = _SPAN_END + len(AttributeColumns._fields)
_RESOURCE_SCOPE_END: Final = _ATTRIBUTES_END + len(ResourceScopeColumns._fields)
_LOG_END: Final = len(LogColumns._fields)
_LOG_ATTRIBUTES_END: Final = _LOG_END + len(AttributeColumns._fields)


class StoredEvent(msgspec.Struct, rename="camel"):
    """A span event as the tables store it; its time is 0 if it was sent without one."""

    time_unix_nano: int
    name: str
    attributes: msgspec.Raw
    dropped_attributes_count: int


class _ExceptionAttributes(msgspec.Struct):
    """The attributes of an exception that are read."""

    stacktrace: Any = msgspec.field(name="exception.stacktrace", default=None)


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
    """Serialize a row of SPAN_SELECT."""
    return Span(
        **_span_fields(SpanColumns._make(row[:_SPAN_END]), AttributeColumns._make(row[_SPAN_END:_ATTRIBUTES_END]))
    )


def span_record(row: Sequence[Any], source_maps: ProjectResolver | None = None) -> SpanRecord:
    """Serialize a row of SPAN_RECORD_SELECT; `source_maps`: the source maps of its project. Call this in a thread."""
    attributes, resource_scope = (
        AttributeColumns._make(row[_SPAN_END:_ATTRIBUTES_END]),
        ResourceScopeColumns._make(row[_ATTRIBUTES_END:_RESOURCE_SCOPE_END]),
    )
    extra = SpanRecordColumns._make(row[_RESOURCE_SCOPE_END:])
    return SpanRecord(
        **_span_fields(SpanColumns._make(row[:_SPAN_END]), attributes),
        trace_state=extra.trace_state or None,
        flags=extra.flags,
        dropped_attributes_count=resource_scope.dropped_attributes_count,
        events=[_event(each, attributes.release, source_maps) for each in span_events(row)],
        dropped_events_count=extra.dropped_events_count,
        links=[_link(each) for each in _LINKS_DECODER.decode(extra.links)] if extra.links else [],
        dropped_links_count=extra.dropped_links_count,
        resource=_resource(attributes, resource_scope),
        scope=_scope(attributes, resource_scope),
        truncations=msgspec.Raw(resource_scope.truncations or "[]"),
    )


def span_events(row: Sequence[Any]) -> list[StoredEvent]:
    """The events of a row of SPAN_RECORD_SELECT."""
    events = SpanRecordColumns._make(row[_RESOURCE_SCOPE_END:]).events
    return _EVENTS_DECODER.decode(events) if events else []


def log(row: Sequence[Any]) -> Log:
    """Serialize a row of LOG_SELECT."""
    columns = LogColumns._make(row[:_LOG_END])
    attributes, resource_scope = (
        AttributeColumns._make(row[_LOG_END:_LOG_ATTRIBUTES_END]),
        ResourceScopeColumns._make(row[_LOG_ATTRIBUTES_END:]),
    )
    return Log(
        id=f"{columns.batch_id:016x}-{columns.row}",
        time=format_timestamp(columns.time_ns),
        time_source=TIME_SOURCES[columns.time_source],
        observed_time=format_timestamp(columns.observed_ns) if columns.observed_ns else None,
        trace_id=hex_id(columns.trace_id),
        span_id=hex_id(columns.span_id),
        flags=columns.flags,
        severity_number=columns.severity_number,
        severity_text=columns.severity_text or None,
        event_name=columns.event_name or None,
        body=json_value(columns.body, columns.body_type),
        environment=attributes.environment,
        release=attributes.release or None,
        service_name=attributes.service_name or None,
        attributes=merged_attributes(attributes),
        dropped_attributes_count=resource_scope.dropped_attributes_count,
        resource=_resource(attributes, resource_scope),
        scope=_scope(attributes, resource_scope),
        truncations=msgspec.Raw(resource_scope.truncations or "[]"),
    )


def span_page(rows: Sequence[Sequence[Any]], next_cursor: str | None) -> SpanPage:
    """A page of rows of SPAN_SELECT."""
    return SpanPage([span(row) for row in rows], next_cursor, next_cursor is not None)


def log_page(rows: Sequence[Sequence[Any]], next_cursor: str | None) -> LogPage:
    """A page of rows of LOG_SELECT."""
    return LogPage([log(row) for row in rows], next_cursor, next_cursor is not None)


def hex_id(value: bytes) -> str | None:
    """Lower-case hex; None for zeros, which mean that there is no id."""
    return value.hex() if any(value) else None


def _span_fields(columns: SpanColumns, attributes: AttributeColumns) -> dict[str, Any]:
    trace_id, span_id = columns.trace_id.hex(), columns.span_id.hex()
    return {
        "id": f"{trace_id}-{span_id}",
        "trace_id": trace_id,
        "span_id": span_id,
        "parent_span_id": hex_id(columns.parent_span_id),
        "name": columns.name,
        "kind": SPAN_KINDS[columns.kind],
        "start_time": format_timestamp(columns.start_ns),
        # The end is shown as sent, even if it is before the start; only the duration is never negative.
        "end_time": format_timestamp(columns.start_ns + columns.duration_ns),
        "duration_ms": msgspec.Raw(format_millis(max(columns.duration_ns, 0))),
        "status_code": STATUS_CODES[columns.status_code],
        "status_message": columns.status_message or None,
        "environment": attributes.environment,
        "release": attributes.release or None,
        "service_name": attributes.service_name or None,
        "attributes": merged_attributes(attributes),
    }


def _resource(attributes: AttributeColumns, resource_scope: ResourceScopeColumns) -> Resource:
    return Resource(
        attributes=decode_attribute_list(attributes.resource),
        dropped_attributes_count=resource_scope.resource_dropped_attributes_count,
        schema_url=resource_scope.resource_schema_url or None,
        entity_refs=msgspec.Raw(resource_scope.entity_refs or "[]"),
    )


def _scope(attributes: AttributeColumns, resource_scope: ResourceScopeColumns) -> InstrumentationScope:
    return InstrumentationScope(
        name=attributes.scope_name or None,
        version=attributes.scope_version or None,
        attributes=decode_attribute_list(attributes.scope),
        dropped_attributes_count=resource_scope.scope_dropped_attributes_count,
        schema_url=resource_scope.scope_schema_url or None,
    )


def _event(stored: StoredEvent, release: str, source_maps: ProjectResolver | None) -> SpanEvent:
    resolved: str | msgspec.UnsetType = msgspec.UNSET
    if source_maps is not None and stored.name == EXCEPTION_EVENT:
        sent = msgspec.json.decode(stored.attributes, type=_ExceptionAttributes).stacktrace
        if isinstance(sent, str) and (text := source_maps.resolve(release, sent)) != sent:
            resolved = text
    return SpanEvent(
        time=format_timestamp(stored.time_unix_nano),
        name=stored.name,
        attributes=stored.attributes,
        dropped_attributes_count=stored.dropped_attributes_count,
        resolved_stacktrace=resolved,
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
