"""Decides about a requested action: evaluates the policies, and for ASK creates the open request."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.http.validation import Issues
from control.approvals import notifications, repository
from control.approvals.model import RequestRecord
from control.approvals.notifications import RequestLinks
from control.approvals.open_limits import check_open_limit
from control.approvals.policies import repository as policies
from control.approvals.policies.evaluation import PolicyQuery, decide, reason, required_approvals
from control.approvals.policies.model import Effect, Rule
from control.approvals.policies.validation import resolve_project_id
from control.approvals.repository import RequestDetails
from control.approvals.schemas import ChannelNotification, Decision, NewRequest, request_body
from control.audit.record import record
from control.audit.tables import MAX_OBJECT_ID_LENGTH
from control.notify.deliveries.outbox import AllChannels, ChannelIds, DeliveryResult, EnqueueResult


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
    requester = await repository.load_participant(connection, caller)
    existing = await repository.find_open(connection, caller.org_id, requester, details, submission.now)
    if existing is not None:
        return SubmitResult(rule, existing, queued=await _notify_channels(connection, submission, existing))
    await check_open_limit(connection, caller.org_id, caller.principal_id, submission.now)
    ttl = rule.ttl_minutes if body.ttl_minutes is msgspec.UNSET else body.ttl_minutes
    created = await repository.create(
        connection, caller.org_id, requester, details, rule, repository.expiry_time(submission.now, ttl), submission.now
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
