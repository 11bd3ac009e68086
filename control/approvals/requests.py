"""`/orgs/{orgSlug}/approval-requests`: list, create, show, approve, reject."""

from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.http.access import authorization_context, bearer
from chassis.http.declaration import Argument, Created, declared_routes, route
from chassis.http.route import Body, Query, Tag, json_content
from chassis.http.validation import Issues
from chassis.http.web import Route
from chassis.limits.limiter import LimitClass
from chassis.limits.rate_limits import LIMIT_RESULT
from control.approvals import store, voting
from control.approvals.bodies import (
    Approval,
    ApprovalRequest,
    Decision,
    NewRequest,
    Rejection,
    RequestList,
    VoteResult,
    check_prose,
    reason_or_none,
    request_body,
)
from control.approvals.model import RequestRecord, Status
from control.approvals.notifications import LinkBuilder
from control.approvals.policies.store import resolve_project_id
from control.approvals.submission import TooManyOpenRequests, decision_body, submit
from control.approvals.voting import APPROVE_SCOPES, REJECT_SCOPES, Vote, VoteRequest, require_right_to_reject
from control.http.context import HandlerContext, path_id
from control.notify.deliveries.outbox import ImmediateSender
from control.routing.arguments import begin, control_arguments
from proto.identity import Scope

DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 100
TAG: Final = Tag("approval-requests", "Request approval of an action; approve or reject requests.")
PATH: Final = "/orgs/{orgSlug}/approval-requests"
ONE: Final = PATH + "/{requestId}"
NEW: Final = {
    "action": "deploy.production",
    "targetType": "service",
    "targetId": "checkout",
    "summary": "Version 1.4.2, fixes the rounding of totals.",
}
APPROVAL: Final = Body(json_content(Approval | None), example={"reason": "Reviewed the diff."})
REJECTION: Final = Body(json_content(Rejection), example={"reason": "Not during the freeze."})
_READ: Final = bearer(Scope.APPROVALS_READ)


class RequestQuery(Query, frozen=True):
    """Which requests to list."""

    status: Annotated[Status | None, Meta(description="Only requests with this status.")] = None
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT), Meta(description="Maximum number of requests.")] = DEFAULT_LIMIT


@dataclass(frozen=True, slots=True)
class ApprovalRequests:
    """Handlers of approval requests, and their dependencies. `link_builder`: for the links in messages."""

    context: HandlerContext
    sender: ImmediateSender
    link_builder: LinkBuilder
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def routes(self) -> list[Route]:
        """Every route of this resource."""
        arguments = control_arguments(self.context, {RequestRecord: Argument(self._find)})
        return declared_routes(self, TAG, replace(arguments, read_body=self._read_new))

    @route("GET", PATH, _READ)
    async def list_approval_requests(
        self, query: RequestQuery, caller: AuthorizationContext, connection: AsyncConnection
    ) -> RequestList:
        """List approval requests, newest first."""
        now = self.now()
        found = await store.list_requests(connection, caller.org_id, query.status, now, query.limit)
        return RequestList([request_body(one, now) for one in found])

    @route("POST", PATH, bearer(Scope.APPROVALS_WRITE), limit=LimitClass.APPROVAL, example=NEW)
    async def create_approval_request(self, body: NewRequest, request: web.Request) -> Decision | Created[Decision]:
        """Request the approval of an action.

        ALLOW and DENY are final, and no request is created. ASK creates an open request (201), or returns the same one
        if it is open (200): same requester, action, target and project. Each channel is notified once; `deliveries`
        lists the channels that this call notifies or cannot notify.
        """
        try:
            async with begin(self.context, request) as transaction:
                now = self.now()  # after the wait for the write transaction
                links = self.link_builder.for_org(transaction.caller.org_slug)
                result = await submit(transaction, body, links, now)
        except TooManyOpenRequests as error:
            request[LIMIT_RESULT] = error.limit_result  # the rate-limit headers are those of the limit that was reached
            raise
        deliveries = await self.sender.send_now(result.queued) if result.queued else []
        decision = decision_body(result, deliveries, now)
        return Created(decision) if result.created else decision

    @route("GET", ONE, _READ)
    async def show_approval_request(self, found: RequestRecord) -> ApprovalRequest:
        """Show an approval request."""
        return request_body(found, self.now())

    @route("POST", ONE + "/approve", bearer(*APPROVE_SCOPES), body=APPROVAL, errors=(409,))
    async def approve_request(self, found: RequestRecord, request: web.Request) -> VoteResult:
        """Approve a request.

        It is approved once the number of approvals that the policy requires is reached, and one of the approvers is
        independent of the requester. 409 when it is decided or expired, or when the requester has left or is disabled;
        403 for one's own request.
        """
        body: Approval | None = await self.context.read_body(request, Approval | None)  # type: ignore[arg-type]  # a union is a type to msgspec
        return await self._vote(request, found, reason_or_none(body), voting.approve)

    @route("POST", ONE + "/reject", bearer(*REJECT_SCOPES), body=REJECTION, errors=(409,))
    async def reject_request(self, found: RequestRecord, request: web.Request) -> VoteResult:
        """Reject a request, or withdraw one's own.

        One rejection is final. 409 when the request is decided or expired.
        """
        # Requesters may withdraw without being deciders, so the right depends on the request. It precedes the body.
        async with self.context.database.read() as connection:
            with_owners = await store.with_current_owners(connection, found)
        require_right_to_reject(authorization_context(request), with_owners)
        body = await self.context.read_body(request, Rejection)
        return await self._vote(request, found, reason_or_none(body), voting.reject)

    async def _read_new(self, request: web.Request, _type: type[Any]) -> Any:
        """The body of a new request. Raises BadRequest with all issues: types, texts, and an unknown project."""
        issues = Issues()
        placeholders = {"action": "a.b", "targetType": "x", "targetId": "x"}
        body = await self.context.read_partial_body(request, NewRequest, placeholders, issues)
        if body is not None:
            check_prose("body.summary", body.summary or "", issues)
            if issues:  # without issues, `submit` checks the project
                org_id = authorization_context(request).org_id
                async with self.context.database.read() as connection:
                    await resolve_project_id(connection, org_id, body.project_tag, "body.projectTag", issues)
        issues.raise_if_any("The request body is not valid.")
        return body

    async def _vote(self, request: web.Request, found: RequestRecord, reason: str | None, vote: Vote) -> VoteResult:
        async with begin(self.context, request) as transaction:
            now = self.now()  # after the wait for the write transaction: the request may expire meanwhile
            links = self.link_builder.for_org(transaction.caller.org_slug)
            given = VoteRequest(transaction.caller, found.id, reason, transaction.request_id, now)
            cast = await voting.cast_vote(transaction.connection, vote, given, links)
        count = cast.vote_count
        return VoteResult(
            request_body(cast.request, now),
            count.approvals,
            count.remaining,
            count.has_independent_approver,
            cast.idempotent,
        )

    async def _find(self, request: web.Request, _stack: AsyncExitStack) -> RequestRecord:
        """The request in the path: 404 precedes the faults of a body. Raises NotFound."""
        async with self.context.database.read() as connection:
            return await store.get(connection, authorization_context(request).org_id, path_id(request, "requestId"))
