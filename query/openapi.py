"""Parameters, bodies and responses of the explore endpoints for `/openapi.json` and `/docs`; bounds are the constants
that validation uses.
"""

from typing import Annotated, Final, Literal

from msgspec import Meta

from chassis.changes import MAX_NAME_LENGTH, ChangeKind
from chassis.http.operation import Body, Operation, Parameter, ResponseSpec, Tag, json_content
from query import fields
from query.analysis.aggregate import Aggregate, AggregateRequest
from query.analysis.attribute_values import DEFAULT_VALUES, MAX_VALUES, AttributeValues
from query.analysis.attributes import Keys
from query.analysis.compare import CompareRequest, SpanComparison
from query.analysis.figures import Figures, FiguresRequest
from query.analysis.heatmap import HeatmapRequest, SpanHeatmap
from query.analysis.service_map import ServiceMap
from query.changes.schemas import ChangeEventPage
from query.error_groups.handlers import MAX_ID
from query.error_groups.occurrences import DEFAULT_LOGS, MAX_LOGS
from query.error_groups.schemas import ErrorHistory, ErrorPage, OccurrencePage, OccurrenceRecord
from query.fields import TelemetryTable
from query.live.position import MAX_POSITION
from query.live.tail import LogTail, SpanTail
from query.logs.schemas import LogCounts, LogCountsRequest, LogKeys
from query.request.filters import MAX_FILTERS, MAX_TEXT, MAX_VALUE, KeyText
from query.request.parameters import DEFAULT_LIMIT, MAX_CURSOR, MAX_LIMIT, MAX_SPAN_ID, MAX_TRACE_ID, SORTS
from query.search.schemas import LogPage, SpanPage
from query.search.traces import TracePage
from query.send_buffer import TRUNCATED_HEADER
from query.statements import ErrorOrder
from query.statements.window import DEFAULT_HOURS, MAX_HOURS
from query.timestamps import TIMESTAMP_PATTERN
from query.trace.columns import TraceTable
from query.trace.read import SpanDetail, Waterfall

SPANS: Final = Tag("spans", "Spans of a project: list, aggregate and compare them.")
LOGS: Final = Tag("logs", "Log records of a project: list and count them.")
TRACES: Final = Tag("traces", "One trace.")
ERRORS: Final = Tag("errors", "Exceptions, grouped by fingerprint.")
CHANGE_EVENTS: Final = Tag("change-events", "What changed: deployments, releases and flags on a time line.")

TimestampText = Annotated[str, Meta(pattern=TIMESTAMP_PATTERN)]

FROM: Final = Parameter(
    "from",
    "query",
    TimestampText,
    "Start of the window, inclusive: RFC 3339, Unix time in seconds to nanoseconds, `now`, or `now-15m` "
    f"(ms, s, m, h, d, w). At most {MAX_HOURS} hours before `to`; by default `hours` before it.",
)
TO: Final = Parameter(
    "to",
    "query",
    TimestampText,
    "End of the window, exclusive, in the same formats as `from`; by default now, or `hours` after `from`.",
)
HOURS: Final = Parameter(
    "hours",
    "query",
    Annotated[int, Meta(ge=1, le=MAX_HOURS)],
    f"Length of the window: from `from` on, otherwise up to `to`. With both it must be the time between them. Without "
    f"either by default {DEFAULT_HOURS}.",
    example=3,
)
TIME: Final = (FROM, TO, HOURS)


def _filters(signal: TelemetryTable, example: str) -> Parameter:
    """The `filters` parameter of a list; `example` is one that this signal supports."""
    keys = ", ".join(
        f"`{field.name}` ({', '.join(field.names)})" if field.names else f"`{field.name}`"
        for field in signal.fields.values()
    )
    return Parameter(
        "filters",
        "query",
        Annotated[str, Meta(max_length=MAX_TEXT)],
        'Filters, all of which must match: `key:value`, `-key:value`, `key:*piece*`, `key:*"two words"*`, `key:>1`, '
        "`has:key`, or JSON: "
        f'`[{{"key": "key", "op": "eq", "value": "value"}}]`. At most {MAX_FILTERS} filters. Keys: {keys}'
        f"{', or an attribute' if signal.has_attributes else ''}.",
        example=example,
    )


