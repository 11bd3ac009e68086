"""Submits an action: evaluates the policies, and for ASK creates the open request, if there are not too many."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import load_membership_statuses, owned_principals, owning_user
from chassis.errors import ApiError
from chassis.http.validation import Issues
from chassis.limits.limiter import LimitResult
from control.approvals import notifications, store
from control.approvals.bodies import ChannelNotification, Decision, NewRequest, request_body
from control.approvals.model import RequestRecord
from control.approvals.notifications import RequestLinks
from control.approvals.policies import store as policies
from control.approvals.policies.rules import Effect, PolicyQuery, Rule, decide, decision_reason, required_approvals
from control.approvals.policies.store import resolve_project_id
from control.approvals.store import RequestDetails
from control.approvals.tables import OPEN, approval_requests
from control.audit.tables import MAX_OBJECT_ID_LENGTH
from control.notify.deliveries.outbox import AllChannels, ChannelIds, DeliveryResult, EnqueueResult
from control.routing.arguments import Transaction
from control.routing.resource import shown_as
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
class SubmitResult:
    """The rule that decided. `request` for ASK only; `created`: whether it is new. `queued`: deliveries to attempt."""

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
        await _record(transaction, rule.effect.value.lower(), target, body, rule)
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
    await _record(transaction, "create", created.id, body, rule)
    return SubmitResult(rule, created, True, await _notify_channels(connection, body, created, links, now))


def decision_body(result: SubmitResult, deliveries: list[DeliveryResult], now: datetime) -> Decision:
    """The API representation. A request that existed already shows its own values: a policy may have changed since."""
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
    """Enqueue notifications; for an existing request only those of channels that have not been notified."""
    channel_ids = None if body.channel_ids is msgspec.UNSET else [*dict.fromkeys(body.channel_ids)]
    if not (channel_ids is not None if body.notify is msgspec.UNSET else body.notify):
        return ()
    target = AllChannels(request.project_id) if channel_ids is None else ChannelIds(channel_ids)
    return await notifications.notify_requested(connection, request, target, links, now)


async def _record(transaction: Transaction, verb: str, object_id: str, body: NewRequest, rule: Rule) -> None:
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
