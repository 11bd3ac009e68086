"""Parameters, bodies and responses of the explore endpoints for `/openapi.json` and `/docs`; bounds are the constants
that validation uses.
"""

from typing import Annotated, Final

from msgspec import Meta

from chassis.http.operation import Body, Operation, Parameter, ResponseSpec, Tag, json_content
from query import fields
from query.analysis.aggregate import Aggregate, AggregateRequest
from query.analysis.attributes import Keys
from query.analysis.compare import CompareRequest, SpanComparison
from query.error_groups.handlers import MAX_ID
from query.error_groups.occurrences import DEFAULT_LOGS, MAX_LOGS
from query.error_groups.schemas import ErrorHistory, ErrorPage, OccurrencePage, OccurrenceRecord
from query.fields import TelemetryTable
from query.request.filters import MAX_FILTERS, MAX_TEXT
from query.request.parameters import DEFAULT_LIMIT, MAX_CURSOR, MAX_LIMIT, MAX_SPAN_ID, MAX_TRACE_ID
from query.search.schemas import LogPage, SpanPage
from query.sending import TRUNCATED_HEADER
from query.statements import ErrorOrder
from query.statements.window import DEFAULT_HOURS, MAX_HOURS
from query.timestamps import TIMESTAMP_PATTERN
from query.trace.read import SpanDetail, Waterfall

SPANS: Final = Tag("spans", "Spans of a project: one by one, in figures, and what is different about some of them.")
LOGS: Final = Tag("logs", "Log records of a project.")
TRACES: Final = Tag("traces", "One trace.")
ERRORS: Final = Tag("errors", "Exceptions, grouped by what they have in common.")

TimestampText = Annotated[str, Meta(pattern=TIMESTAMP_PATTERN)]

FROM: Final = Parameter(
    "from",
    "query",
    TimestampText,
    "Start of the window, which belongs to it: RFC 3339, epoch seconds to nanoseconds, `now`, or `now-15m` "
    f"(ms, s, m, h, d, w). At most {MAX_HOURS} hours before `to`. By default `hours` before `to`.",
)
TO: Final = Parameter(
    "to",
    "query",
    TimestampText,
    "End of the window, which does not belong to it; written like `from`. By default now.",
)
HOURS: Final = Parameter(
    "hours",
    "query",
    Annotated[int, Meta(ge=1, le=MAX_HOURS)],
    f"Length of the window where `from` is not given; {DEFAULT_HOURS} if neither is.",
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
        "What must hold, all of it: `key:value`, `-key:value`, `key:*piece*`, `key:>1`, `has:key`, or JSON: "
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
    "Rows of a page; a page of long rows may end before.",
    default=DEFAULT_LIMIT,
)
CURSOR: Final = Parameter(
    "cursor",
    "query",
    Annotated[str, Meta(min_length=1, max_length=MAX_CURSOR)],
    "`nextCursor` of the page before. Everything but `limit` must be as it was there.",
)
TRACE: Final = Parameter(
    "traceId",
    "query",
    Annotated[str, Meta(min_length=1, max_length=MAX_TRACE_ID)],
    "Only of this trace: 32 hexadecimal digits, or 16. Without a time, the trace's own counts.",
)
TRACE_IN_PATH: Final = Parameter(
    "traceId",
    "path",
    Annotated[str, Meta(min_length=1, max_length=MAX_TRACE_ID)],
    "The trace: 32 hexadecimal digits in either case, or 16. Any other text names none.",
)
SPAN_IN_PATH: Final = Parameter(
    "spanId",
    "path",
    Annotated[str, Meta(min_length=1, max_length=MAX_SPAN_ID)],
    "The span: 16 hexadecimal digits in either case.",
)
FINGERPRINT_IN_PATH: Final = Parameter(
    "fingerprint",
    "path",
    Annotated[str, Meta(min_length=1, max_length=MAX_ID)],
    "The error: 32 hexadecimal digits. Any other text names none.",
)
OCCURRENCE_IN_PATH: Final = Parameter(
    "occurrenceId",
    "path",
    Annotated[str, Meta(min_length=1, max_length=MAX_ID)],
    "The occurrence, by the `id` that lists show.",
)
SORT: Final = Parameter(
    "sort",
    "query",
    ErrorOrder,
    "What comes first: the error that occurred last, most often, or for the first time last, all within the window.",
    default=ErrorOrder.LAST_SEEN,
)
SURROUNDING_LOGS: Final = Parameter(
    "logs",
    "query",
    Annotated[int, Meta(ge=1, le=MAX_LOGS)],
    "Log records on each side.",
    default=DEFAULT_LOGS,
)
_SPAN_LIST: Final = (*TIME, TRACE, FILTERS_OF_SPANS, LIMIT, CURSOR)
_LOG_LIST: Final = (*TIME, TRACE, FILTERS_OF_LOGS, LIMIT, CURSOR)

LIST_ATTRIBUTES: Final = Operation(
    "listAttributes",
    SPANS,
    (
        ResponseSpec(
            "The keys that filters and groups take, those of most spans first.",
            json_content(Keys),
            headers={TRUNCATED_HEADER: "`keys` where there are more than could be listed."},
        ),
    ),
    TIME,
)
AGGREGATE_SPANS: Final = Operation(
    "aggregateSpans",
    SPANS,
    (ResponseSpec("The figures.", json_content(Aggregate)),),
    body=Body(
        json_content(AggregateRequest),
        "`field` is needed by every function but `count`; a time is written as in the query string, or as a number.",
        example={
            "fn": "p95",
            "field": "durationMs",
            "groupBy": "serviceName",
            "filters": [{"key": "kind", "op": "eq", "value": "SERVER"}],
            "hours": 3,
        },
    ),
)
COMPARE_SPANS: Final = Operation(
    "compareSpans",
    SPANS,
    (ResponseSpec("What is different.", json_content(SpanComparison)),),
    body=Body(
        json_content(CompareRequest),
        "A part of the baseline that lies in the spike is taken out of it.",
        example={
            "spike": {"from": "now-15m", "to": "now"},
            "baseline": {"from": "now-3h", "to": "now-15m"},
            "filters": [{"key": "durationMs", "op": "gt", "value": "500"}],
        },
    ),
)
LIST_SPANS: Final = Operation("listSpans", SPANS, (ResponseSpec("A page.", json_content(SpanPage)),), _SPAN_LIST)
LIST_LOGS: Final = Operation("listLogs", LOGS, (ResponseSpec("A page.", json_content(LogPage)),), _LOG_LIST)
LIST_TRACE_LOGS: Final = Operation(
    "listTraceLogs", TRACES, (ResponseSpec("A page.", json_content(LogPage)),), (TRACE_IN_PATH, *_LOG_LIST)
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
    (ResponseSpec("A page.", json_content(ErrorPage)),),
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
    (ResponseSpec("A page.", json_content(OccurrencePage)),),
    (FINGERPRINT_IN_PATH, *TIME, FILTERS_OF_ERRORS, LIMIT, CURSOR),
)
SHOW_OCCURRENCE: Final = Operation(
    "showErrorOccurrence",
    ERRORS,
    (ResponseSpec("The occurrence.", json_content(OccurrenceRecord)),),
    (FINGERPRINT_IN_PATH, OCCURRENCE_IN_PATH, SURROUNDING_LOGS),
)
