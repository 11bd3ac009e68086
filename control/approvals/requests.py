"""`/orgs/{orgSlug}/approval-requests`: list, create, show, approve, reject."""

import re
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final, cast

from aiohttp import web
from msgspec import Meta

from chassis.auth.model import AuthorizationContext
from chassis.errors import NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Body, Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.validation import Issues, bounded_int, single_value
from chassis.http.web import Route, json_response, request_id
from chassis.limits.limiter import LimitClass
from chassis.limits.rate_limits import LIMIT_RESULT
from control.approvals import store, voting
from control.approvals.bodies import (
    REQUEST_ID_PATTERN,
    Approval,
    ApprovalRequest,
    Decision,
    NewRequest,
    Rejection,
    RequestList,
    VoteResult,
    check_new,
    reason_or_none,
    request_body,
    vote_body,
)
from control.approvals.model import RequestRecord, Status
from control.approvals.notifications import LinkBuilder, RequestLinks
from control.approvals.policies.store import resolve_project_id
from control.approvals.submission import Submission, TooManyOpenRequests, decision_body, submit
from control.approvals.voting import APPROVE_SCOPES, REJECT_SCOPES, Vote, VoteRequest, require_right_to_reject
from control.http.context import HandlerContext
from control.notify.deliveries.outbox import ImmediateSender
from proto.identity import Scope

DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 100
_REQUEST_ID: Final = re.compile(REQUEST_ID_PATTERN[1:-1])
_ID_PARAMETERS: Final = (Parameter("requestId", "path", Annotated[str, Meta(min_length=1)], "The request."),)
_EXAMPLE_BODY: Final = {"action": "deploy.production", "targetType": "service", "targetId": "checkout"}

TAG: Final = Tag("approval-requests", "Request approval of an action; approve or reject requests.")
LIST: Final = Operation(
    "listApprovalRequests",
    TAG,
    (ResponseSpec("Requests, newest first.", json_content(RequestList)),),
    (
        Parameter("status", "query", Status, "Only requests with this status."),
        Parameter(
            "limit",
            "query",
            Annotated[int, Meta(ge=1, le=MAX_LIMIT)],
            "Maximum number of requests.",
            default=DEFAULT_LIMIT,
        ),
    ),
)
CREATE: Final = Operation(
    "createApprovalRequest",
    TAG,
    (
        ResponseSpec("The action is allowed or denied, or the same request is already open.", json_content(Decision)),
        ResponseSpec("The action requires approval: a request was created.", json_content(Decision), 201),
    ),
    body=Body(
        json_content(NewRequest), example=_EXAMPLE_BODY | {"summary": "Version 1.4.2, fixes the rounding of totals."}
    ),
)
SHOW: Final = Operation(
    "showApprovalRequest", TAG, (ResponseSpec("The request.", json_content(ApprovalRequest)),), _ID_PARAMETERS
)
APPROVE: Final = Operation(
    "approveRequest",
    TAG,
    (ResponseSpec("The request and its vote count.", json_content(VoteResult)),),
    _ID_PARAMETERS,
    body=Body(json_content(Approval | None), example={"reason": "Reviewed the diff."}),
    error_statuses=(409,),
)
REJECT: Final = Operation(
    "rejectRequest",
    TAG,
    (ResponseSpec("The request and its vote count.", json_content(VoteResult)),),
    _ID_PARAMETERS,
    body=Body(json_content(Rejection), example={"reason": "Not during the freeze."}),
    error_statuses=(409,),
)


