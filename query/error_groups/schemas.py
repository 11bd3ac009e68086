"""Response schemas of the error endpoints."""

from typing import Annotated, Final

import msgspec

from chassis.issues import IssueStatus
from query.rows import SOURCES
from query.search.schemas import Log, Span
from query.values import Count, Range, SpanId, Timestamp, TraceId

SPARKLINE_PARTS: Final = 24

Fingerprint = Annotated[
    str, msgspec.Meta(pattern="^[0-9a-f]{32}$", description="The fingerprint: identifies the error in all releases.")
]
OccurrenceId = Annotated[
    str, msgspec.Meta(pattern="^[0-9a-f]{40}$", description="The id of the occurrence: opaque and stable.")
]

_Type = Annotated[str | None, msgspec.Meta(description="`exception.type`.")]
_Message = Annotated[str | None, msgspec.Meta(description="`exception.message` of the latest occurrence.")]
_Source = Annotated[
    str,
    msgspec.Meta(
        description="Where the error was recorded: in a span event or in a log record.",
        extra_json_schema={"enum": list(SOURCES)},
    ),
]
_Cursor = Annotated[
    str | None, msgspec.Meta(description="Pass this text as `cursor` to get the next page; null on the last page.")
]


class Extent(msgspec.Struct, rename="camel"):
    """The number of occurrences in the window, and their first and last time."""

    count: Count
    first_seen: Timestamp
    last_seen: Timestamp


class ReleaseExtent(Extent, rename="camel"):
    """Occurrences of one release."""

    release: Annotated[str | None, msgspec.Meta(description="`service.version`; null if the attribute is not set.")]


class EnvironmentExtent(Extent, rename="camel"):
    """Occurrences in one environment."""

    environment: str


class ServiceExtent(Extent, rename="camel"):
    """Occurrences in one service."""

    service_name: Annotated[str | None, msgspec.Meta(description="`service.name`; null if the attribute is not set.")]


class SourceExtent(Extent, rename="camel"):
    """Occurrences from one source."""

    source: _Source


class ErrorIssue(msgspec.Struct, rename="camel"):
    """The issue that counts the occurrences of an error."""

    id: str
    short_id: Annotated[str, msgspec.Meta(examples=["CHECKOUT-12"])]
    status: IssueStatus


class ErrorGroup(msgspec.Struct, rename="camel", kw_only=True):
    """The matching occurrences of one error in the window."""

    fingerprint: Fingerprint
    type: _Type
    message: _Message
    count: Annotated[int, msgspec.Meta(ge=0, description="Number of stored occurrences.")]
    first_seen: Annotated[
        Timestamp | None, msgspec.Meta(description="First occurrence in the window; null if there is none.")
    ]
    last_seen: Annotated[
        Timestamp | None, msgspec.Meta(description="Last occurrence in the window; null if there is none.")
    ]
    first_ever: Annotated[
        Timestamp | None,
        msgspec.Meta(
            description="First stored occurrence in the project, independent of the window and the filters. If it is "
            "not before `from`, the error is new. Null if the project has too many occurrences to find it."
        ),
    ]
    first_release: Annotated[str | None, msgspec.Meta(description="The release of the first occurrence.")]
    last_release: Annotated[str | None, msgspec.Meta(description="The release of the last occurrence.")]
    latest_occurrence_id: OccurrenceId | None
    traces: Annotated[int, msgspec.Meta(ge=0, description="Number of distinct traces with an occurrence.")]
    traces_exact: Annotated[
        bool,
        msgspec.Meta(
            description="False: `traces` is an estimate, because there are too many traces to count in memory."
        ),
    ]
    facets_exact: Annotated[
        bool,
        msgspec.Meta(
            description="False: there are too many releases, environments or services to count in memory. For each "
            "kind with more than 20 values, the count and the list of the most frequent are estimates."
        ),
    ]
    releases: Annotated[list[ReleaseExtent], msgspec.Meta(description="The most frequent, at most 20.")]
    release_count: Annotated[int, msgspec.Meta(ge=0, description="Number of distinct values; null counts as one.")]
    environments: Annotated[list[EnvironmentExtent], msgspec.Meta(description="The most frequent, at most 20.")]
    environment_count: Count
    services: Annotated[list[ServiceExtent], msgspec.Meta(description="The most frequent, at most 20.")]
    service_count: Annotated[int, msgspec.Meta(ge=0, description="Number of distinct values; null counts as one.")]
    sources: list[SourceExtent]
    issue: Annotated[
        ErrorIssue | msgspec.UnsetType | None,
        msgspec.Meta(
            description="Null: the error has no issue (yet). Absent while the service cannot read issues, which are "
            "in the relational database."
        ),
    ] = msgspec.UNSET


