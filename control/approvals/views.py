"""`/orgs/{orgSlug}/approval-requests/{requestId}/view` and `.../inbox`: requests as their voters see them."""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, ClassVar, Final, NamedTuple

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.db.database import format_time
from chassis.http.access import authorization_context, bearer, reauthorize
from chassis.http.declaration import Argument, Arguments, route
from chassis.http.route import Parameter
from chassis.http.validation import Issues, bounded_int
from control.approvals import store, voting
from control.approvals.bodies import ApprovalRequest, request_body
from control.approvals.model import RequestRecord, Status, StoredVote, Verdict
from control.approvals.notifications import involved_principals
from control.approvals.requests import ONE, PATH, ApprovalRequests
from control.approvals.voting import VoteCase, explain_approval, explain_rejection
from control.http.field_types import Timestamp
from control.http.lists import DEFAULT_LIMIT, MAX_LIMIT, PAGE_PARAMETERS, NextCursor, choice_filter, open_cursor
from control.routing.arguments import Handlers, control_arguments
from proto.identity import Role, Scope

_ENDED: Final = (Status.APPROVED, Status.REJECTED, Status.EXPIRED)
_READ: Final = bearer(Scope.APPROVALS_READ)
_PARAMETERS: Final = (Parameter("status", "query", Status, "Only requests with this status."), *PAGE_PARAMETERS)
MAX_LISTED_VOTES: Final = 100  # per request; votes of principals that may no longer decide stay

_PrincipalName = Annotated[str | None, Meta(description="Null if the principal no longer exists.")]


class ApprovalVote(msgspec.Struct, frozen=True, rename="camel"):
    """A vote. `approver` and `onBehalfOf` are ids of principals."""

    approver: str
    approver_name: _PrincipalName
    on_behalf_of: Annotated[str | None, Meta(description="The principal on whose behalf an agent has voted.")]
    on_behalf_of_name: str | None
    decision: Verdict
    reason: str | None
    at: Timestamp
    counts: Annotated[
        bool | None,
        Meta(
            description="Whether this approval counts now. It does not count if its voter has lost the right to "
            "decide. Null for a rejection, and for a decided request."
        ),
    ]


class ApprovalRefusals(msgspec.Struct, frozen=True):
    """The reasons why a vote of the caller would be refused or would change nothing, as one sentence each. Null: the
    vote would count.
    """

    approve: str | None
    reject: str | None


class ApprovalViewer(msgspec.Struct, frozen=True, rename="camel"):
    """The caller's possible actions, by the rules that apply to votes."""

    may_approve: bool
    may_reject: bool
    withdraws: Annotated[
        bool,
        Meta(description="Whether the request counts as withdrawn if the caller rejects it."),
    ]
    why: ApprovalRefusals


class ApprovalView(msgspec.Struct, frozen=True, rename="camel"):
    """A request with its votes, with names, and with the caller's possible actions."""

    request: ApprovalRequest
    requester_name: _PrincipalName
    on_behalf_of_name: str | None
    decider_name: str | None
    approver_roles: Annotated[list[Role], Meta(description="The roles that may decide.", max_length=len(Role))]
    votes: Annotated[
        list[ApprovalVote],
        Meta(description=f"The latest votes, at most {MAX_LISTED_VOTES}, oldest first.", max_length=MAX_LISTED_VOTES),
    ]
    approvals: Annotated[
        int,
        Meta(ge=0, description="Approvals that count. For a decided request, approvals that counted at the decision."),
    ]
    remaining: Annotated[int, Meta(ge=0, description="Approvals still required.")]
    has_independent_approver: bool
    viewer: ApprovalViewer


class ApprovalInbox(msgspec.Struct, frozen=True, rename="camel"):
    """A page of requests, and the number of pending ones."""

    data: list[ApprovalView]
    next_cursor: NextCursor
    has_more: bool
    pending_count: Annotated[
        int, Meta(ge=0, description="Number of all pending requests of the organization, regardless of filters.")
    ]


def view_body(case: VoteCase, names: dict[str, str], now: datetime) -> ApprovalView:
    """The view of the request at the time `now`, as a response body. `names`: names of involved principals, by id."""
    request, count = case.request, case.vote_count
    why = ApprovalRefusals(explain_approval(case, now), explain_rejection(case, now))
    return ApprovalView(
        request=request_body(request, now),
        requester_name=names.get(request.requester_id),
        on_behalf_of_name=names.get(request.on_behalf_of or ""),
        decider_name=names.get(request.decider_id or ""),
        approver_roles=sorted(request.approver_roles),
        votes=[_vote_body(case, vote, names, now) for vote in case.votes[-MAX_LISTED_VOTES:]],
        approvals=count.approvals,
        remaining=count.remaining,
        has_independent_approver=count.has_independent_approver,
        viewer=ApprovalViewer(why.approve is None, why.reject is None, case.withdraws, why),
    )


