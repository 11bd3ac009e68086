"""The parameters of a list of issues, and its pages."""

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec
from aiohttp import web
from msgspec import Meta

from chassis.http.cursor import CursorSigner
from chassis.http.operation import Parameter
from chassis.http.validation import Issues, bounded_int
from chassis.issues import MAX_VERSION_LENGTH, IssueStatus
from control.http.paging import DEFAULT_LIMIT, MAX_LIMIT, PAGE_PARAMETERS, open_cursor
from control.http.query_filters import choice_filter, line_filter
from control.issues.store import IssueFilter, IssueSort
from control.issues.tables import IssueRecord

MAX_TEXT: Final = 200
MAX_ID: Final = 64
ME: Final = "me"
NOBODY: Final = "none"
_Text = Annotated[str, Meta(min_length=1, max_length=MAX_TEXT)]
PARAMETERS: Final = (
    Parameter("status", "query", IssueStatus, "Only issues with this status."),
    Parameter(
        "assignee",
        "query",
        Annotated[str, Meta(min_length=1, max_length=MAX_ID)],
        "Only issues of this principal; `me`: the caller's; `none`: those without an assignee.",
    ),
    Parameter("query", "query", _Text, "Only issues with this text in title or culprit."),
    Parameter(
        "release",
        "query",
        Annotated[str, Meta(min_length=1, max_length=MAX_VERSION_LENGTH)],
        "Only issues whose first or last occurrence is of this release.",
    ),
    Parameter("shortId", "query", _Text, "Only the issue with this short id."),
    Parameter("sort", "query", IssueSort, "Order, descending.", default=IssueSort.LAST_SEEN.value),
    *PAGE_PARAMETERS,
)

_NUMBER: Final = re.compile(r"(.+)-([1-9][0-9]{0,17})", re.ASCII)
_NO_NUMBER: Final = 0  # no issue has it


@dataclass(frozen=True, slots=True)
class ListPlan:
    """A validated request."""

    project_id: int
    wanted: IssueFilter
    short_id: str | None
    sort: IssueSort
    limit: int
    after: tuple[datetime | int, str] | None
    binding: bytes

    def filter_for(self, project_slug: str) -> IssueFilter:
        """The filter in a project with this slug, which short ids begin with."""
        if self.short_id is None:
            return self.wanted
        match = _NUMBER.fullmatch(self.short_id)
        is_ours = match is not None and match[1].lower() == project_slug
        return replace(self.wanted, number=int(match[2]) if match is not None and is_ours else _NO_NUMBER)


def plan(request: web.Request, cursors: CursorSigner, project_id: int, caller_id: str) -> ListPlan:
    """Raises BadRequest for parameters that are not valid, and for a cursor of another list."""
    query, issues = request.query, Issues()
    sort = choice_filter(query, "sort", IssueSort, issues) or IssueSort.LAST_SEEN
    assignee = line_filter(query, "assignee", MAX_ID, issues)
    wanted = IssueFilter(
        status=choice_filter(query, "status", IssueStatus, issues),
        assignee_id={None: None, ME: caller_id, NOBODY: ""}.get(assignee, assignee),
        text=line_filter(query, "query", MAX_TEXT, issues),
        release=line_filter(query, "release", MAX_VERSION_LENGTH, issues),
    )
    short_id = line_filter(query, "shortId", MAX_TEXT, issues)
    limit = bounded_int(query, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT, issues)
    binding = msgspec.json.encode(["issues", project_id, wanted, short_id, sort])
    position = open_cursor(request, cursors, binding, tuple[int, str], issues)
    issues.raise_if_any("The query is not valid.")
    after = None if position is None else _after(position, sort)
    return ListPlan(project_id, wanted, short_id, sort, limit, after, binding)


def page_body(
    found: Sequence[IssueRecord], plan: ListPlan, to_body: Callable[[IssueRecord], Any], cursors: CursorSigner
) -> dict[str, Any]:
    """The JSON body of a page. `found` has up to one issue more than the page; it means that there is a next page."""
    items, has_more = found[: plan.limit], len(found) > plan.limit
    return {
        "data": [to_body(issue) for issue in items],
        "nextCursor": cursors.sign(_position(items[-1], plan.sort), plan.binding) if has_more else None,
        "hasMore": has_more,
    }


def _position(issue: IssueRecord, sort: IssueSort) -> tuple[int, str]:
    if sort is IssueSort.COUNT:
        return issue.count, issue.id
    time = issue.last_seen if sort is IssueSort.LAST_SEEN else issue.first_seen
    return round(time.timestamp() * 1_000), issue.id


def _after(position: tuple[int, str], sort: IssueSort) -> tuple[datetime | int, str]:
    value, issue_id = position
    return value if sort is IssueSort.COUNT else datetime.fromtimestamp(value / 1_000, UTC), issue_id