class ListedErrorGroup(ErrorGroup, rename="camel", kw_only=True):
    """An error in a list, with its number of occurrences in each of 24 equal parts of `range`, including zeros."""

    series: Annotated[list[Count], msgspec.Meta(min_length=SPARKLINE_PARTS, max_length=SPARKLINE_PARTS)]


class ErrorPage(msgspec.Struct, rename="camel"):
    """A page of errors. `range`: the window of all pages."""

    data: list[ListedErrorGroup]
    next_cursor: _Cursor
    has_more: bool
    range: Range


class HistoryPoint(msgspec.Struct, rename="camel"):
    """Number of occurrences in one interval."""

    bucket: Annotated[
        str,
        msgspec.Meta(
            description="Start of the interval, which may lie before the window.",
            examples=["2026-11-20T15:15:00Z"],
            extra_json_schema={"format": "date-time"},
        ),
    ]
    count: Count


class ErrorHistory(ErrorGroup, rename="camel", kw_only=True):
    """One error, and its number of occurrences in each interval of the window, including zeros."""

    range: Range
    interval_minutes: Annotated[int, msgspec.Meta(ge=1)]
    series: list[HistoryPoint]


class Occurrence(msgspec.Struct, rename="camel"):
    """An error occurrence as lists show it."""

    id: OccurrenceId
    fingerprint: Fingerprint
    time: Annotated[
        Timestamp,
        msgspec.Meta(description="Time of the log record, or start of the span, that recorded the occurrence."),
    ]
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
    has_more: Annotated[bool, msgspec.Meta(description="Whether there are more records on this side.")]


class LogContext(msgspec.Struct, rename="camel"):
    """Log records around the time at which an error was raised."""

    of: Annotated[
        str,
        msgspec.Meta(
            description="`trace`: the log records of the occurrence's trace. `service`: the occurrence has no trace "
            "with log records, so these are the log records of its service and environment within an hour.",
            extra_json_schema={"enum": ["trace", "service"]},
        ),
    ]
    before: Annotated[
        LogPart,
        msgspec.Meta(
            description="Records up to the time of the occurrence. If the occurrence was recorded in a log record, "
            "this record is one of them."
        ),
    ]
    after: LogPart


class OccurrenceRecord(Occurrence, rename="camel"):
    """The full record of an error occurrence."""

    stacktrace: Annotated[str | None, msgspec.Meta(description="`exception.stacktrace`, as received.")]
    resolved_stacktrace: Annotated[
        str | None,
        msgspec.Meta(
            description="The stack trace with frames of the original sources, resolved with the source maps of the "
            "release. Null if no frame has a source map."
        ),
    ]
    raised_at: Annotated[Timestamp, msgspec.Meta(description="Time of the span event; for a log record, `time`.")]
    span: Annotated[
        Span | None,
        msgspec.Meta(description="The span of the occurrence; null if it has none, or if the span is not stored."),
    ]
    logs: Annotated[
        LogContext | None,
        msgspec.Meta(description="Log records around the occurrence; null if it has neither a trace nor a service."),
    ]
