"""Submits an action: evaluates the policies, and for ASK creates the open request, within the limits of open requests."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.membership_status import load_membership_statuses, owned_principals, owning_user
from chassis.auth.model import AuthorizationContext
from chassis.errors import ApiError
from chassis.http.validation import Issues
from chassis.limits.limiter import LimitResult
from control.approvals import notifications, store
from control.approvals.bodies import ChannelNotification, Decision, NewRequest, request_body
from control.approvals.model import RequestRecord
from control.approvals.notifications import RequestLinks
from control.approvals.policies import store as policies
from control.approvals.policies.rules import Effect, PolicyQuery, Rule, decide, reason, required_approvals
from control.approvals.policies.store import resolve_project_id
from control.approvals.store import RequestDetails
from control.approvals.tables import OPEN, approval_requests
from control.audit.record import record
from control.audit.tables import MAX_OBJECT_ID_LENGTH
from control.notify.deliveries.outbox import AllChannels, ChannelIds, DeliveryResult, EnqueueResult
from proto.errors import ErrorCode

MAX_OPEN_PER_ORG: Final = 10_000  # per organization
MAX_OPEN_PER_USER: Final = 1_000  # per user, including the machine principals that the user owns


class TooManyOpenRequests(ApiError):
    """429: the limit of open requests is reached; `seconds` until the first of them expires. `limit_result` is for the
    headers.
    """

    def __init__(self, limit: int, scope: str, seconds: int, now: datetime) -> None:
        message = f"The limit of {limit} open requests per {scope} is reached. Decide or withdraw some."
        super().__init__(ErrorCode.QUOTA_EXCEEDED, message, retry_after=seconds)
        self.limit_result = LimitResult(limit, 0, int(now.timestamp()) + seconds, seconds * 1_000_000_000)


async def check_open_limit(connection: AsyncConnection, org_id: str, requester_id: str, now: datetime) -> None:
    """Raises TooManyOpenRequests. A slot becomes free when a request is decided, at the latest when one expires.
    Requests of agents and services count for their owning user, who may create any number of them.
    """
    columns = approval_requests.c
    owning_user_id = owning_user(requester_id, await load_membership_statuses(connection, org_id, [requester_id]))
    for limit, scope, condition in (
        (
            MAX_OPEN_PER_USER,
            "user, with the agents and services that the user owns",
            columns.requester_id.in_(owned_principals(owning_user_id)),
        ),
        (MAX_OPEN_PER_ORG, "organization", sa.true()),
    ):
        waiting = (columns.org_id == org_id, condition, OPEN, columns.expires_at > now)
        found = sa.select(columns.expires_at).where(*waiting).limit(limit).subquery()
        count = sa.select(sa.func.count(), sa.func.min(found.c.expires_at, type_=columns.expires_at.type))
        number, soonest = (await connection.execute(count.select_from(found))).one()
        if number >= limit:
            raise TooManyOpenRequests(limit, scope, int((soonest - now).total_seconds()) + 1, now)


@dataclass(frozen=True, slots=True)
class Submission:
    """One requested action. `trace_id`: id of the HTTP request, for the audit log."""

    caller: AuthorizationContext
    body: NewRequest
    links: RequestLinks
    trace_id: str
    now: datetime


@dataclass(frozen=True, slots=True)
class SubmitResult:
    """The rule that decided. `request` for ASK only; `created`: whether it is new. `queued`: deliveries to attempt."""

    rule: Rule
    request: RequestRecord | None = None
    created: bool = False
    queued: Sequence[EnqueueResult] = ()


async def submit(connection: AsyncConnection, submission: Submission) -> SubmitResult:
    """Evaluate the policies; for ASK find the same open request or create one. Raises BadRequest for an unknown
    project, TooManyOpenRequests.
    """
    caller, body = submission.caller, submission.body
    issues = Issues()
    project_id = await resolve_project_id(connection, caller.org_id, body.project_tag, "body.projectTag", issues)
    issues.raise_if_any("The request body is not valid.")
    rules = await policies.list_enabled_rules(connection, caller.org_id, project_id)
    rule = decide(rules, PolicyQuery(body.action, body.target_type))
    if rule.effect is not Effect.ASK:
        await _record_decision(connection, submission, rule)
        return SubmitResult(rule)
    details = RequestDetails(body.action, body.target_type, body.target_id, project_id, _payload(body, rule))
    requester = await store.load_participant(connection, caller)
    existing = await store.find_open(connection, caller.org_id, requester, details, submission.now)
    if existing is not None:
        return SubmitResult(rule, existing, queued=await _notify_channels(connection, submission, existing))
    await check_open_limit(connection, caller.org_id, caller.principal_id, submission.now)
    ttl = rule.ttl_minutes if body.ttl_minutes is msgspec.UNSET else body.ttl_minutes
    created = await store.create(
        connection, caller.org_id, requester, details, rule, store.expiry_time(submission.now, ttl), submission.now
    )
    await record(
        connection, caller, "approval_request.create", created.id, _audit_data(body, rule), submission.trace_id
    )
    return SubmitResult(rule, created, True, await _notify_channels(connection, submission, created))


def decision_body(result: SubmitResult, deliveries: list[DeliveryResult], now: datetime) -> Decision:
    """The API representation. A request that existed already shows its own values: a policy may have changed since."""
    rule, request = result.rule, result.request
    if request is None:
        return Decision(rule.effect, rule.risk_class, reason(rule), required_approvals(rule), rule.source, None, [])
    return Decision(
        rule.effect,
        request.risk_class,
        request.policy_reason,
        request.min_approvers,
        request.policy_source,
        request_body(request, now),
        [ChannelNotification(one.channel_id, one.kind, one.delivered, one.error) for one in deliveries],
    )


async def _notify_channels(
    connection: AsyncConnection, submission: Submission, request: RequestRecord
) -> Sequence[EnqueueResult]:
    """Enqueue notifications; for an existing request only those of channels that have not been notified."""
    channel_ids, notify = submission.body.channel_ids, submission.body.notify
    if notify is msgspec.UNSET:
        notify = channel_ids is not msgspec.UNSET
    if not notify:
        return ()
    target = (
        AllChannels(request.project_id) if channel_ids is msgspec.UNSET else ChannelIds([*dict.fromkeys(channel_ids)])
    )
    return await notifications.notify_requested(connection, request, target, submission.links, submission.now)


async def _record_decision(connection: AsyncConnection, submission: Submission, rule: Rule) -> None:
    body = submission.body
    target = f"{body.target_type}:{body.target_id}"[:MAX_OBJECT_ID_LENGTH]
    verb = rule.effect.value.lower()
    await record(
        connection, submission.caller, f"approval_request.{verb}", target, _audit_data(body, rule), submission.trace_id
    )


def _payload(body: NewRequest, rule: Rule) -> dict[str, Any]:
    return {
        "summary": body.summary,
        "projectTag": body.project_tag,
        "policySource": rule.source.value,
        "policyReason": reason(rule),
    }


def _audit_data(body: NewRequest, rule: Rule) -> dict[str, Any]:
    """Data of the audit event."""
    return {
        "action": body.action,
        "targetType": body.target_type,
        "targetId": body.target_id,
        "projectTag": body.project_tag,
        "riskClass": rule.risk_class.value,
        "policyId": rule.policy_id,
        "policySource": rule.source.value,
    }
