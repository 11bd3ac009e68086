"""Groups of errors in order, page by page."""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, NamedTuple

from chassis.cursor import CursorSigner
from chassis.validation import Issues, single
from query.asking.filters import Filter, conditions
from query.asking.parameters import FILTERS_PATH, read_page
from query.asking.window import Window, slices
from query.errors.groups import Asked, Group, read_groups, shown
from query.errors.shapes import ErrorPage
from query.lists.listing import Place, binding_of, open_cursor
from query.store import Store
from query.tree import ErrorOrder, ErrorRanking

SORT_PATH: Final = "query.sort"


class _Mark(NamedTuple):
    """What a cursor carries: the clock and the window of the first page, and the group that was shown last."""

    now_ns: int
    from_ns: int
    to_ns: int
    rank: int
    fingerprint: bytes


class _Ranked(NamedTuple):
    """A group by its place in the order."""

    rank: int
    fingerprint: bytes


@dataclass(frozen=True, slots=True)
class Plan:
    """A checked request."""

    asked: Asked
    filters: tuple[Filter, ...]
    order: ErrorOrder
    limit: int
    now_ns: int
    after: _Ranked | None
    binding: bytes


class Page(NamedTuple):
    """Groups, and the cursor that continues after them (None at the end)."""

    groups: list[Group]
    next_cursor: str | None


def plan(query: Mapping[str, str], place: Place, signer: CursorSigner, now_ns: int) -> Plan:
    """Check everything that can be checked without the store; BadRequest names each offending field."""
    issues = Issues()
    request, order = read_page(query, issues), _order(query, issues)
    binding = binding_of(request, place) + order.encode()
    mark = open_cursor(signer, request.cursor, binding, _Mark, issues)
    if mark is None:
        window, after = request.time.resolve(now_ns, "query", issues), None
    else:
        now_ns, window = mark.now_ns, Window(mark.from_ns, mark.to_ns)
        after = _Ranked(mark.rank, mark.fingerprint)
    tests = conditions(request.filters, place.signal, now_ns, FILTERS_PATH, issues)
    issues.raise_if_any()
    if window is None:
        raise TypeError("without a window there is an issue")
    return Plan(Asked(place.project_id, window, tests), request.filters, order, request.limit, now_ns, after, binding)


async def fetch(store: Store, signer: CursorSigner, plan: Plan) -> Page:
    """One page of what was planned. Raises BadRequest for a pattern that does not compile, and StoreErrors."""
    await store.check_patterns(plan.filters, FILTERS_PATH)
    ranked = await _rank(store, plan)
    more, ranked = len(ranked) > plan.limit, ranked[: plan.limit]
    found = await read_groups(store, plan.asked, [each.fingerprint for each in ranked])
    kept = _fitting(ranked, found, store.max_page_bytes)
    groups = [found[each.fingerprint] for each in kept if each.fingerprint in found]
    if not more and len(kept) == len(ranked):
        return Page(groups, None)
    window = plan.asked.window
    return Page(groups, signer.sign(_Mark(plan.now_ns, window.from_ns, window.to_ns, *kept[-1]), plan.binding))


def error_page(page: Page) -> ErrorPage:
    """A page as it is answered."""
    return ErrorPage([shown(each) for each in page.groups], page.next_cursor, page.next_cursor is not None)


async def _rank(store: Store, plan: Plan) -> list[_Ranked]:
    """The groups of the page in order, and one more if there is one."""
    ranked: list[_Ranked] = []
    for window in _windows(plan):
        statement = ErrorRanking(
            project_id=plan.asked.project_id,
            window=window,
            conditions=plan.asked.conditions,
            order=plan.order,
            after=plan.after,
            limit=plan.limit + 1,
        )
        ranked = [_Ranked._make(row) for row in await store.rows(statement)]
        if len(ranked) > plan.limit:
            break
    return ranked


def _windows(plan: Plan) -> Iterator[Window]:
    """Ever longer ends of the window, where one may hold all groups of the page: those seen last in it are those seen
    last at all. How often a group occurred, and since when, only the whole window tells.
    """
    whole = plan.asked.window
    if plan.order is not ErrorOrder.LAST_SEEN:
        yield whole
        return
    to_ns = whole.to_ns if plan.after is None else min(whole.to_ns, plan.after.rank + 1)
    for part in slices(Window(whole.from_ns, to_ns)):
        yield Window(part.from_ns, whole.to_ns)


def _fitting(ranked: list[_Ranked], found: Mapping[bytes, Group], budget: int) -> list[_Ranked]:
    """As many of the first as have at most `budget` bytes; one at least."""
    for count, each in enumerate(ranked):
        budget -= found[each.fingerprint].size if each.fingerprint in found else 0
        if budget < 0 and count:
            return ranked[:count]
    return ranked


def _order(query: Mapping[str, str], issues: Issues) -> ErrorOrder:
    text = single(query, "sort", issues)
    if text is None:
        return ErrorOrder.LAST_SEEN
    try:
        return ErrorOrder(text)
    except ValueError:
        issues.add(SORT_PATH, f"Must be one of {', '.join(ErrorOrder)}.", "not_allowed")
        return ErrorOrder.LAST_SEEN