def _vote_body(case: VoteCase, vote: StoredVote, names: dict[str, str], now: datetime) -> ApprovalVote:
    is_open = case.request.status_at(now) is Status.PENDING and vote.verdict is Verdict.APPROVE
    return ApprovalVote(
        approver=vote.principal_id,
        approver_name=names.get(vote.principal_id),
        on_behalf_of=vote.on_behalf_of,
        on_behalf_of_name=names.get(vote.on_behalf_of or ""),
        decision=vote.verdict,
        reason=vote.reason,
        at=format_time(vote.voted_at),
        counts=case.counts(vote.principal_id) if is_open else None,
    )


class _Position(NamedTuple):
    """The position of the last request of a page. `expires_ms`: expiry of a pending request, None for an ended one."""

    expires_ms: int | None
    id: str


class _InboxQuery(NamedTuple):
    status: Status | None
    limit: int
    after: _Position | None
    binding: bytes


@dataclass(frozen=True, slots=True)
class ApprovalViews(Handlers):
    """Handlers of views, and their dependencies. These routes precede routes that have an id where `inbox` is."""

    TAG: ClassVar = ApprovalRequests.TAG
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def arguments(self) -> Arguments:
        return control_arguments(self.context, {_InboxQuery: Argument(self._parse_query, _PARAMETERS)})

    @route("GET", PATH + "/inbox", _READ)
    async def list_approval_inbox(
        self, query: _InboxQuery, request: web.Request, connection: AsyncConnection
    ) -> ApprovalInbox:
        """List approval requests as the caller sees them: pending ones first, by expiry, then the others, newest first.

        A request that ends while you read page after page also appears on a later page. No request is missed.
        """
        caller, now = await reauthorize(request, connection, datetime.now(UTC)), self.now()
        found = await _list(connection, caller.org_id, query, now)
        views = await _load_views(connection, caller, found[: query.limit], now)
        pending_count = await store.count_pending(connection, caller.org_id, now)
        if len(found) <= query.limit:
            return ApprovalInbox(views, None, False, pending_count)
        last = found[query.limit - 1]
        is_pending = last.status_at(now) is Status.PENDING
        position = _Position(round(last.expires_at.timestamp() * 1_000) if is_pending else None, last.id)
        return ApprovalInbox(views, self.context.cursors.sign(position, query.binding), True, pending_count)

    @route("GET", ONE + "/view", _READ)
    async def view_approval_request(
        self, request_id: str, request: web.Request, connection: AsyncConnection
    ) -> ApprovalView:
        """Show an approval request as the caller sees it.

        `viewer` is computed by the rules that apply to a vote, with the present rights of the caller.
        """
        caller = await reauthorize(request, connection, datetime.now(UTC))
        found = await store.get(connection, caller.org_id, request_id)
        (view,) = await _load_views(connection, caller, [found], self.now())
        return view

    async def _parse_query(self, request: web.Request, _stack: AsyncExitStack) -> _InboxQuery:
        """The query. Raises BadRequest."""
        issues = Issues()
        status = choice_filter(request.query, "status", Status, issues)
        limit = bounded_int(request.query, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT, issues)
        binding = msgspec.json.encode(["approval inbox", authorization_context(request).org_id, status])
        after = open_cursor(request, self.context.cursors, binding, _Position, issues)
        issues.raise_if_any("The query is not valid.")
        return _InboxQuery(status, limit, after, binding)


async def _list(connection: AsyncConnection, org_id: str, query: _InboxQuery, now: datetime) -> list[RequestRecord]:
    """The requests of the page, and one more if there is a next page."""
    limit, after = query.limit + 1, query.after
    expires_ms = None if after is None else after.expires_ms
    found: list[RequestRecord] = []
    if query.status in (None, Status.PENDING) and (after is None or expires_ms is not None):
        position = None
        if after is not None and expires_ms is not None:
            position = datetime.fromtimestamp(expires_ms / 1_000, UTC), after.id
        found = await store.list_pending(connection, org_id, now, position, limit)
    statuses = _ENDED if query.status is None else (query.status,)
    if query.status is not Status.PENDING and len(found) < limit:
        before = None if after is None or expires_ms is not None else after.id
        found += await store.list_newest(connection, org_id, statuses, now, before, limit - len(found))
    return found


async def _load_views(
    connection: AsyncConnection, caller: AuthorizationContext, requests: Sequence[RequestRecord], now: datetime
) -> list[ApprovalView]:
    """The views of the requests, in three statements for any number of requests."""
    cases = await voting.load_cases(connection, caller, requests)
    votes = [vote for case in cases for vote in case.votes[-MAX_LISTED_VOTES:]]
    named = {one for vote in votes for one in (vote.principal_id, vote.on_behalf_of) if one is not None}
    named.update(*(involved_principals(case.request) for case in cases))
    names = await store.principal_names(connection, named)
    return [view_body(case, names, now) for case in cases]
