"""Pages of traces: GET .../explore/traces.

plan     query string -> TraceListPlan, or all its errors at once; does not read the store
fetch    ranks the traces whose spans match, newest or longest first; then reads all spans of the page's traces

For the order by time, only the newest spans of the window are ranked at first: every trace among them is newer than all
other traces. So a page usually reads few spans, and the whole window is read only if few of the newest spans match.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta

from chassis.http.cursor import CursorSigner
from chassis.http.validation import Issues
from query.analysis import windows
from query.read_store import ReadStore
from query.request.filters import conditions
from query.request.parameters import FILTERS_PATH, ListRequest, checked, parse_page_request, parse_sort
from query.rows import SPAN_KINDS, SPANS, STATUS_CODES
from query.scheduler import QueryKey
from query.search.listing import open_cursor
from query.statements import Condition, TracePosition, TraceRanges, TraceRanking, TraceSummaries, Window, subjects_of
from query.values import (
    Count,
    Millis,
    SpanId,
    SpanKind,
    StatusCode,
    Timestamp,
    TraceId,
    format_millis,
    format_timestamp,
)

MAX_SERVICES: Final = 20
_FIRST_SPANS: Final = 500_000  # number of the newest spans that are ranked first


class TraceRoot(msgspec.Struct, rename="camel"):
    """The earliest span without a parent."""

    span_id: SpanId
    name: str
    service_name: str | None
    kind: SpanKind
    status_code: StatusCode


class TraceItem(msgspec.Struct, rename="camel"):
    """A trace with all its spans, also spans outside of the window."""

    trace_id: TraceId
    root: TraceRoot | None
    start_time: Timestamp
    duration_ms: Millis
    span_count: Count
    error_count: Count
    services: Annotated[
        list[str],
        Meta(
            description="The services of the trace, in descending order of their number of spans.",
            max_length=MAX_SERVICES,
        ),
    ]
    service_count: Count
    matched: Annotated[
        int, Meta(ge=0, description="Number of stored spans of the trace that are in the window and match the filters.")
    ]


class TracePage(msgspec.Struct, rename="camel"):
    """A page of traces."""

    data: list[TraceItem]
    next_cursor: str | None
    has_more: bool


class _CursorPayload(NamedTuple):
    now_ns: int
    from_ns: int
    to_ns: int
    rank: int
    trace_id: bytes


@dataclass(frozen=True, slots=True)
class TraceListPlan:
    """A validated request."""

    project_id: int
    request: ListRequest
    conditions: tuple[Condition, ...]
    by_duration: bool
    now_ns: int
    window: Window
    after: TracePosition | None
    binding: bytes


def plan(query: Mapping[str, str], org_id: str, project_id: int, signer: CursorSigner, now_ns: int) -> TraceListPlan:
    """Validate everything that does not need the store; BadRequest names each offending field."""
    issues = Issues()
    request, sort = parse_page_request(query, issues), parse_sort(query, issues)
    binding = repr(("traces", org_id, project_id, request.time, request.filters, sort)).encode("utf-8", "surrogatepass")
    payload = open_cursor(signer, request.cursor, binding, _CursorPayload, issues)
    if payload is None:
        window, after = request.time.resolve(now_ns, "query", issues), None
    else:
        now_ns, window = payload.now_ns, Window(payload.from_ns, payload.to_ns)
        after = TracePosition(payload.rank, payload.trace_id)
    resolved = conditions(request.filters, SPANS, now_ns, FILTERS_PATH, issues)
    window = checked(window, issues)
    return TraceListPlan(project_id, request, resolved, sort == "duration", now_ns, window, after, binding)


def query_key(plan: TraceListPlan) -> QueryKey:
    """The key of the page."""
    return QueryKey.of("traces", plan.project_id, replace(plan, now_ns=0), to_ns=plan.window.to_ns)


async def fetch(store: ReadStore, signer: CursorSigner, plan: TraceListPlan) -> bytes:
    """Read one page, as JSON. Raises BadRequest for a pattern that does not compile, and StoreErrors."""
    await store.validate_regexes(plan.request.filters, FILTERS_PATH)
    ranked = await _rank(store, plan)
    shown, has_more = ranked[: plan.request.limit], len(ranked) > plan.request.limit
    next_cursor = None
    if has_more:
        trace_id, rank = shown[-1]
        payload = _CursorPayload(plan.now_ns, plan.window.from_ns, plan.window.to_ns, int(rank), trace_id)
        next_cursor = signer.sign(payload, plan.binding)
    items = await _summarize(store, plan, [trace_id for trace_id, _ in shown]) if shown else []
    return msgspec.json.encode(TracePage(items, next_cursor, has_more))


async def _rank(store: ReadStore, plan: TraceListPlan) -> list[tuple[bytes, int]]:
    """The traces of the page in order, and one more trace if there is one."""
    window, shown, limit = plan.window, None, plan.request.limit + 1
    if plan.after is not None and not plan.by_duration:
        end = plan.after.rank + 1
        window = Window(window.from_ns, min(window.to_ns, end))
        shown = Window(end, plan.window.to_ns) if end < plan.window.to_ns else None
    statement = TraceRanking(
        project_id=plan.project_id,
        existing_attributes=await store.find_existing_attributes(
            plan.project_id, plan.window, subjects_of(plan.conditions)
        ),
        window=window,
        conditions=plan.conditions,
        by_duration=plan.by_duration,
        after=plan.after,
        shown=shown,
        limit=limit,
    )
    if not plan.by_duration:
        newest = await windows.newest_within_limit(store, plan.project_id, window, _FIRST_SPANS)
        if newest.truncated:
            rows = await store.rows(replace(statement, window=newest.window))
            if len(rows) == limit:
                return [(row[0], row[1]) for row in rows]
    return [(row[0], row[1]) for row in await store.rows(statement)]


async def _summarize(store: ReadStore, plan: TraceListPlan, trace_ids: list[bytes]) -> list[TraceItem]:
    ranges = await store.rows(TraceRanges(project_id=plan.project_id, trace_ids=tuple(trace_ids)))
    window = Window(ranges[0][0], ranges[0][1] + 1) if ranges else plan.window
    statement = TraceSummaries(
        project_id=plan.project_id,
        existing_attributes=await store.find_existing_attributes(plan.project_id, window, subjects_of(plan.conditions)),
        trace_ids=tuple(trace_ids),
        window=window,
        matching=plan.window,
        conditions=plan.conditions,
    )
    found = {row[0]: _item(row) for row in await store.rows(statement)}
    return [found[trace_id] for trace_id in trace_ids if trace_id in found]


def _item(row: tuple[Any, ...]) -> TraceItem:
    trace_id, start, end, spans, errors, services, matched, has_root, root = row
    by_spans = sorted(((name, count) for name, count in services.items() if name), key=lambda one: (-one[1], one[0]))
    return TraceItem(
        trace_id=trace_id.hex(),
        root=_root(root) if has_root else None,
        start_time=format_timestamp(start),
        duration_ms=msgspec.Raw(format_millis(end - start)),
        span_count=spans,
        error_count=errors,
        services=[name for name, _ in by_spans[:MAX_SERVICES]],
        service_count=len(by_spans),
        matched=matched,
    )


def _root(root: tuple[bytes, str, str, int, int]) -> TraceRoot:
    span_id, name, service, kind, status = root
    return TraceRoot(span_id.hex(), name, service or None, SPAN_KINDS[kind], STATUS_CODES[status])
