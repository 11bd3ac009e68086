"""OTLP/JSON messages as typed structures. Names are in lowerCamelCase (`canonical` replaces snake_case), unknown fields
are ignored, and `null` means absent.

Resources, scopes and items stay raw until they are read one at a time, so an error in one of them does not affect the
others, and only one item's structures are in memory at a time.
Mapping: https://opentelemetry.io/docs/specs/otlp/#json-protobuf-encoding
"""

from typing import Final, TypeVar

import msgspec

Enum = int | str  # the number or the name of a value
Number = int | float | str  # OTLP allows 64-bit integers, and protobuf doubles, as numbers or strings


class _Message(msgspec.Struct, rename="camel", gc=False, omit_defaults=True):
    """Base of all messages. Messages have no references to their parents, so they do not need the cycle collector.
    Absent members are not encoded, so that the strings of a message can be counted (`reading.MessageDecoder`).
    """


class AnyValue(_Message):
    string_value: str | None = None
    bool_value: bool | None = None
    int_value: Number | None = None
    double_value: Number | None = None
    array_value: "ArrayValue | None" = None
    kvlist_value: "KeyValueList | None" = None
    bytes_value: str | None = None
    string_value_strindex: Number | None = None


class ArrayValue(_Message):
    values: list[AnyValue | None] | None = None


class KeyValue(_Message):
    key: str | None = None
    value: AnyValue | None = None


KeyValues = list[KeyValue | None]


class KeyValueList(_Message):
    values: KeyValues | None = None


class EntityRef(_Message):
    schema_url: str | None = None
    type: str | None = None
    id_keys: list[str] | None = None
    description_keys: list[str] | None = None


class Resource(_Message):
    attributes: KeyValues | None = None
    dropped_attributes_count: Number | None = None
    entity_refs: list[EntityRef | None] | None = None


class InstrumentationScope(_Message):
    name: str | None = None
    version: str | None = None
    attributes: KeyValues | None = None
    dropped_attributes_count: Number | None = None


class Event(_Message):
    time_unix_nano: Number | None = None
    name: str | None = None
    attributes: KeyValues | None = None
    dropped_attributes_count: Number | None = None


class Link(_Message):
    trace_id: str | None = None
    span_id: str | None = None
    trace_state: str | None = None
    attributes: KeyValues | None = None
    dropped_attributes_count: Number | None = None
    flags: Number | None = None


class Status(_Message):
    message: str | None = None
    code: Enum | None = None


class Span(_Message):
    trace_id: str | None = None
    span_id: str | None = None
    trace_state: str | None = None
    parent_span_id: str | None = None
    flags: Number | None = None
    name: str | None = None
    kind: Enum | None = None
    start_time_unix_nano: Number | None = None
    end_time_unix_nano: Number | None = None
    attributes: KeyValues | None = None
    dropped_attributes_count: Number | None = None
    events: list[Event | None] | None = None
    dropped_events_count: Number | None = None
    links: list[Link | None] | None = None
    dropped_links_count: Number | None = None
    status: Status | None = None


class LogRecord(_Message):
    time_unix_nano: Number | None = None
    observed_time_unix_nano: Number | None = None
    severity_number: Enum | None = None
    severity_text: str | None = None
    body: AnyValue | None = None
    attributes: KeyValues | None = None
    dropped_attributes_count: Number | None = None
    flags: Number | None = None
    trace_id: str | None = None
    span_id: str | None = None
    event_name: str | None = None


_ABSENT: Final = msgspec.Raw()  # shared: a request may have millions of scopes


class ScopeSpans(_Message):
    scope: msgspec.Raw = _ABSENT
    items: msgspec.Raw = msgspec.field(name="spans", default=_ABSENT)
    schema_url: msgspec.Raw = _ABSENT


class ScopeLogs(_Message):
    scope: msgspec.Raw = _ABSENT
    items: msgspec.Raw = msgspec.field(name="logRecords", default=_ABSENT)
    schema_url: msgspec.Raw = _ABSENT


class ResourceSpans(_Message):
    resource: msgspec.Raw = _ABSENT
    scopes: list[ScopeSpans | None] | None = msgspec.field(name="scopeSpans", default=None)
    schema_url: msgspec.Raw = _ABSENT


class ResourceLogs(_Message):
    resource: msgspec.Raw = _ABSENT
    scopes: list[ScopeLogs | None] | None = msgspec.field(name="scopeLogs", default=None)
    schema_url: msgspec.Raw = _ABSENT


class TracesRequest(_Message):
    resources: list[ResourceSpans | None] | None = msgspec.field(name="resourceSpans", default=None)


class LogsRequest(_Message):
    resources: list[ResourceLogs | None] | None = msgspec.field(name="resourceLogs", default=None)


class AnyObject(_Message):
    """Accepts any object and keeps no data of it, for counting."""


T = TypeVar("T")


def enumerate_present(elements: list[T | None] | None) -> list[tuple[int, T]]:
    """The elements of a list that are not null, with their indexes."""
    return [(index, element) for index, element in enumerate(elements or ()) if element is not None]


class _FullScopeSpans(_Message):
    scope: InstrumentationScope | None = None
    items: list[Span | None] | None = msgspec.field(name="spans", default=None)
    schema_url: str | None = None


class _FullScopeLogs(_Message):
    scope: InstrumentationScope | None = None
    items: list[LogRecord | None] | None = msgspec.field(name="logRecords", default=None)
    schema_url: str | None = None


class _FullResourceSpans(_Message):
    resource: Resource | None = None
    scopes: list[_FullScopeSpans | None] | None = msgspec.field(name="scopeSpans", default=None)
    schema_url: str | None = None


class _FullResourceLogs(_Message):
    resource: Resource | None = None
    scopes: list[_FullScopeLogs | None] | None = msgspec.field(name="scopeLogs", default=None)
    schema_url: str | None = None


class FullTracesRequest(_Message):
    """A request with decoded items, to find all errors of a small request."""

    resources: list[_FullResourceSpans | None] | None = msgspec.field(name="resourceSpans", default=None)


class FullLogsRequest(_Message):
    """The same for log records."""

    resources: list[_FullResourceLogs | None] | None = msgspec.field(name="resourceLogs", default=None)