FILTERS_OF_SPANS: Final = _filters(fields.SPANS, "serviceName:shop durationMs:>100")
FILTERS_OF_LOGS: Final = _filters(fields.LOGS, "severityNumber:>=17")
FILTERS_OF_ERRORS: Final = _filters(fields.ERRORS, "environment:production")
LIMIT: Final = Parameter(
    "limit",
    "query",
    Annotated[int, Meta(ge=1, le=MAX_LIMIT)],
    "Maximum number of rows in a page; a page of large rows may have fewer.",
    default=DEFAULT_LIMIT,
)
CURSOR: Final = Parameter(
    "cursor",
    "query",
    Annotated[str, Meta(min_length=1, max_length=MAX_CURSOR)],
    "`nextCursor` of the previous page. All other parameters except `limit` must be unchanged.",
)
TRACE: Final = Parameter(
    "traceId",
    "query",
    Annotated[str, Meta(min_length=1, max_length=MAX_TRACE_ID)],
    "Return only rows of this trace: 32 or 16 hexadecimal digits. Without a time window, that of the trace applies.",
)
TRACE_IN_PATH: Final = Parameter(
    "traceId",
    "path",
    Annotated[str, Meta(min_length=1, max_length=MAX_TRACE_ID)],
    "Trace id: 32 or 16 hexadecimal digits in either case. Any other value returns 404.",
)
SPAN_IN_PATH: Final = Parameter(
    "spanId",
    "path",
    Annotated[str, Meta(min_length=1, max_length=MAX_SPAN_ID)],
    "Span id: 16 hexadecimal digits in either case.",
)
FINGERPRINT_IN_PATH: Final = Parameter(
    "fingerprint",
    "path",
    Annotated[str, Meta(min_length=1, max_length=MAX_ID)],
    "Fingerprint of the error: 32 hexadecimal digits. Any other value returns 404.",
)
OCCURRENCE_IN_PATH: Final = Parameter(
    "occurrenceId",
    "path",
    Annotated[str, Meta(min_length=1, max_length=MAX_ID)],
    "The `id` of the occurrence in lists.",
)
SORT: Final = Parameter(
    "sort",
    "query",
    ErrorOrder,
    "Order, always descending: by last occurrence, number of occurrences, or first occurrence in the window.",
    default=ErrorOrder.LAST_SEEN,
)
SPAN_SORT: Final = Parameter("sort", "query", Literal["time", "duration"], "Newest or longest first.", default=SORTS[0])
SURROUNDING_LOGS: Final = Parameter(
    "logs",
    "query",
    Annotated[int, Meta(ge=1, le=MAX_LOGS)],
    "Maximum number of log records before, and after, the occurrence.",
    default=DEFAULT_LOGS,
)
_SPAN_LIST: Final = (*TIME, TRACE, FILTERS_OF_SPANS, SPAN_SORT, LIMIT, CURSOR)
_LOG_LIST: Final = (*TIME, TRACE, FILTERS_OF_LOGS, LIMIT, CURSOR)

LIST_ATTRIBUTES: Final = Operation(
    "listAttributes",
    SPANS,
    (
        ResponseSpec(
            "The keys for filters and groups, those of most spans first.",
            json_content(Keys),
            headers={TRUNCATED_HEADER: "`keys` if there are more keys than were listed."},
        ),
    ),
    TIME,
)


def _values_of(filters: Parameter, example: str) -> tuple[Parameter, ...]:
    """The parameters of a list of values; `example` is a key."""
    return (
        Parameter("key", "query", KeyText, "The key, as in filters.", required=True, example=example),
        Parameter("prefix", "query", Annotated[str, Meta(max_length=MAX_VALUE)], "Only values that start with this."),
        *TIME,
        filters,
        Parameter(
            "limit", "query", Annotated[int, Meta(ge=1, le=MAX_VALUES)], "Maximum number.", default=DEFAULT_VALUES
        ),
    )


