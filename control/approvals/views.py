"""`/orgs/{orgSlug}/approval-requests/{requestId}/view` and `.../inbox`: requests for those who vote on them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final, NamedTuple

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.errors import NotFound
from chassis.http.access import authorization_context, bearer, reauthorize
from chassis.http.cursor import CursorSigner
from chassis.http.operation import Operation, Parameter, ResponseSpec, json_content
from chassis.http.validation import Issues, bounded_int
from chassis.http.web import Route, json_response
from control.approvals import repository, vote_rules
from control.approvals.model import RequestRecord, Status
from control.approvals.requests import TAG
from control.approvals.view_schemas import ApprovalInbox, ApprovalView, involved_principals, view_body
from control.http.context import HandlerContext, path_id
from control.http.paging import DEFAULT_LIMIT, MAX_LIMIT, PAGE_PARAMETERS, open_cursor
from control.http.query_filters import choice_filter
from proto.identity import Scope

_ENDED: Final = (Status.APPROVED, Status.REJECTED, Status.EXPIRED)
_PARAMETERS: Final = (
    Parameter("status", "query", Status, "Only requests with this status."),
    *PAGE_PARAMETERS,
)
VIEW: Final = Operation(
    "viewApprovalRequest",
    TAG,
    (ResponseSpec("The request, its votes, and what the caller may do.", json_content(ApprovalView)),),
    (Parameter("requestId", "path", Annotated[str, Meta(min_length=1)], "The request."),),
)
INBOX: Final = Operation("listApprovalInbox", TAG, (ResponseSpec("A page.", json_content(ApprovalInbox)),), _PARAMETERS)


class _Position(NamedTuple):
    """Of the last request of a page. `expires_ms`: of a pending one; None: it has ended."""

    expires_ms: int | None
    id: str


class _InboxQuery(NamedTuple):
    status: Status | None
    limit: int
    after: _Position | None
    binding: bytes


@dataclass(frozen=True, slots=True)
class ApprovalViews:
    """Handlers of views, and their dependencies."""

    context: HandlerContext
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope; they precede those with an id in the place of `inbox`."""
        every, read = "/orgs/{orgSlug}/approval-requests", bearer(Scope.APPROVALS_READ)
        return [
            Route("GET", every + "/inbox", self.inbox, read, operation=INBOX),
            Route("GET", every + "/{requestId}/view", self.view, read, operation=VIEW),
        ]

    async def view(self, request: web.Request) -> web.StreamResponse:
        """Show an approval request as the caller sees it.

        `viewer` is computed by the rules that are applied to a vote, from rights as they are now.
        """
        async with self.context.database.read() as connection:
            caller = await reauthorize(request, connection, datetime.now(UTC))
            found = await repository.find(connection, caller.org_id, path_id(request, "requestId"))
            if found is None:
                raise NotFound
            (body,) = await _load_views(connection, caller, [found], self.now())
        return json_response(body)

    async def inbox(self, request: web.Request) -> web.StreamResponse:
        """List approval requests as the caller sees them: pending ones first, by expiry, then the others, newest first.

        A request that ends while somebody reads page after page is on a later page, too; none is missed.
        """
        query = _parse_query(request, self.context.cursors)
        async with self.context.database.read() as connection:
            caller = await reauthorize(request, connection, datetime.now(UTC))
            now = self.now()
            found = await _list(connection, caller.org_id, query, now)
            bodies = await _load_views(connection, caller, found[: query.limit], now)
            pending_count = await repository.count_pending(connection, caller.org_id, now)
        has_more = len(found) > query.limit
        last = _position(found[query.limit - 1], now) if has_more else None
        next_cursor = None if last is None else self.context.cursors.sign(last, query.binding)
        return json_response(ApprovalInbox(bodies, next_cursor, has_more, pending_count))


def _parse_query(request: web.Request, cursors: CursorSigner) -> _InboxQuery:
    """Raises BadRequest."""
    issues = Issues()
    status = choice_filter(request.query, "status", Status, issues)
    limit = bounded_int(request.query, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT, issues)
    binding = msgspec.json.encode(["approval inbox", authorization_context(request).org_id, status])
    after = open_cursor(request, cursors, binding, _Position, issues)
    issues.raise_if_any("The query is not valid.")
    return _InboxQuery(status, limit, after, binding)


async def _list(connection: AsyncConnection, org_id: str, query: _InboxQuery, now: datetime) -> list[RequestRecord]:
    """The requests of the page, and one more if there is a next page."""
    limit, after = query.limit + 1, query.after
    found: list[RequestRecord] = []
    if query.status in (None, Status.PENDING) and (after is None or after.expires_ms is not None):
        expiry = None if after is None or after.expires_ms is None else _time(after.expires_ms)
        position = None if after is None or expiry is None else (expiry, after.id)
        found = await repository.list_pending(connection, org_id, now, position, limit)
    statuses = _ENDED if query.status is None else (query.status,)
    if query.status is not Status.PENDING and len(found) < limit:
        before = after.id if after is not None and after.expires_ms is None else None
        found += await repository.list_ended(connection, org_id, statuses, now, before, limit - len(found))
    return found


async def _load_views(
    connection: AsyncConnection, caller: AuthorizationContext, requests: Sequence[RequestRecord], now: datetime
) -> list[ApprovalView]:
    """In three statements, however many there are."""
    cases = await vote_rules.load_cases(connection, caller, requests)
    named = set[str]().union(*(involved_principals(case) for case in cases))
    names = await repository.principal_names(connection, named)
    return [view_body(case, names, now) for case in cases]


def _position(request: RequestRecord, now: datetime) -> _Position:
    is_pending = request.status_at(now) is Status.PENDING
    return _Position(round(request.expires_at.timestamp() * 1_000) if is_pending else None, request.id)


def _time(milliseconds: int) -> datetime:
    return datetime.fromtimestamp(milliseconds / 1_000, UTC)
