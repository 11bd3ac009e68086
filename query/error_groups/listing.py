"""Sorted pages of error groups."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from chassis.http.cursor import CursorSigner
from chassis.http.validation import Issues, single_value
from chassis.issues import IssueState
from query.error_groups.groups import (
    ErrorGroupRows,
    OccurrenceFilter,
    read_groups,
    read_sparklines,
    to_listed_group,
)
from query.error_groups.schemas import ErrorPage
from query.json_types import Range
from query.read_store import ReadStore
from query.request.filters import Filter, conditions
from query.request.parameters import FILTERS_PATH, parse_page_request
from query.search.listing import ListScope, cursor_binding, open_cursor
from query.statements import ErrorOrder, ErrorRanking
from query.statements.window import Window, slices
from query.timestamps import format_timestamp

SORT_PATH: Final = "query.sort"


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
    request, order = parse_page_request(query, issues), _parse_order(query, issues)
    binding = cursor_binding(request, scope) + order.encode()
    payload = open_cursor(signer, request.cursor, binding, _CursorPayload, issues)
    if payload is None:
        window, after = request.time.resolve(now_ns, "query", issues), None
    else:
        now_ns, window = payload.now_ns, Window(payload.from_ns, payload.to_ns)
        after = _RankedGroup(payload.rank, payload.fingerprint)
    resolved = conditions(request.filters, scope.signal, now_ns, FILTERS_PATH, issues)
    issues.raise_if_any()
    if window is None:
        raise TypeError("a missing window must have an issue")
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
    """The page as a response. `states`: the issues, None while they cannot be read."""
    return ErrorPage(
        data=[to_listed_group(each, page.series[each.fingerprint], states) for each in page.groups],
        next_cursor=page.next_cursor,
        has_more=page.next_cursor is not None,
        range=Range(format_timestamp(page.window.from_ns), format_timestamp(page.window.to_ns)),
    )


async def _read_ranking(store: ReadStore, plan: ErrorListPlan) -> list[_RankedGroup]:
    """The groups of the page in order, and one more if there is one."""
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
    """Ever longer ends of the window, as one of them may already contain all groups of the page: the groups seen last
    in it are those seen last overall. How often a group occurred, and since when, requires the whole window.
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


def _parse_order(query: Mapping[str, str], issues: Issues) -> ErrorOrder:
    text = single_value(query, "sort", issues)
    if text is None:
        return ErrorOrder.LAST_SEEN
    try:
        return ErrorOrder(text)
    except ValueError:
        issues.add(SORT_PATH, f"Must be one of {', '.join(ErrorOrder)}.", "not_allowed")
        return ErrorOrder.LAST_SEEN
