"""Sorted pages of error groups, and the history of one error group over the window."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import NamedTuple

from chassis.http.cursor import CursorSigner
from chassis.http.validation import Issues, single_value
from chassis.issues import IssueState
from query.analysis.windows import bucket_labels, default_interval_minutes
from query.error_groups.groups import (
    ErrorGroupRows,
    OccurrenceFilter,
    empty_group_fields,
    error_group_fields,
    read_first_ever,
    read_groups,
    read_sparklines,
    to_listed_group,
)
from query.error_groups.schemas import ErrorHistory, ErrorPage, HistoryPoint
from query.read_store import ReadStore
from query.request.filters import Filter, conditions, parse_filters
from query.request.parameters import FILTERS_PATH, checked, parse_choice, parse_page_request, parse_time_range
from query.rows import ERRORS
from query.search.listing import ListScope, cursor_binding, open_cursor
from query.statements import ErrorGroupType, ErrorOrder, ErrorRanking, ErrorSeries, Window, slices
from query.values import MINUTE, Range, format_timestamp


class _CursorPayload(NamedTuple):
    """The payload of a cursor: the clock and the window of the first page, and the last group shown."""

    now_ns: int
    from_ns: int
    to_ns: int
    rank: int
    fingerprint: bytes


class _RankedGroup(NamedTuple):
    """A group with its rank in the sort order."""

    rank: int
    fingerprint: bytes


@dataclass(frozen=True, slots=True)
class ErrorListPlan:
    """A validated request."""

    occurrence_filter: OccurrenceFilter
    filters: tuple[Filter, ...]
    order: ErrorOrder
    limit: int
    now_ns: int
    after: _RankedGroup | None
    binding: bytes


class ErrorGroupPage(NamedTuple):
    """Groups, the series of each, the window, and the cursor that continues after them (None at the end)."""

    groups: list[ErrorGroupRows]
    series: Mapping[bytes, list[int]]
    window: Window
    next_cursor: str | None


def plan(query: Mapping[str, str], scope: ListScope, signer: CursorSigner, now_ns: int) -> ErrorListPlan:
    """Validate everything that does not need the store; BadRequest names each offending field."""
    issues = Issues()
    request = parse_page_request(query, issues)
    order = parse_choice(query, "sort", ErrorOrder, issues) or ErrorOrder.LAST_SEEN
    binding = cursor_binding(request, scope) + order.encode()
    payload = open_cursor(signer, request.cursor, binding, _CursorPayload, issues)
    if payload is None:
        window, after = request.time.resolve(now_ns, "query", issues), None
    else:
        now_ns, window = payload.now_ns, Window(payload.from_ns, payload.to_ns)
        after = _RankedGroup(payload.rank, payload.fingerprint)
    resolved = conditions(request.filters, scope.signal, now_ns, FILTERS_PATH, issues)
    window = checked(window, issues)
    return ErrorListPlan(
        OccurrenceFilter(scope.project_id, window, resolved),
        request.filters,
        order,
        request.limit,
        now_ns,
        after,
        binding,
    )


async def fetch(store: ReadStore, signer: CursorSigner, plan: ErrorListPlan) -> ErrorGroupPage:
    """Read one page. Raises BadRequest for a pattern that does not compile, and StoreErrors."""
    await store.validate_regexes(plan.filters, FILTERS_PATH)
    ranked = await _read_ranking(store, plan)
    more, ranked = len(ranked) > plan.limit, ranked[: plan.limit]
    found = await read_groups(store, plan.occurrence_filter, [each.fingerprint for each in ranked])
    kept = _within_bytes(ranked, found, store.max_page_bytes)
    groups = [found[each.fingerprint] for each in kept if each.fingerprint in found]
    series = await read_sparklines(store, plan.occurrence_filter, [each.fingerprint for each in groups])
    window = plan.occurrence_filter.window
    if not more and len(kept) == len(ranked):
        return ErrorGroupPage(groups, series, window, None)
    payload = _CursorPayload(plan.now_ns, window.from_ns, window.to_ns, *kept[-1])
    return ErrorGroupPage(groups, series, window, signer.sign(payload, plan.binding))


def error_page(page: ErrorGroupPage, states: Mapping[bytes, IssueState] | None) -> ErrorPage:
    """The page as a response. `states`: the issues; None while they cannot be read."""
    return ErrorPage(
        data=[to_listed_group(each, page.series[each.fingerprint], states) for each in page.groups],
        next_cursor=page.next_cursor,
        has_more=page.next_cursor is not None,
        range=Range(format_timestamp(page.window.from_ns), format_timestamp(page.window.to_ns)),
    )


async def _read_ranking(store: ReadStore, plan: ErrorListPlan) -> list[_RankedGroup]:
    """The groups of the page in order, and one more group if there is one."""
    ranked: list[_RankedGroup] = []
    for window in _windows(plan):
        statement = ErrorRanking(
            project_id=plan.occurrence_filter.project_id,
            window=window,
            conditions=plan.occurrence_filter.conditions,
            order=plan.order,
            after=plan.after,
            limit=plan.limit + 1,
        )
        ranked = [_RankedGroup._make(row) for row in await store.rows(statement)]
        if len(ranked) > plan.limit:
            break
    return ranked


def _windows(plan: ErrorListPlan) -> Iterator[Window]:
    """Parts at the end of the window, each longer than the previous one. For the order by last occurrence a short part
    may already contain all groups of the page. The other orders need the whole window.
    """
    whole = plan.occurrence_filter.window
    if plan.order is not ErrorOrder.LAST_SEEN:
        yield whole
        return
    to_ns = whole.to_ns if plan.after is None else min(whole.to_ns, plan.after.rank + 1)
    for part in slices(Window(whole.from_ns, to_ns)):
        yield Window(part.from_ns, whole.to_ns)


def _within_bytes(ranked: list[_RankedGroup], found: Mapping[bytes, ErrorGroupRows], budget: int) -> list[_RankedGroup]:
    """The first groups, up to `budget` bytes; at least one."""
    for count, each in enumerate(ranked):
        budget -= found[each.fingerprint].text_bytes if each.fingerprint in found else 0
        if budget < 0 and count:
            return ranked[:count]
    return ranked


@dataclass(frozen=True, slots=True)
class HistoryPlan:
    """A validated request."""

    occurrence_filter: OccurrenceFilter
    filters: tuple[Filter, ...]
    fingerprint: bytes


def plan_history(query: Mapping[str, str], project_id: int, fingerprint: bytes, now_ns: int) -> HistoryPlan:
    """Validate everything that does not need the store; BadRequest names each offending field."""
    issues = Issues()
    window = parse_time_range(query, issues).resolve(now_ns, "query", issues)
    filters = parse_filters(single_value(query, "filters", issues) or "", FILTERS_PATH, issues)
    resolved = conditions(filters, ERRORS, now_ns, FILTERS_PATH, issues)
    window = checked(window, issues)
    return HistoryPlan(OccurrenceFilter(project_id, window, resolved), filters, fingerprint)


async def read_history(store: ReadStore, plan: HistoryPlan) -> ErrorHistory | None:
    """The group within the window and the filters; None if the project has never had it."""
    await store.validate_regexes(plan.filters, FILTERS_PATH)
    found = await read_groups(store, plan.occurrence_filter, (plan.fingerprint,))
    if plan.fingerprint in found:
        fields = error_group_fields(found[plan.fingerprint])
    else:
        type_ = await find_error_type(store, plan.occurrence_filter.project_id, plan.fingerprint)
        if type_ is None:
            return None
        first_ever = await read_first_ever(store, plan.occurrence_filter.project_id, (plan.fingerprint,))
        fields = empty_group_fields(plan.fingerprint, type_, first_ever.get(plan.fingerprint))
    window, minutes = plan.occurrence_filter.window, default_interval_minutes(plan.occurrence_filter.window)
    return ErrorHistory(
        **fields,
        range=Range(format_timestamp(window.from_ns), format_timestamp(window.to_ns)),
        interval_minutes=minutes,
        series=await _read_series(store, plan, minutes),
    )


async def find_error_type(store: ReadStore, project_id: int, fingerprint: bytes) -> str | None:
    """The type of a group, independent of the window; None for an unknown group."""
    rows = await store.rows(ErrorGroupType(project_id=project_id, fingerprint=fingerprint))
    return str(rows[0][0]) if rows else None


async def _read_series(store: ReadStore, plan: HistoryPlan, minutes: int) -> list[HistoryPoint]:
    length = minutes * MINUTE
    statement = ErrorSeries(
        project_id=plan.occurrence_filter.project_id,
        window=plan.occurrence_filter.window,
        conditions=plan.occurrence_filter.conditions,
        fingerprint=plan.fingerprint,
        interval_ns=length,
    )
    counts = dict(await store.rows(statement))
    first = plan.occurrence_filter.window.from_ns // length
    return [
        HistoryPoint(label, counts.get(n, 0))
        for n, label in enumerate(bucket_labels(plan.occurrence_filter.window, minutes), first)
    ]