LIST_ATTRIBUTE_VALUES: Final = Operation(
    "listAttributeValues",
    SPANS,
    (ResponseSpec("The values.", json_content(AttributeValues)),),
    _values_of(FILTERS_OF_SPANS, "http.route"),
)
LIST_LOG_ATTRIBUTES: Final = Operation(
    "listLogAttributes",
    LOGS,
    (
        ResponseSpec(
            "The keys for filters and groups, those of most records first.",
            json_content(LogKeys),
            headers={TRUNCATED_HEADER: "`keys` if there are more keys than were listed."},
        ),
    ),
    TIME,
)
LIST_LOG_ATTRIBUTE_VALUES: Final = Operation(
    "listLogAttributeValues",
    LOGS,
    (ResponseSpec("The values.", json_content(AttributeValues)),),
    _values_of(FILTERS_OF_LOGS, "serviceName"),
)
AGGREGATE_LOGS: Final = Operation(
    "aggregateLogs",
    LOGS,
    (ResponseSpec("The counts.", json_content(LogCounts)),),
    body=Body(
        json_content(LogCountsRequest),
        "Without `groupBy` all records are one group.",
        example={
            "groupBy": "severityNumber",
            "filters": [{"key": "serviceName", "op": "eq", "value": "shop"}],
            "hours": 3,
            "limit": 25,
            "intervalSeconds": 300,
        },
    ),
)
AGGREGATE_SPANS: Final = Operation(
    "aggregateSpans",
    SPANS,
    (ResponseSpec("The aggregates.", json_content(Aggregate)),),
    body=Body(
        json_content(AggregateRequest),
        "`field` is required by every function except `count`. Times have the same formats as in query "
        "strings, or are numbers.",
        example={
            "fn": "p95",
            "field": "durationMs",
            "groupBy": "serviceName",
            "filters": [{"key": "kind", "op": "eq", "value": "SERVER"}],
            "hours": 3,
        },
    ),
)
SPAN_FIGURES: Final = Operation(
    "computeSpanFigures",
    SPANS,
    (ResponseSpec("The figures.", json_content(Figures)),),
    body=Body(
        json_content(FiguresRequest),
        "`field` is required by every function except `count`. The filters of a figure restrict what it covers; the "
        "`filters` of the body restrict everything.",
        example={
            "figures": [
                {"fn": "count"},
                {"fn": "count", "filters": [{"key": "statusCode", "op": "eq", "value": "ERROR"}]},
                {"fn": "p95", "field": "durationMs"},
            ],
            "groupBy": ["serviceName", "name"],
            "filters": [{"key": "kind", "op": "eq", "value": "SERVER"}],
            "hours": 3,
            "intervalSeconds": 300,
        },
    ),
)
SPAN_HEATMAP: Final = Operation(
    "computeSpanHeatmap",
    SPANS,
    (ResponseSpec("The cells that have spans.", json_content(SpanHeatmap)),),
    body=Body(
        json_content(HeatmapRequest),
        "`rowsPerOctave` is the number of rows from a value to twice that value.",
        example={
            "field": "durationMs",
            "filters": [{"key": "serviceName", "op": "eq", "value": "shop"}],
            "hours": 3,
            "columns": 60,
            "rowsPerOctave": 4,
        },
    ),
)
COMPARE_SPANS: Final = Operation(
    "compareSpans",
    SPANS,
    (ResponseSpec("The values over-represented in the spike.", json_content(SpanComparison)),),
    body=Body(
        json_content(CompareRequest),
        "Spans of the spike are excluded from the baseline. Both may have the same window if their filters differ.",
        example={
            "spike": {
                "from": "now-15m",
                "to": "now",
                "filters": [{"key": "durationMs", "op": "gt", "value": "500"}],
            },
            "baseline": {"from": "now-3h", "to": "now"},
            "filters": [{"key": "serviceName", "op": "eq", "value": "shop"}],
        },
    ),
)
SHOW_SERVICE_MAP: Final = Operation(
    "showServiceMap", SPANS, (ResponseSpec("The map.", json_content(ServiceMap)),), (*TIME, FILTERS_OF_SPANS)
)
LIST_SPANS: Final = Operation(
    "listSpans", SPANS, (ResponseSpec("A page of spans.", json_content(SpanPage)),), _SPAN_LIST
)
LIST_LOGS: Final = Operation(
    "listLogs", LOGS, (ResponseSpec("A page of log records.", json_content(LogPage)),), _LOG_LIST
)
AFTER: Final = Parameter(
    "after",
    "query",
    Annotated[str, Meta(min_length=1, max_length=MAX_POSITION)],
    "`next` of the previous answer. Without it the tail begins with the last minute.",
)
TAIL_SPANS: Final = Operation(
    "tailSpans",
    SPANS,
    (ResponseSpec("The spans that ended since.", json_content(SpanTail)),),
    (AFTER, FILTERS_OF_SPANS, LIMIT),
)
TAIL_LOGS: Final = Operation(
    "tailLogs",
    LOGS,
    (ResponseSpec("The log records since.", json_content(LogTail)),),
    (AFTER, FILTERS_OF_LOGS, LIMIT),
)
LIST_TRACE_LOGS: Final = Operation(
    "listTraceLogs",
    TRACES,
    (ResponseSpec("A page of log records.", json_content(LogPage)),),
    (TRACE_IN_PATH, *_LOG_LIST),
)
LIST_TRACES: Final = Operation(
    "listTraces",
    TRACES,
    (ResponseSpec("A page of traces.", json_content(TracePage)),),
    (
        *TIME,
        FILTERS_OF_SPANS,
        SPAN_SORT,
        LIMIT,
        CURSOR,
    ),
)
SHOW_TRACE_ROWS: Final = Operation(
    "showTraceRows",
    TRACES,
    (ResponseSpec("The trace.", json_content(TraceTable)),),
    (
        TRACE_IN_PATH,
        Parameter(
            "root",
            "query",
            Annotated[str, Meta(pattern="^[0-9a-fA-F]{16}$")],
            "Only the subtree of this span.",
            example="00f067aa0ba902b7",
        ),
    ),
)
SHOW_WATERFALL: Final = Operation(
    "showWaterfall", TRACES, (ResponseSpec("The trace.", json_content(Waterfall)),), (TRACE_IN_PATH,)
)
SHOW_SPAN: Final = Operation(
    "showSpan", TRACES, (ResponseSpec("The span.", json_content(SpanDetail)),), (TRACE_IN_PATH, SPAN_IN_PATH)
)
LIST_ERRORS: Final = Operation(
    "listErrors",
    ERRORS,
    (ResponseSpec("A page of errors.", json_content(ErrorPage)),),
    (*TIME, FILTERS_OF_ERRORS, SORT, LIMIT, CURSOR),
)
SHOW_ERROR: Final = Operation(
    "showError",
    ERRORS,
    (ResponseSpec("The error.", json_content(ErrorHistory)),),
    (FINGERPRINT_IN_PATH, *TIME, FILTERS_OF_ERRORS),
)
LIST_OCCURRENCES: Final = Operation(
    "listErrorOccurrences",
    ERRORS,
    (ResponseSpec("A page of occurrences.", json_content(OccurrencePage)),),
    (FINGERPRINT_IN_PATH, *TIME, FILTERS_OF_ERRORS, LIMIT, CURSOR),
)
SHOW_OCCURRENCE: Final = Operation(
    "showErrorOccurrence",
    ERRORS,
    (ResponseSpec("The occurrence.", json_content(OccurrenceRecord)),),
    (FINGERPRINT_IN_PATH, OCCURRENCE_IN_PATH, SURROUNDING_LOGS),
)
LIST_CHANGE_EVENTS: Final = Operation(
    "listChangeEvents",
    CHANGE_EVENTS,
    (ResponseSpec("A page of change events.", json_content(ChangeEventPage)),),
    (
        *TIME,
        Parameter("kind", "query", ChangeKind, "Only changes of this kind."),
        Parameter(
            "environment",
            "query",
            Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH)],
            "Only changes in this environment, and those in all of them.",
            example="production",
        ),
        Parameter(
            "service",
            "query",
            Annotated[str, Meta(min_length=1, max_length=MAX_NAME_LENGTH)],
            "Only changes of this service, and those of all of them.",
        ),
        LIMIT,
        CURSOR,
    ),
)
