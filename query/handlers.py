"""The explore endpoints: each is a list of steps from the request to one response."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Annotated, Any, Final

import msgspec
from aiohttp import web

from chassis.errors import NotFound
from chassis.http.access import authorization_context
from chassis.http.route import Parameter
from chassis.http.validation import Issues, single_value
from chassis.limits.limiter import LimitClass
from query.analysis import aggregate, attribute_values, attributes, compare, figures, heatmap, service_map
from query.read_store import ReadStore
from query.request.parameters import MAX_SPAN_ID, MAX_TRACE_ID, read_body
from query.routing import (
    CURSOR,
    FILTERS_OF_SPANS,
    LIMIT,
    LOG_LIST,
    LOG_TAG,
    SPAN_IN_PATH,
    SPAN_LIST,
    SPAN_SORT,
    SPAN_TAG,
    TIME,
    TRACE_IN_PATH,
    TRACE_TAG,
    Endpoints,
    analysis,
    explore,
    get_project_id,
    parse_path_id,
)
from query.rows import LOGS, SPANS, TelemetryTable, span_id_bytes, trace_id_bytes
from query.scheduler import QueryKey
from query.search import traces
from query.search.listing import ListScope, RowPage, fetch, page_query_key, plan
from query.search.schemas import LogPage, SpanPage
from query.search.serializers import log_page, span_page
from query.send_buffer import TRUNCATED_HEADER
from query.trace.read import SpanDetail, Waterfall, read_span, read_waterfall
from query.trace.waterfall import TraceTable, read_columns

ROOT: Final = Parameter(
    "root",
    "query",
    Annotated[str, msgspec.Meta(pattern="^[0-9a-fA-F]{16}$")],
    "Only the subtree of this span.",
    example="00f067aa0ba902b7",
)
PageBuilder = Callable[[Sequence[Sequence[Any]], str | None], object]


class ExploreHandlers(Endpoints):
    """The endpoints over each principal's read store."""

    @explore(
        SPAN_TAG,
        "/attributes",
        attributes.Keys,
        *TIME,
        headers={TRUNCATED_HEADER: "`keys` if there are more keys than were listed."},
    )
    async def list_attributes(self, request: web.Request) -> web.StreamResponse:
        """List the keys of spans.

        The keys are built-in fields and attributes, named as in filters and groups. The count of a key is the number of
        spans that the filter `exists` finds.
        """
        project_id, window = get_project_id(request), attributes.plan(request.query, self.clock())
        key = QueryKey.of("attributes", project_id, window, to_ns=window.to_ns)
        limit = self.settings.max_attribute_keys
        return await self.respond(request, key, lambda store: attributes.read(store, project_id, window, limit))

    @explore(
        SPAN_TAG,
        "/attributes/values",
        attribute_values.AttributeValues,
        *attribute_values.values_of(FILTERS_OF_SPANS, "http.route"),
    )
    async def list_attribute_values(self, request: web.Request) -> web.StreamResponse:
        """List the values of a key, the most frequent first.

        Only the newest million spans of the window are read. `complete` tells whether these were all spans.
        """
        project_id, planned = get_project_id(request), attribute_values.plan(request.query, self.clock())
        key = QueryKey.of("attribute values", project_id, planned, to_ns=planned.window.to_ns)
        return await self.respond(request, key, lambda store: attribute_values.read(store, project_id, planned))

    @analysis(
        SPAN_TAG,
        "/spans/aggregate",
        aggregate.AggregateRequest,
        aggregate.Aggregate,
        "Every function except `count` needs `field`. Times have the same formats as in query strings, or are numbers.",
        {
            "fn": "p95",
            "field": "durationMs",
            "groupBy": "serviceName",
            "filters": [{"key": "kind", "op": "eq", "value": "SERVER"}],
            "hours": 3,
        },
    )
    async def aggregate_spans(self, request: web.Request) -> web.StreamResponse:
        """Count, sum or rank spans by group, over time.

        Counts, sums of durations, percentiles and uniques are exact. The response has the groups with the greatest
        values.
        """
        return await self.analyse(request, "aggregate", aggregate.plan, aggregate.read, aggregate.build_response)

    @analysis(
        SPAN_TAG,
        "/spans/figures",
        figures.FiguresRequest,
        figures.Figures,
        "Every function except `count` needs `field`. The filters of a figure select spans for this figure; the "
        "`filters` of the body select spans for all figures and groups.",
        {
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
    )
    async def compute_span_figures(self, request: web.Request) -> web.StreamResponse:
        """Compute several figures of spans by group, over time.

        One request computes up to six functions, each over the spans that match its own filters, for groups by up to
        three keys. Values, ranking and limits are the same as in `/spans/aggregate`.
        """
        return await self.analyse(request, "figures", figures.plan, figures.read, figures.build_response)

    @analysis(
        SPAN_TAG,
        "/spans/heatmap",
        heatmap.HeatmapRequest,
        heatmap.SpanHeatmap,
        "`rowsPerOctave` is the number of rows between a value and twice this value, such as 100 ms and 200 ms.",
        {
            "field": "durationMs",
            "filters": [{"key": "serviceName", "op": "eq", "value": "shop"}],
            "hours": 3,
            "columns": 60,
            "rowsPerOctave": 4,
        },
    )
    async def compute_span_heatmap(self, request: web.Request) -> web.StreamResponse:
        """Count spans by time and by duration, or by another number.

        Rows are parts of an octave (the range from a value to twice the value). The bounds of a row can be used in the
        filters `gte` and `lt`, which then find exactly its spans.
        """
        return await self.analyse(request, "heatmap", heatmap.plan, heatmap.read, heatmap.build_response)

    @explore(SPAN_TAG, "/services/map", service_map.ServiceMap, *TIME, FILTERS_OF_SPANS, limit=LimitClass.ANALYSIS)
    async def show_service_map(self, request: web.Request) -> web.StreamResponse:
        """Show the calls between services.

        A call is a SERVER or CONSUMER span with a CLIENT or PRODUCER span as its parent. If the window has millions of
        spans, only one trace in `sample` is counted.
        """
        project_id, planned = get_project_id(request), service_map.plan(request.query, self.clock())
        key = QueryKey.of("service map", project_id, planned, to_ns=planned.window.to_ns)
        return await self.respond(
            request, key, lambda store: service_map.read(store, self.settings, project_id, planned)
        )

    @analysis(
        SPAN_TAG,
        "/spans/compare",
        compare.CompareRequest,
        compare.SpanComparison,
        "Spans of the spike are excluded from the baseline. Spike and baseline may have the same window if their "
        "filters differ.",
        {
            "spike": {
                "from": "now-15m",
                "to": "now",
                "filters": [{"key": "durationMs", "op": "gt", "value": "500"}],
            },
            "baseline": {"from": "now-3h", "to": "now"},
            "filters": [{"key": "serviceName", "op": "eq", "value": "shop"}],
        },
    )
    async def compare_spans(self, request: web.Request) -> web.StreamResponse:
        """Find what distinguishes the spans of a spike.

        The response lists values of fields and attributes that are more frequent in the spike than in the baseline, the
        most significant first.
        """
        project_id = get_project_id(request)
        planned = compare.plan(await read_body(request, self.settings.timeout_s), self.clock())
        end = max(planned.spike.to_ns, planned.baseline.to_ns)
        key = QueryKey.of("compare", project_id, replace(planned, now_ns=0), to_ns=end)
        limit = self.settings.max_scan_rows
        return await self.respond(request, key, lambda store: compare.read(store, project_id, planned, limit))

    @explore(SPAN_TAG, "/spans", SpanPage, *SPAN_LIST)
    async def list_spans(self, request: web.Request) -> web.StreamResponse:
        """List spans, newest or longest first.

        Every stored span that matches is listed exactly once, even if times are equal; pages stay consistent while
        spans are stored.
        """
        return await self._list_rows(request, SPANS, span_page, None)

    @explore(LOG_TAG, "/logs", LogPage, *LOG_LIST)
    async def list_logs(self, request: web.Request) -> web.StreamResponse:
        """List log records, newest first.

        Every stored record that matches is listed exactly once, even if times are equal; pages stay consistent while
        records are stored.
        """
        return await self._list_rows(request, LOGS, log_page, None)

    @explore(TRACE_TAG, "/traces/{traceId}/logs", LogPage, TRACE_IN_PATH, *LOG_LIST)
    async def list_trace_logs(self, request: web.Request) -> web.StreamResponse:
        """List the log records of a trace, newest first.

        Without a time in the request, the trace's own time range applies.
        """
        return await self._list_rows(request, LOGS, log_page, _trace_id(request))

    @explore(TRACE_TAG, "/traces", traces.TracePage, *TIME, FILTERS_OF_SPANS, SPAN_SORT, LIMIT, CURSOR)
    async def list_traces(self, request: web.Request) -> web.StreamResponse:
        """List traces with a matching span, newest or longest first.

        Traces are sorted by their newest matching span, or by their longest matching span. The fields of a trace are
        computed from all its spans. A trace is listed once, unless one of its spans arrives while you read pages.
        """
        project_id, org_id = get_project_id(request), authorization_context(request).org_id
        planned = traces.plan(request.query, org_id, project_id, self.signer, self.clock())
        key = traces.query_key(planned)
        return await self.respond(request, key, lambda store: traces.fetch(store, self.signer, planned))

    @explore(TRACE_TAG, "/traces/{traceId}/rows", TraceTable, TRACE_IN_PATH, ROOT)
    async def show_trace_rows(self, request: web.Request) -> web.StreamResponse:
        """Show a trace, or a subtree of it, as columns.

        The response has the rows of the waterfall without their attributes, in a third of the bytes.
        """
        project_id, trace_id = get_project_id(request), _trace_id(request)
        root = _root(request)
        key = QueryKey.of("trace rows", project_id, trace_id, root)
        return await self.respond(
            request, key, lambda store: read_columns(store, self.settings, project_id, trace_id, root)
        )

    @explore(TRACE_TAG, "/traces/{traceId}/waterfall", Waterfall, TRACE_IN_PATH)
    async def show_waterfall(self, request: web.Request) -> web.StreamResponse:
        """Show a trace as a waterfall.

        Spans are listed depth first, siblings in order of their start. Timestamps are shown as received, and every span
        appears once.
        """
        project_id, trace_id = get_project_id(request), _trace_id(request)
        key = QueryKey.of("waterfall", project_id, trace_id)
        return await self.respond(
            request, key, lambda store: read_waterfall(store, self.settings, project_id, trace_id)
        )

    @explore(TRACE_TAG, "/traces/{traceId}/spans/{spanId}", SpanDetail, TRACE_IN_PATH, SPAN_IN_PATH)
    async def show_span(self, request: web.Request) -> web.StreamResponse:
        """Show the full record of a span.

        Events, links, resource and scope are shown as received.
        """
        project_id, trace_id, span_id = get_project_id(request), _trace_id(request), _span_id(request)
        key = QueryKey.of("span", project_id, trace_id, span_id)
        return await self.respond(
            request, key, lambda store: read_span(store, project_id, trace_id, span_id, self.source_maps)
        )

    async def _list_rows(
        self, request: web.Request, signal: TelemetryTable, build_page: PageBuilder, trace_id: bytes | None
    ) -> web.StreamResponse:
        project_id = get_project_id(request)
        scope = ListScope(authorization_context(request).org_id, project_id, signal, trace_id)
        planned = plan(request.query, scope, self.signer, self.clock())

        async def read(store: ReadStore) -> RowPage:
            if trace_id is not None and not await store.trace_windows(project_id, trace_id):
                raise NotFound
            return await fetch(store, self.signer, planned)

        return await self.respond_with(
            request, page_query_key(planned), read, lambda page: build_page(page.rows, page.next_cursor)
        )


def _trace_id(request: web.Request) -> bytes:
    return parse_path_id(request, "traceId", MAX_TRACE_ID, trace_id_bytes)


def _root(request: web.Request) -> bytes | None:
    """The span id in the parameter `root`; None without it. Raises BadRequest for a text that is not a span id."""
    issues = Issues()
    text = single_value(request.query, "root", issues)
    found = None if text is None else span_id_bytes(text)
    if text is not None and found is None:
        issues.add("query.root", "Must be a span id: 16 hexadecimal digits.", "format")
    issues.raise_if_any()
    return found


def _span_id(request: web.Request) -> bytes:
    return parse_path_id(request, "spanId", MAX_SPAN_ID, span_id_bytes)
