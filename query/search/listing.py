"""Pages of spans and log records: newest first, each stored row once, with the window fixed by the first page.

plan     query string -> ListPlan, or all its errors at once; does not read the store
fetch    reads slices of time, newest first, until the page is full. A list of the longest spans ranks all spans of the
         window by their durations, and reads the rows of the page
"""

from collections.abc import Iterable, Mapping
from dataclasses import astuple, dataclass, replace
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from chassis.clickhouse import QueryTooLarge
from chassis.errors import BadRequest
from chassis.http.cursor import CursorSigner
from chassis.http.validation import Issues
from query.read_store import MAX_RESULT_BYTES, SHRINK_FACTOR, ReadStore
from query.request.filters import conditions
from query.request.parameters import (
    FILTERS_PATH,
    SORTS,
    ListRequest,
    parse_list_request,
    parse_page_request,
    parse_sort,
)
from query.rows import (
    ERRORS,
    SPANS,
    LogColumns,
    OccurrenceColumns,
    SpanColumns,
    TelemetryTable,
    text_size,
    trace_id_bytes,
    within_bytes,
)
from query.scheduler import QueryKey
from query.sql import attribute_names
from query.statements import (
    Attribute,
    Condition,
    EndedRows,
    IdIn,
    Listing,
    Position,
    RankedSpans,
    SpanRanking,
    Subject,
    Window,
    slices,
)
from query.values import HOUR

M = TypeVar("M")
_MIN_ROLLUP_SLICE_NS: Final = HOUR  # shortest slice for which the roll-up is queried for existing attributes

# The rows of one page, and the fields of the position (`Position`) of the last row; None at the end of the list.
_Rows = tuple[list[tuple[Any, ...]], tuple[Any, ...] | None]


@dataclass(frozen=True, slots=True)
class ListScope:
    """Organization, project and signal of a list; `trace_id` if the path names a trace, `fingerprint` if it names an
    error.
    """

    org_id: str
    project_id: int
    signal: TelemetryTable
    trace_id: bytes | None = None
    fingerprint: bytes | None = None


class RowPage(NamedTuple):
    """Rows of the signal's select, and the cursor that continues after them (None at the end)."""

    rows: list[tuple[Any, ...]]
    next_cursor: str | None


class _CursorPayload(NamedTuple):
    """The payload of a cursor: the clock and the window of the first page, and the position of the last row shown."""

    now_ns: int
    from_ns: int
    to_ns: int
    time_ns: int
    trace_id: bytes
    span_id: bytes
    batch_id: int
    row: int
    duration_ns: int | None = None


@dataclass(frozen=True, slots=True)
class ListPlan:
    """A validated request. Without a `window` the trace's own time range applies. `is_resumed`: the window comes from a
    cursor. `by_duration`: longest first.
    """

    scope: ListScope
    request: ListRequest
    conditions: tuple[Condition, ...]
    now_ns: int
    window: Window | None
    after: Position | None
    is_resumed: bool
    binding: bytes
    by_duration: bool = False

    @property
    def subjects(self) -> tuple[Subject, ...]:
        return tuple(subject for condition in self.conditions for subject in condition.subjects)

    @property
    def has_trace_id(self) -> bool:
        return self.scope.trace_id is not None or self.request.trace_text is not None


def plan(query: Mapping[str, str], scope: ListScope, signer: CursorSigner, now_ns: int) -> ListPlan:
    """Validate everything that does not need the store; BadRequest names each offending field."""
    issues = Issues()
    request = parse_list_request(query, issues) if scope.signal.trace_index_code else parse_page_request(query, issues)
    sort = parse_sort(query, issues) if scope.signal is SPANS else SORTS[0]
    binding = cursor_binding(request, scope) + (b"" if sort == SORTS[0] else sort.encode("utf-8", "surrogatepass"))
    payload = open_cursor(signer, request.cursor, binding, _CursorPayload, issues)
    if payload is None:
        own_time = request.trace_text is not None or scope.trace_id is not None
        window = None if own_time and not request.time.is_given else request.time.resolve(now_ns, "query", issues)
        after = None
    else:
        now_ns, window = payload.now_ns, Window(payload.from_ns, payload.to_ns)
        after = Position(*payload[3:])
    resolved = conditions(request.filters, scope.signal, now_ns, FILTERS_PATH, issues)
    issues.raise_if_any()
    if scope.fingerprint is not None:
        resolved = (Condition(ERRORS.fields["fingerprint"], IdIn((scope.fingerprint,))), *resolved)
    by_duration = sort == "duration"
    return ListPlan(scope, request, resolved, now_ns, window, after, payload is not None, binding, by_duration)


