"""`/orgs/{orgSlug}/approval-requests`: list, create, show, approve, reject.

The policies evaluate a submitted action (`submit`). ASK creates an open request, unless too many are open.
"""

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, ClassVar, Final

import msgspec
import sqlalchemy as sa
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import load_membership_statuses, owned_principals, owning_user
from chassis.auth.model import AuthorizationContext
from chassis.errors import ApiError
from chassis.http.access import authorization_context, bearer
from chassis.http.declaration import Argument, Arguments, Created, route
from chassis.http.route import Body, Query, Tag, json_content
from chassis.http.validation import Issues
from chassis.limits.limiter import LimitClass, LimitResult
from chassis.limits.rate_limits import LIMIT_RESULT
from control.approvals import notifications, store, voting
from control.approvals.bodies import (
    Approval,
    ApprovalRequest,
    ChannelNotification,
    Decision,
    NewRequest,
    Rejection,
    RequestList,
    VoteResult,
    check_prose,
    reason_or_none,
    request_body,
)
from control.approvals.model import RequestRecord, Status, Verdict
from control.approvals.notifications import LinkBuilder, RequestLinks
from control.approvals.policies import store as policies
from control.approvals.policies.rules import Effect, PolicyQuery, Rule, decide, decision_reason, required_approvals
from control.approvals.policies.store import resolve_project_id
from control.approvals.store import RequestDetails
from control.approvals.tables import OPEN, approval_requests
from control.approvals.voting import APPROVE_SCOPES, REJECT_SCOPES, Ballot, require_right_to_reject
from control.audit.tables import MAX_OBJECT_ID_LENGTH
from control.http.context import path_id
from control.notify.deliveries.outbox import AllChannels, ChannelIds, DeliveryResult, EnqueueResult, ImmediateSender
from control.routing.arguments import Handlers, Transaction, begin, control_arguments
from control.routing.resource import shown_as
from proto.errors import ErrorCode
from proto.identity import Scope

MAX_OPEN_PER_ORG: Final = 10_000  # per organization
MAX_OPEN_PER_USER: Final = 1_000  # per user, including the machine principals that the user owns


class TooManyOpenRequests(ApiError):
    """429: the limit of open requests is reached. `seconds`: time until the first of them expires. `limit_result` is
    for the headers.
    """

    def __init__(self, limit: int, scope: str, seconds: int, now: datetime) -> None:
        message = f"The limit of {limit} open approval requests per {scope} is reached. Decide or withdraw some."
        super().__init__(ErrorCode.QUOTA_EXCEEDED, message, retry_after=seconds)
        self.limit_result = LimitResult(limit, 0, int(now.timestamp()) + seconds, seconds * 1_000_000_000)


async def check_open_limit(connection: AsyncConnection, org_id: str, requester_id: str, now: datetime) -> None:
    """Raises TooManyOpenRequests. Room is made when a request is decided, at the latest when one expires. Requests of
    agents and services count for the user who owns them, because a user may create any number of agents and services.
    """
    columns = approval_requests.c
    owning_user_id = owning_user(requester_id, await load_membership_statuses(connection, org_id, [requester_id]))
    for limit, scope, condition in (
        (
            MAX_OPEN_PER_USER,
            "user (including requests of the user's agents and services)",
            columns.requester_id.in_(owned_principals(owning_user_id)),
        ),
        (MAX_OPEN_PER_ORG, "organization", sa.true()),
    ):
        waiting = (columns.org_id == org_id, condition, OPEN, columns.expires_at > now)
        statement = sa.select(columns.expires_at).where(*waiting).limit(limit).subquery()
        count = sa.select(sa.func.count(), sa.func.min(statement.c.expires_at, type_=columns.expires_at.type))
        number, soonest = (await connection.execute(count.select_from(statement))).one()
        if number >= limit:
            raise TooManyOpenRequests(limit, scope, int((soonest - now).total_seconds()) + 1, now)


