"""Response schemas of lists: Span (specification 2.3), the full span record, log records, and pages of them."""

from typing import Annotated, Final

import msgspec

from query.values import (
    Attributes,
    Count,
    MergedAttributes,
    Millis,
    RawAttributes,
    SpanId,
    SpanKind,
    StatusCode,
    Timestamp,
    TraceId,
    raw_json,
)

TIME_SOURCES: Final = ("time", "observedTime", "receiveTime")

_OptionalText = Annotated[str | None, msgspec.Meta(description="Null if the field was not sent.")]
_Dropped = Annotated[
    int, msgspec.Meta(ge=0, description="Number of attributes that the client or a limit of Sluice dropped.")
]
_Environment = Annotated[
    str, msgspec.Meta(description="`deployment.environment.name`; `unknown` if the attribute was not sent.")
]
_Release = Annotated[str | None, msgspec.Meta(description="`service.version` of the resource.")]
_Service = Annotated[str | None, msgspec.Meta(description="`service.name` of the resource.")]


class Span(msgspec.Struct, rename="camel"):
    """A span in a list: its built-in fields, and the attributes of span, resource and scope as one object."""

    # Specification 2.3, exactly its keys.
    id: Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}-[0-9a-f]{16}$", description="`<traceId>-<spanId>`.")]
    trace_id: TraceId
    span_id: SpanId
    parent_span_id: Annotated[SpanId | None, msgspec.Meta(description="Null for the root of a trace.")]
    name: str
    kind: SpanKind
    start_time: Timestamp
    end_time: Annotated[Timestamp, msgspec.Meta(description="The end as received. It may be before the start.")]
    duration_ms: Millis
    status_code: StatusCode
    status_message: _OptionalText
    environment: _Environment
    release: _Release
    service_name: _Service
    attributes: MergedAttributes


class Resource(msgspec.Struct, rename="camel"):
    """The entity that produced an item, as received."""

    attributes: Attributes
    dropped_attributes_count: _Dropped
    schema_url: _OptionalText
    entity_refs: Annotated[
        msgspec.Raw, raw_json("References to the attributes that identify the entity.", type="array")
    ]


class InstrumentationScope(msgspec.Struct, rename="camel"):
    """The instrumentation that produced an item."""

    name: _OptionalText
    version: _OptionalText
    attributes: Attributes
    dropped_attributes_count: _Dropped
    schema_url: _OptionalText


class SpanEvent(msgspec.Struct, rename="camel"):
    """An event of a span."""

    time: Timestamp
    name: str
    attributes: RawAttributes
    dropped_attributes_count: _Dropped
    resolved_stacktrace: Annotated[
        str | msgspec.UnsetType,
        msgspec.Meta(
            description="`exception.stacktrace` with frames of the original sources, resolved with the source maps of "
            "the release. Absent if no frame has a source map."
        ),
    ] = msgspec.UNSET


class Link(msgspec.Struct, rename="camel"):
    """A link of a span to another span, which may be stored elsewhere."""

    trace_id: str | None
    span_id: str | None
    trace_state: _OptionalText
    attributes: RawAttributes
    dropped_attributes_count: _Dropped
    flags: Count


_Truncations = Annotated[
    msgspec.Raw,
    raw_json(
        "Truncated values, each with a JSON Pointer into this record and its size in bytes as sent. The pointer to a "
        "truncated key is the pointer to its attribute, followed by `/#`. Empty if nothing was truncated.",
        type="array",
        items={
            "type": "object",
            "properties": {"path": {"type": "string"}, "bytes": {"type": "integer"}},
            "required": ["path", "bytes"],
            "additionalProperties": False,
        },
    ),
]


class SpanRecord(Span, rename="camel"):
    """The full record of a span."""

    trace_state: _OptionalText
    flags: Count
    dropped_attributes_count: _Dropped
    events: list[SpanEvent]
    dropped_events_count: Count
    links: list[Link]
    dropped_links_count: Count
    resource: Resource
    scope: InstrumentationScope
    truncations: _Truncations


class Log(msgspec.Struct, rename="camel"):
    """A full log record."""

    id: str
    time: Timestamp
    time_source: Annotated[
        str,
        msgspec.Meta(
            description="The origin of `time`.",
            extra_json_schema={"enum": list(TIME_SOURCES)},
        ),
    ]
    observed_time: Annotated[
        Timestamp | None, msgspec.Meta(description="Time at which a collector observed the record.")
    ]
    trace_id: Annotated[TraceId | None, msgspec.Meta(description="The record's trace.")]
    span_id: Annotated[SpanId | None, msgspec.Meta(description="The record's span.")]
    flags: Count
    severity_number: Annotated[int, msgspec.Meta(description="1 (trace) to 24 (fatal); 0 if no number was sent.")]
    severity_text: _OptionalText
    event_name: _OptionalText
    body: Annotated[object, msgspec.Meta(description="The body as received, of any type.")]
    environment: _Environment
    release: _Release
    service_name: _Service
    attributes: MergedAttributes
    dropped_attributes_count: _Dropped
    resource: Resource
    scope: InstrumentationScope
    truncations: _Truncations


_Cursor = Annotated[
    str | None, msgspec.Meta(description="Pass this text as `cursor` to get the next page; null on the last page.")
]


class SpanPage(msgspec.Struct, rename="camel"):
    """A page of spans, newest first."""

    # Specification 4.2, as for every list.
    data: list[Span]
    next_cursor: _Cursor
    has_more: bool


class LogPage(msgspec.Struct, rename="camel"):
    """A page of log records, newest first."""

    data: list[Log]
    next_cursor: _Cursor
    has_more: bool