def page_query_key(plan: ListPlan) -> QueryKey:
    """The key of the page. The key does not include the clock, because a page does not depend on it: the cursor only
    passes it on."""
    to_ns = None if plan.window is None else plan.window.to_ns
    return QueryKey.of("page", plan.scope.project_id, replace(plan, now_ns=0), to_ns=to_ns)


async def fetch(store: ReadStore, signer: CursorSigner, plan: ListPlan) -> RowPage:
    """Read one page. Raises BadRequest for a pattern that does not compile, and StoreErrors."""
    await store.validate_regexes(plan.request.filters, FILTERS_PATH)
    trace_id = _trace_id(plan)
    if plan.has_trace_id and trace_id is None:
        return RowPage([], None)
    window = await _window(store, plan, trace_id)
    if window is None:
        return RowPage([], None)
    read = _read_longest if plan.by_duration else _read_newest
    rows, last = await read(store, plan, trace_id, window)
    if last is None:
        return RowPage(rows, None)
    payload = _CursorPayload(plan.now_ns, window.from_ns, window.to_ns, *last)
    return RowPage(rows, signer.sign(payload, plan.binding))


async def _read_longest(store: ReadStore, plan: ListPlan, trace_id: bytes | None, window: Window) -> _Rows:
    """The longest spans. Ranking reads narrow columns of the whole window; attributes are read only for the rows of the
    page."""
    statement = SpanRanking(
        project_id=plan.scope.project_id,
        existing_attributes=await store.find_existing_attributes(plan.scope.project_id, window, plan.subjects),
        window=window,
        conditions=plan.conditions,
        trace_id=trace_id,
        after=plan.after,
        limit=plan.request.limit + 1,
    )
    ranked = [Position(*row) for row in await store.rows(statement)]
    shown = ranked[: plan.request.limit]
    if not shown:
        return [], None
    listing = RankedSpans(project_id=plan.scope.project_id, positions=tuple(shown), limit=1)
    rows, is_cut = await read_bounded(store, listing, len(shown), store.max_page_bytes, page_started=False)
    if is_cut:
        duration_ns = max(SpanColumns._make(rows[-1][: len(SpanColumns._fields)]).duration_ns, 0)
        return rows, (*_position(rows[-1], SPANS), duration_ns)
    return rows, astuple(shown[-1]) if len(ranked) > len(shown) else None


async def _read_newest(store: ReadStore, plan: ListPlan, trace_id: bytes | None, window: Window) -> _Rows:
    """The newest rows. The newest slice of the window is read first."""
    limit, rows, budget = plan.request.limit, list[tuple[Any, ...]](), store.max_page_bytes
    if plan.after is not None:
        window = Window(window.from_ns, min(window.to_ns, plan.after.time_ns + 1))
    existing = attribute_names_of(plan.subjects)
    for slice_ in slices(window):
        if existing and plan.scope.signal is SPANS and slice_.to_ns - slice_.from_ns > _MIN_ROLLUP_SLICE_NS:
            existing = await store.find_existing_attributes(plan.scope.project_id, slice_, plan.subjects)
        statement = replace(_statement(plan, trace_id, slice_), existing_attributes=existing)
        found, is_cut = await read_bounded(store, statement, limit + 1 - len(rows), budget, bool(rows))
        rows += found
        budget -= sum(map(text_size, found))
        if len(rows) > limit:
            return rows[:limit], _position(rows[limit - 1], plan.scope.signal)
        if is_cut:
            return rows, _position(rows[-1], plan.scope.signal)
    return rows, None