@dataclass(frozen=True, slots=True)
class SubmitResult:
    """The rule that decided. `request`: for ASK only. `created`: whether the request is new. `queued`: deliveries to
    attempt.
    """

    rule: Rule
    request: RequestRecord | None = None
    created: bool = False
    queued: Sequence[EnqueueResult] = ()


async def submit(transaction: Transaction, body: NewRequest, links: RequestLinks, now: datetime) -> SubmitResult:
    """Evaluate the policies. For ASK, find the same open request or create one. Raises BadRequest for an unknown
    project, TooManyOpenRequests.
    """
    connection, caller, issues = transaction.connection, transaction.caller, Issues()
    project_id = await resolve_project_id(connection, caller.org_id, body.project_tag, "body.projectTag", issues)
    issues.raise_if_any("The request body is not valid.")
    rules = await policies.list_enabled_rules(connection, caller.org_id, project_id)
    rule = decide(rules, PolicyQuery(body.action, body.target_type))
    if rule.effect is not Effect.ASK:
        target = f"{body.target_type}:{body.target_id}"[:MAX_OBJECT_ID_LENGTH]
        await _record_submission(transaction, rule.effect.value.lower(), target, body, rule)
        return SubmitResult(rule)
    payload = {
        "summary": body.summary,
        "projectTag": body.project_tag,
        "policySource": rule.source.value,
        "policyReason": decision_reason(rule),
    }
    details = RequestDetails(body.action, body.target_type, body.target_id, project_id, payload)
    requester = await store.load_participant(connection, caller)
    existing = await store.find_open(connection, caller.org_id, requester, details, now)
    if existing is not None:
        return SubmitResult(rule, existing, queued=await _notify_channels(connection, body, existing, links, now))
    await check_open_limit(connection, caller.org_id, caller.principal_id, now)
    ttl = rule.ttl_minutes if body.ttl_minutes is msgspec.UNSET else body.ttl_minutes
    expires_at = now + timedelta(minutes=ttl)
    created = await store.create(connection, caller.org_id, requester, details, rule, expires_at, now)
    await _record_submission(transaction, "create", created.id, body, rule)
    return SubmitResult(rule, created, True, await _notify_channels(connection, body, created, links, now))


def decision_body(result: SubmitResult, deliveries: list[DeliveryResult], now: datetime) -> Decision:
    """The decision as a response body. An existing request shows its own values, because a policy may have changed."""
    rule, request = result.rule, result.request
    if request is None:
        return Decision(
            rule.effect, rule.risk_class, decision_reason(rule), required_approvals(rule), rule.source, None, []
        )
    return Decision(
        rule.effect,
        request.risk_class,
        request.policy_reason,
        request.min_approvers,
        request.policy_source,
        request_body(request, now),
        [shown_as(ChannelNotification, one) for one in deliveries],
    )


async def _notify_channels(
    connection: AsyncConnection, body: NewRequest, request: RequestRecord, links: RequestLinks, now: datetime
) -> Sequence[EnqueueResult]:
    """Enqueue notifications. For an existing request, only channels that have not been notified get one."""
    channel_ids = None if body.channel_ids is msgspec.UNSET else [*dict.fromkeys(body.channel_ids)]
    if not (channel_ids is not None if body.notify is msgspec.UNSET else body.notify):
        return ()
    target = AllChannels(request.project_id) if channel_ids is None else ChannelIds(channel_ids)
    return await notifications.notify_requested(connection, request, target, links, now)


async def _record_submission(transaction: Transaction, verb: str, object_id: str, body: NewRequest, rule: Rule) -> None:
    data = {
        "action": body.action,
        "targetType": body.target_type,
        "targetId": body.target_id,
        "projectTag": body.project_tag,
        "riskClass": rule.risk_class.value,
        "policyId": rule.policy_id,
        "policySource": rule.source.value,
    }
    await transaction.record(f"approval_request.{verb}", object_id, data)


DEFAULT_LIMIT: Final = 50
MAX_LIMIT: Final = 100
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
    """Filters of a list of requests."""

    status: Annotated[Status | None, Meta(description="Only requests with this status.")] = None
    limit: Annotated[int, Meta(ge=1, le=MAX_LIMIT), Meta(description="Maximum number of requests.")] = DEFAULT_LIMIT


