"""Votes and withdrawals: each runs in the caller's transaction, and reads again all that the rules depend on."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.errors import Conflict, NotFound
from control.approvals import repository, vote_rules
from control.approvals.model import RequestRecord, Status, Verdict, VoteCount
from control.approvals.vote_rules import VoteCase
from control.audit.record import record


class VoteOutcome(NamedTuple):
    """The request after the vote, and the vote count. `idempotent`: the vote existed and nothing changed; `decided`:
    this vote decided the request.
    """

    request: RequestRecord
    vote_count: VoteCount
    idempotent: bool
    decided: bool


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """A vote to cast. `trace_id`: id of the HTTP request, for the audit log."""

    caller: AuthorizationContext
    request_id: str
    reason: str | None
    trace_id: str
    now: datetime


async def approve(connection: AsyncConnection, vote: VoteRequest) -> VoteOutcome:
    """Cast an approval; the one that makes the count sufficient decides the request.

    Raises NotFound; Conflict for a request that is decided or expired, or whose requester has left or is disabled;
    Forbidden for one's own request, and for principals that may not decide it. If the same principal repeats it, before
    or after the request is approved, the result is the same and nothing is written; but while the request is open, a
    vote that no longer counts as it was cast is cast again.
    """
    case = await _load(connection, vote)
    if vote_rules.is_repeated_approval(case, vote.now):
        return VoteOutcome(case.request, case.vote_count, idempotent=True, decided=False)
    request, vote_count = case.request, case.vote_count
    if not case.is_counted:
        vote_count = await _cast(connection, vote, case, Verdict.APPROVE)
        await _record_audit(connection, vote, "approval_request.vote", request, vote_count)
    if vote_count.is_sufficient:
        request = await _decide(connection, vote, request, Status.APPROVED, vote_count)
    return VoteOutcome(request, vote_count, idempotent=False, decided=vote_count.is_sufficient)


async def reject(connection: AsyncConnection, vote: VoteRequest) -> VoteOutcome:
    """Cast a rejection, which is final. The requester, or an owner of the requester, may reject too: that withdraws the
    request.

    Raises NotFound; Conflict for a request that is decided or expired; Forbidden for principals that may not decide it.
    If the same principal repeats it, the result is the same and nothing is written.
    """
    case = await _load(connection, vote)
    if vote_rules.is_repeated_rejection(case, vote.now):
        return VoteOutcome(case.request, case.vote_count, idempotent=True, decided=False)
    vote_count = await _cast(connection, vote, case, Verdict.REJECT)
    request = await _decide(connection, vote, case.request, Status.REJECTED, vote_count)
    return VoteOutcome(request, vote_count, idempotent=False, decided=True)


async def _load(connection: AsyncConnection, vote: VoteRequest) -> VoteCase:
    request = await repository.find(connection, vote.caller.org_id, vote.request_id)
    if request is None:
        raise NotFound
    (case,) = await vote_rules.load_cases(connection, vote.caller, [request])
    return case


async def _cast(connection: AsyncConnection, vote: VoteRequest, case: VoteCase, verdict: Verdict) -> VoteCount:
    """Write the vote; returns the count with it."""
    await repository.cast_vote(
        connection, case.request, case.voter, verdict, vote.reason, vote.caller.token_id, vote.now
    )
    (voted,) = await vote_rules.load_cases(connection, vote.caller, [case.request])
    return voted.vote_count


async def _decide(
    connection: AsyncConnection, vote: VoteRequest, request: RequestRecord, status: Status, vote_count: VoteCount
) -> RequestRecord:
    values = {
        "status": status.value,
        "decider_id": vote.caller.principal_id,
        "decided_at": vote.now,
        "reason": vote.reason,
        "approvals": vote_count.approvals,
        "independent": vote_count.has_independent_approver,
    }
    if not await repository.decide(connection, request, values, vote.now):
        raise Conflict("The request is already decided.")
    verb = {Status.APPROVED: "approve", Status.REJECTED: "reject"}[status]
    await _record_audit(connection, vote, f"approval_request.{verb}", request, vote_count)
    return await repository.get(connection, request.org_id, request.id)


async def _record_audit(
    connection: AsyncConnection, vote: VoteRequest, action: str, request: RequestRecord, vote_count: VoteCount
) -> None:
    data: dict[str, Any] = {
        "action": request.action,
        "reason": vote.reason,
        "approvals": vote_count.approvals,
        "minApprovers": vote_count.min_approvers,
        "independent": vote_count.has_independent_approver,
    }
    await record(connection, vote.caller, action, request.id, data, vote.trace_id)