@dataclass(frozen=True, slots=True)
class ApprovalRequests:
    """Handlers of approval requests, and their dependencies. `link_builder`: for the links in messages."""

    context: HandlerContext
    sender: ImmediateSender
    link_builder: LinkBuilder
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope.

        Rejecting requires the scope to decide or the scope to request; `reject` checks which one: requesters may
        withdraw without being deciders.
        """
        every = "/orgs/{orgSlug}/approval-requests"
        one = every + "/{requestId}"
        write = bearer(Scope.APPROVALS_WRITE)
        return [
            Route("GET", every, self.list, bearer(Scope.APPROVALS_READ), operation=LIST),
            Route("POST", every, self.create, write, limit=LimitClass.APPROVAL, operation=CREATE),
            Route("GET", one, self.show, bearer(Scope.APPROVALS_READ), operation=SHOW),
            Route("POST", one + "/approve", self.approve, bearer(*APPROVE_SCOPES), operation=APPROVE),
            Route("POST", one + "/reject", self.reject, bearer(*REJECT_SCOPES), operation=REJECT),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List approval requests, newest first."""
        issues = Issues()
        status = _parse_status(request, issues)
        limit = bounded_int(request.query, "limit", DEFAULT_LIMIT, 1, MAX_LIMIT, issues)
        issues.raise_if_any("The query is not valid.")
        now = self.now()
        async with self.context.database.read() as connection:
            found = await store.list_requests(connection, authorization_context(request).org_id, status, now, limit)
        return json_response({"data": [request_body(one, now) for one in found]})

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Request the approval of an action.

        ALLOW and DENY are final, and no request is created. ASK creates an open request (201), or returns the same one
        if it is open (200): same requester, action, target and project. Each channel is notified once; `deliveries`
        lists the channels that this call notifies or cannot notify.
        """
        body = await self._read_new(request)
        async with self.context.write_transaction(request) as (connection, caller), _with_limit_headers(request):
            now = self.now()  # after the wait for the write transaction
            result = await submit(
                connection, Submission(caller, body, self._request_links(caller), request_id(request), now)
            )
        deliveries = await self.sender.send_now(result.queued) if result.queued else []
        return json_response(decision_body(result, deliveries, now), status=201 if result.created else 200)

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Show an approval request."""
        return json_response(request_body(await self._load_request(request), self.now()))

    async def approve(self, request: web.Request) -> web.StreamResponse:
        """Approve a request.

        It is approved once the number of approvals that the policy requires is reached, and one of the approvers is
        independent of the requester. 409 when it is decided or expired, or when the requester has left or is disabled;
        403 for one's own request.
        """
        found = await self._load_request(request)
        body: Approval | None = await self.context.read_body(request, Approval | None)  # type: ignore[arg-type]  # a union is a type to msgspec
        return await self._vote(request, found, reason_or_none(body), voting.approve)

    async def reject(self, request: web.Request) -> web.StreamResponse:
        """Reject a request, or withdraw one's own.

        One rejection is final. 409 when the request is decided or expired.
        """
        found = await self._load_request(request)
        async with self.context.database.read() as connection:
            require_right_to_reject(authorization_context(request), await store.with_current_owners(connection, found))
        body = await self.context.read_body(request, Rejection)
        return await self._vote(request, found, reason_or_none(body), voting.reject)

    async def _read_new(self, request: web.Request) -> NewRequest:
        """The body. Raises BadRequest with all issues: types, texts, and an unknown project."""
        issues = Issues()
        placeholders = {"action": "a.b", "targetType": "x", "targetId": "x"}
        body = await self.context.read_partial_body(request, NewRequest, placeholders, issues)
        if body is not None:
            check_new(body, issues)
            if issues:  # without issues, `submit` checks the project
                async with self.context.database.read() as connection:
                    await resolve_project_id(
                        connection, authorization_context(request).org_id, body.project_tag, "body.projectTag", issues
                    )
        issues.raise_if_any("The request body is not valid.")
        return cast("NewRequest", body)  # None only with an issue

    async def _vote(
        self,
        request: web.Request,
        found: RequestRecord,
        reason: str | None,
        vote: Vote,
    ) -> web.StreamResponse:
        """Cast the vote and enqueue notifications of a decision, without waiting for their delivery."""
        async with self.context.write_transaction(request) as (connection, caller):
            now = self.now()  # after the wait for the write transaction: the request may expire meanwhile
            cast = VoteRequest(caller, found.id, reason, request_id(request), now)
            outcome = await voting.cast_vote(connection, vote, cast, self._request_links(caller))
        return json_response(vote_body(outcome.request, outcome.vote_count, outcome.idempotent, now))

    async def _load_request(self, request: web.Request) -> RequestRecord:
        approval_request_id = request.match_info["requestId"]
        if (
            _REQUEST_ID.fullmatch(approval_request_id) is None
        ):  # a path may hold characters that no database column accepts
            raise NotFound
        async with self.context.database.read() as connection:
            found = await store.find(connection, authorization_context(request).org_id, approval_request_id)
        if found is None:
            raise NotFound
        return found

    def _request_links(self, caller: AuthorizationContext) -> RequestLinks:
        return self.link_builder.for_org(caller.org_slug)


@asynccontextmanager
async def _with_limit_headers(request: web.Request) -> AsyncIterator[None]:
    """Sets the rate-limit headers to the limit that was exceeded."""
    try:
        yield
    except TooManyOpenRequests as error:
        request[LIMIT_RESULT] = error.limit_result
        raise


def _parse_status(request: web.Request, issues: Issues) -> Status | None:
    text = single_value(request.query, "status", issues)
    if text is None or text in set(Status):
        return None if text is None else Status(text)
    issues.add("query.status", f"Must be one of {', '.join(Status)}.", "not_allowed")
    return None