async def read_bounded(
    store: ReadStore, statement: Listing | EndedRows | RankedSpans, max_rows: int, budget: int, page_started: bool
) -> tuple[list[tuple[Any, ...]], bool]:
    """At most `max_rows` rows of one statement, and whether rows were left out: if they exceed `budget` bytes, fewer
    are read. With `page_started` the result may be empty; the first row of a page may have any size.
    """
    row_limit = max_rows
    while True:
        max_bytes = MAX_RESULT_BYTES if row_limit == 1 and not page_started else max(budget, 1)
        try:
            rows = await store.rows(replace(statement, limit=row_limit), max_bytes)
        except QueryTooLarge:
            if row_limit == 1 and page_started:
                return [], True
            if row_limit == 1:
                raise
            row_limit = max(1, row_limit // SHRINK_FACTOR)
        else:
            kept = within_bytes(rows, budget, page_started=page_started)
            return kept, len(kept) < len(rows) or len(rows) == row_limit < max_rows


def _statement(plan: ListPlan, trace_id: bytes | None, slice_: Window) -> Listing:
    return Listing(
        project_id=plan.scope.project_id,
        signal=plan.scope.signal,
        window=slice_,
        conditions=plan.conditions,
        trace_id=trace_id,
        after=plan.after,
        limit=1,
    )


def attribute_names_of(subjects: Iterable[Subject]) -> frozenset[str]:
    """All names of the attributes of `subjects`; any of them may exist."""
    return frozenset(name for each in subjects if isinstance(each, Attribute) for name in attribute_names(each.key))


async def _window(store: ReadStore, plan: ListPlan, trace_id: bytes | None) -> Window | None:
    """The window to read: the requested one, intersected with the trace's time range if the request names a trace."""
    if trace_id is None or plan.is_resumed:
        return plan.window
    windows = await store.trace_windows(plan.scope.project_id, trace_id)
    own = windows.get(plan.scope.signal.trace_index_code)
    return own if own is None or plan.window is None else own.intersect(plan.window)


def _trace_id(plan: ListPlan) -> bytes | None:
    """The trace whose rows are requested; None if all traces are requested, or if no trace can match (two different
    ids, or an invalid id).
    """
    text = plan.request.trace_text
    if text is None:
        return plan.scope.trace_id
    trace_id = trace_id_bytes(text)
    return trace_id if plan.scope.trace_id in (None, trace_id) else None


def open_cursor(
    signer: CursorSigner, cursor: str | None, binding: bytes, payload_type: type[M], issues: Issues
) -> M | None:
    """The payload of a cursor; None without a cursor. If the cursor is invalid, records an issue and returns None."""
    if cursor is None:
        return None
    try:
        return signer.open(cursor, binding, payload_type)
    except BadRequest as error:
        for issue in error.details or ():
            issues.add(issue.path, issue.message, issue.code)
        return None


def cursor_binding(request: ListRequest, scope: ListScope) -> bytes:
    """The parameters that a cursor is bound to: it is invalid for another list, project, organization, time or
    filter."""
    time = request.time
    return msgspec.msgpack.encode(
        (
            f"explore/{scope.signal.name}",
            scope.org_id,
            scope.project_id,
            scope.trace_id,
            scope.fingerprint,
            (time.from_text, time.to_text, time.hours),
            request.trace_text,
            request.filters_text,
        )
    )


def _position(row: tuple[Any, ...], signal: TelemetryTable) -> tuple[int, bytes, bytes, int, int]:
    """Time, trace, span, batch and row: the sort key of lists."""
    if signal is SPANS:
        span = SpanColumns._make(row[: len(SpanColumns._fields)])
        return span.start_ns, span.trace_id, span.span_id, span.batch_id, span.row
    if signal is ERRORS:
        occurrence = OccurrenceColumns._make(row)
        return occurrence.time_ns, occurrence.trace_id, occurrence.span_id, occurrence.batch_id, occurrence.row
    log = LogColumns._make(row[: len(LogColumns._fields)])
    return log.time_ns, log.trace_id, log.span_id, log.batch_id, log.row
