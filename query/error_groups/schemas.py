"""Response schemas of the error endpoints."""

from typing import Annotated

import msgspec

from query.fields import SOURCES
from query.json_types import Count, Range, SpanId, Timestamp, TraceId
from query.search.schemas import Log, Span

Fingerprint = Annotated[
    str, msgspec.Meta(pattern="^[0-9a-f]{32}$", description="The same for the same error, whatever the release.")
]
OccurrenceId = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{40}$", description="Opaque; never changes.")]

_Type = Annotated[str | None, msgspec.Meta(description="`exception.type`.")]
_Message = Annotated[str | None, msgspec.Meta(description="`exception.message` of the latest occurrence.")]
_Source = Annotated[
    str,
    msgspec.Meta(
        description="What carried it: an event of a span, or a log record.",
        extra_json_schema={"enum": list(SOURCES)},
    ),
]
_Cursor = Annotated[
    str | None, msgspec.Meta(description="Ask with it as `cursor` for the next page. Null: there is none.")
]


class Extent(msgspec.Struct, rename="camel"):
    """How often, and between which times, it occurred in the window."""

    count: Count
    first_seen: Timestamp
    last_seen: Timestamp


class ReleaseExtent(Extent, rename="camel"):
    """Occurrences of one release."""

    release: Annotated[str | None, msgspec.Meta(description="`service.version`; null: without one.")]


class EnvironmentExtent(Extent, rename="camel"):
    """Occurrences in one environment."""

    environment: str


class ServiceExtent(Extent, rename="camel"):
    """Occurrences in one service."""

    service_name: Annotated[str | None, msgspec.Meta(description="`service.name`; null: without one.")]


class SourceExtent(Extent, rename="camel"):
    """Occurrences from one source."""

    source: _Source


class ErrorGroup(msgspec.Struct, rename="camel"):
    """The matching occurrences of one error in the window."""

    fingerprint: Fingerprint
    type: _Type
    message: _Message
    count: Annotated[int, msgspec.Meta(ge=0, description="Stored occurrences.")]
    first_seen: Annotated[Timestamp | None, msgspec.Meta(description="In the window; null: not at all.")]
    last_seen: Annotated[Timestamp | None, msgspec.Meta(description="In the window; null: not at all.")]
    first_release: Annotated[str | None, msgspec.Meta(description="The release that had it first.")]
    last_release: Annotated[str | None, msgspec.Meta(description="The release that had it last.")]
    latest_occurrence_id: OccurrenceId | None
    traces: Annotated[int, msgspec.Meta(ge=0, description="Distinct traces it occurred in.")]
    traces_exact: Annotated[
        bool, msgspec.Meta(description="False: `traces` is an estimate, as there are too many to count in memory.")
    ]
    facets_exact: Annotated[
        bool,
        msgspec.Meta(
            description="False: it has so many releases, environments or services that of each kind with more than 20 "
            "about the most frequent are shown, and how many there are is an estimate."
        ),
    ]
    releases: Annotated[list[ReleaseExtent], msgspec.Meta(description="The most frequent ones, at most 20.")]
    release_count: Annotated[int, msgspec.Meta(ge=0, description="How many there are, the missing one included.")]
    environments: Annotated[list[EnvironmentExtent], msgspec.Meta(description="The most frequent ones, at most 20.")]
    environment_count: Count
    services: Annotated[list[ServiceExtent], msgspec.Meta(description="The most frequent ones, at most 20.")]
    service_count: Annotated[int, msgspec.Meta(ge=0, description="How many there are, the missing one included.")]
    sources: list[SourceExtent]


class ErrorPage(msgspec.Struct, rename="camel"):
    """A page of groups."""

    data: list[ErrorGroup]
    next_cursor: _Cursor
    has_more: bool


class HistoryPoint(msgspec.Struct, rename="camel"):
    """How often an error occurred in one interval."""

    bucket: Annotated[
        str,
        msgspec.Meta(
            description="Start of the interval, which may lie before the window.",
            examples=["2026-11-20T15:15:00Z"],
            extra_json_schema={"format": "date-time"},
        ),
    ]
    count: Count


class ErrorHistory(ErrorGroup, rename="camel"):
    """One group, and how often it occurred over the window, including zeros."""

    range: Range
    interval_minutes: Annotated[int, msgspec.Meta(ge=1)]
    series: list[HistoryPoint]


class Occurrence(msgspec.Struct, rename="camel"):
    """An error occurrence as lists show it."""

    id: OccurrenceId
    fingerprint: Fingerprint
    time: Annotated[Timestamp, msgspec.Meta(description="Of the log record that carried it, or the start of its span.")]
    type: _Type
    message: Annotated[str | None, msgspec.Meta(description="`exception.message`.")]
    source: _Source
    trace_id: TraceId | None
    span_id: SpanId | None
    service_name: str | None
    environment: str
    release: str | None


class OccurrencePage(msgspec.Struct, rename="camel"):
    """A page of occurrences, newest first."""

    data: list[Occurrence]
    next_cursor: _Cursor
    has_more: bool


class LogPart(msgspec.Struct, rename="camel"):
    """Log records on one side of a point in time, in order of time."""

    data: list[Log]
    has_more: Annotated[bool, msgspec.Meta(description="Whether there are more, further away.")]


class LogContext(msgspec.Struct, rename="camel"):
    """Log records around the time at which an error was raised."""

    of: Annotated[
        str,
        msgspec.Meta(
            description="Of its trace; or of its service and environment, within an hour, where its trace has none.",
            extra_json_schema={"enum": ["trace", "service"]},
        ),
    ]
    before: Annotated[LogPart, msgspec.Meta(description="Up to its very moment, so with the record that carried it.")]
    after: LogPart


class OccurrenceRecord(Occurrence, rename="camel"):
    """The full record of an error occurrence."""

    stacktrace: Annotated[str | None, msgspec.Meta(description="`exception.stacktrace`, as it was sent.")]
    raised_at: Annotated[
        Timestamp, msgspec.Meta(description="Time of the event, where it is one of a span; else `time`.")
    ]
    span: Annotated[
        Span | None, msgspec.Meta(description="The span it belongs to; null: there is none, or none stored.")
    ]
    logs: Annotated[LogContext | None, msgspec.Meta(description="Null: it has neither a trace nor a service.")]