@dataclass(frozen=True, slots=True)
class ApprovalRequests(Handlers):
    """Handlers of approval requests, and their dependencies. `link_builder` builds the links in messages."""

    TAG: ClassVar = Tag("approval-requests", "Request approval of an action, approve or reject requests.")
    sender: ImmediateSender
    link_builder: LinkBuilder
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def arguments(self) -> Arguments:
        arguments = control_arguments(self.context, {RequestRecord: Argument(self._find)})
        return replace(arguments, read_body=self._read_new)

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

        ALLOW and DENY are final, and no request is created. ASK creates an open request (201). If the same request is
        already open, with the same requester, action, target and project, it is returned (200). Each channel is
        notified once. `deliveries` lists the channels that this call notifies or cannot notify.
        """
        try:
            async with begin(self.context, request) as transaction:
                now = self.now()  # after the wait for the write transaction
                links = self.link_builder.for_org(transaction.caller.org_slug)
                result = await submit(transaction, body, links, now)
        except TooManyOpenRequests as error:
            request[LIMIT_RESULT] = error.limit_result  # the rate-limit headers describe the limit that was reached
            raise
        deliveries = await self.sender.send_now(result.queued) if result.queued else []
        decision = decision_body(result, deliveries, now)
        return Created(decision) if result.created else decision

    @route("GET", ONE, _READ)
    async def show_approval_request(self, approval_request: RequestRecord) -> ApprovalRequest:
        """Show an approval request."""
        return request_body(approval_request, self.now())

    @route("POST", ONE + "/approve", bearer(*APPROVE_SCOPES), body=APPROVAL, errors=(409,))
    async def approve_request(self, approval_request: RequestRecord, request: web.Request) -> VoteResult:
        """Approve a request.

        The request is approved when it has the number of approvals that the policy requires, and one of the approvers
        is independent of the requester. 409 if the request is decided or expired, or if the requester has left or is
        disabled. 403 for your own request.
        """
        body: Approval | None = await self.context.read_body(request, Approval | None)  # type: ignore[arg-type]  # a union is a type to msgspec
        return await self._vote(request, approval_request, reason_or_none(body), Verdict.APPROVE)

    @route("POST", ONE + "/reject", bearer(*REJECT_SCOPES), body=REJECTION, errors=(409,))
    async def reject_request(self, approval_request: RequestRecord, request: web.Request) -> VoteResult:
        """Reject a request, or withdraw your own.

        One rejection is final. 409 if the request is decided or expired.
        """
        # Requesters may withdraw their requests without being deciders, so the right depends on the request. The right
        # is checked before the body.
        async with self.context.database.read() as connection:
            with_owners = await store.with_current_owners(connection, approval_request)
        require_right_to_reject(authorization_context(request), with_owners)
        body = await self.context.read_body(request, Rejection)
        return await self._vote(request, approval_request, reason_or_none(body), Verdict.REJECT)

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

    async def _vote(
        self, request: web.Request, approval_request: RequestRecord, reason: str | None, verdict: Verdict
    ) -> VoteResult:
        async with begin(self.context, request) as transaction:
            now = self.now()  # after the wait for the write transaction: the request may expire meanwhile
            links = self.link_builder.for_org(transaction.caller.org_slug)
            ballot = Ballot(transaction.caller, approval_request.id, reason, transaction.request_id, now)
            cast = await voting.cast_vote(transaction.connection, verdict, ballot, links)
        count = cast.vote_count
        return VoteResult(
            request_body(cast.request, now),
            count.approvals,
            count.remaining,
            count.has_independent_approver,
            cast.idempotent,
        )

    async def _find(self, request: web.Request, _stack: AsyncExitStack) -> RequestRecord:
        """The request in the path. 404 for an unknown request precedes the faults of a body. Raises NotFound."""
        async with self.context.database.read() as connection:
            return await store.get(connection, authorization_context(request).org_id, path_id(request, "requestId"))
