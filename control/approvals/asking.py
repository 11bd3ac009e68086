"""What becomes of a question: the rule that decides it, and for ASK the request that waits."""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

import msgspec
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.identity.model import Reach
from chassis.validation import Issues
from control.approvals import store, telling
from control.approvals.bodies import ChannelTold, Decision, NewRequest, request_body
from control.approvals.ceilings import require_room
from control.approvals.model import Request
from control.approvals.store import Asked
from control.approvals.telling import Place
from control.audit.record import record
from control.audit.tables import MAX_OBJECT_ID_LENGTH
from control.deliveries.outbox import Delivery, Everyone, Named, Queued
from control.policies import store as policies
from control.policies.checks import project_of
from control.policies.engine import Question, decide, minimum, reason
from control.policies.model import Effect, Rule


@dataclass(frozen=True, slots=True)
class Asking:
    """One question. `place`: where requests are met. `trace_id`: of the HTTP request that brings it,
    for the audit.
    """

    caller: Reach
    body: NewRequest
    place: Place
    trace_id: str
    now: datetime


@dataclass(frozen=True, slots=True)
class Answered:
    """What became of it. `request` for ASK only; `made`: it is a new one. `queued`: deliveries to attempt."""

    rule: Rule
    request: Request | None = None
    made: bool = False
    queued: Sequence[Queued] = ()


async def ask(connection: AsyncConnection, asking: Asking) -> Answered:
    """Decide, and for ASK find the same request waiting or make one. Raises BadRequest for a project that is none,
    TooManyOpen.
    """
    caller, body = asking.caller, asking.body
    issues = Issues()
    project_id = await project_of(connection, caller.org_id, body.project_tag, "body.projectTag", issues)
    issues.raise_if_any("The request body is not valid.")
    rules = await policies.rules(connection, caller.org_id, project_id)
    rule = decide(rules, Question(body.action, body.target_type))
    if rule.effect is not Effect.ASK:
        await _record_verdict(connection, asking, rule)
        return Answered(rule)
    asked = Asked(body.action, body.target_type, body.target_id, project_id, _payload(body, rule))
    requester = await store.party(connection, caller)
    waiting = await store.find_open(connection, caller.org_id, requester, asked, asking.now)
    if waiting is not None:
        return Answered(rule, waiting, queued=await _tell(connection, asking, waiting))
    await require_room(connection, caller.org_id, caller.principal_id, asking.now)
    ttl = rule.ttl_minutes if body.ttl_minutes is msgspec.UNSET else body.ttl_minutes
    made = await store.ask(connection, caller.org_id, requester, asked, rule, store.expiry(asking.now, ttl), asking.now)
    await record(connection, caller, "approval_request.create", made.id, _told(body, rule), asking.trace_id)
    return Answered(rule, made, True, await _tell(connection, asking, made))


def decision_body(answered: Answered, deliveries: list[Delivery], now: datetime) -> Decision:
    """As the API shows it. A request that waited already has its own words: a policy may have changed since."""
    rule, request = answered.rule, answered.request
    if request is None:
        return Decision(rule.effect, rule.risk_class, reason(rule), minimum(rule), rule.source, None, [])
    return Decision(
        rule.effect,
        request.risk_class,
        request.policy_reason,
        request.min_approvers,
        request.policy_source,
        request_body(request, now),
        [ChannelTold(one.channel_id, one.kind, one.delivered, one.error) for one in deliveries],
    )


async def _tell(connection: AsyncConnection, asking: Asking, request: Request) -> Sequence[Queued]:
    """Of a request that waited already those are told that were not."""
    channel_ids, notify = asking.body.channel_ids, asking.body.notify
    if notify is msgspec.UNSET:
        notify = channel_ids is not msgspec.UNSET
    if not notify:
        return ()
    target = Everyone(request.project_id) if channel_ids is msgspec.UNSET else Named([*dict.fromkeys(channel_ids)])
    return await telling.tell_asked(connection, request, target, asking.place, asking.now)


async def _record_verdict(connection: AsyncConnection, asking: Asking, rule: Rule) -> None:
    body = asking.body
    target = f"{body.target_type}:{body.target_id}"[:MAX_OBJECT_ID_LENGTH]
    verb = rule.effect.value.lower()
    await record(connection, asking.caller, f"approval_request.{verb}", target, _told(body, rule), asking.trace_id)


def _payload(body: NewRequest, rule: Rule) -> dict[str, Any]:
    return {
        "summary": body.summary,
        "projectTag": body.project_tag,
        "policySource": rule.source.value,
        "policyReason": reason(rule),
    }


def _told(body: NewRequest, rule: Rule) -> dict[str, Any]:
    """For the audit."""
    return {
        "action": body.action,
        "targetType": body.target_type,
        "targetId": body.target_id,
        "projectTag": body.project_tag,
        "riskClass": rule.risk_class.value,
        "policyId": rule.policy_id,
        "policySource": rule.source.value,
    }
