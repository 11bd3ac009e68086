"""Votes and withdrawals: each one transaction of its caller, in which nothing that was read before counts."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.errors import Conflict, Forbidden, NotFound
from control.approvals import repository
from control.approvals.model import Approver, Participant, RequestRecord, Status, Verdict, VoteCount, count_votes
from control.audit.record import record
from proto.identity import PrincipalKind, Scope


class VoteOutcome(NamedTuple):
    """The request afterwards and how the votes stand. `idempotent`: the vote had been there and changed nothing;
    `decided`: this vote decided the request.
    """

    request: RequestRecord
    vote_count: VoteCount
    idempotent: bool
    decided: bool


@dataclass(frozen=True, slots=True)
class VoteRequest:
    """One vote that somebody is about to cast. `trace_id`: of the HTTP request that brings it, for the audit."""

    caller: AuthorizationContext
    request_id: str
    reason: str | None
    trace_id: str
    now: datetime


async def approve(connection: AsyncConnection, vote: VoteRequest) -> VoteOutcome:
    """An approval; the one that makes it enough decides the request.

    Raises NotFound; Conflict for a request that is decided or expired, or of somebody who has left or is disabled;
    Forbidden for one's own, and for who may not decide it. Again by the same principal, before or after the request is
    approved: the same answer, nothing written; but while it waits, a vote that counts no more, as it was cast, is cast
    anew.
    """
    request, voter = await _load(connection, vote)
    earlier = await repository.find_vote(connection, request, voter.principal_id)
    if earlier is Verdict.APPROVE and request.status is Status.APPROVED:
        return VoteOutcome(request, _final_count(request), idempotent=True, decided=False)
    _require_open(request, vote.now)
    _require_active_requester(request)
    _forbid_self_approval(request, voter)
    await _require_decider(connection, request, voter)
    stands = earlier is not None and await _is_still_counted(connection, request, voter)
    if not stands:
        await repository.cast_vote(
            connection, request, voter, Verdict.APPROVE, vote.reason, vote.caller.token_id, vote.now
        )
    tally = await _count_valid_votes(connection, request)
    if not stands:
        await _record_audit(connection, vote, "approval_request.vote", request, tally)
    if tally.is_sufficient:
        request = await _decide(connection, vote, request, Status.APPROVED, tally)
    return VoteOutcome(request, tally, idempotent=stands and not tally.is_sufficient, decided=tally.is_sufficient)


async def reject(connection: AsyncConnection, vote: VoteRequest) -> VoteOutcome:
    """A rejection, which is final. Whoever asked, or owns one who asked, may reject too: that withdraws the request.

    Raises NotFound; Conflict for a request that is decided or expired; Forbidden for who may not decide it. Again by
    the same principal: the same answer, nothing written.
    """
    request, voter = await _load(connection, vote)
    if request.status is Status.REJECTED and request.decider_id == voter.principal_id:
        return VoteOutcome(request, _final_count(request), idempotent=True, decided=False)
    _require_open(request, vote.now)
    require_right_to_reject(vote.caller, request)
    if voter.principal_id not in request.current_requester_ids:
        await _require_decider(connection, request, voter)
    await repository.cast_vote(connection, request, voter, Verdict.REJECT, vote.reason, vote.caller.token_id, vote.now)
    tally = await _count_valid_votes(connection, request)
    request = await _decide(connection, vote, request, Status.REJECTED, tally)
    return VoteOutcome(request, tally, idempotent=False, decided=True)


def require_right_to_reject(caller: AuthorizationContext, request: RequestRecord) -> None:
    """Raises Forbidden: deciding takes the scope for it, withdrawing what one asked for that or the one for asking.
    NotFound for whom it is as though there were none: who may neither read nor decide, and did not ask.
    """
    wanted = {Scope.APPROVALS_DECIDE}
    if caller.principal_id in request.current_requester_ids:
        wanted.add(Scope.APPROVALS_WRITE)
    elif caller.scopes.isdisjoint({Scope.APPROVALS_READ, Scope.APPROVALS_DECIDE}):
        raise NotFound
    if caller.scopes.isdisjoint(wanted):
        raise Forbidden(f"The access token or its holder's role lacks the scope {Scope.APPROVALS_DECIDE.value}.")


async def _load(connection: AsyncConnection, vote: VoteRequest) -> tuple[RequestRecord, Participant]:
    """As of this transaction: what the guard knows of the caller may be some seconds old."""
    caller = vote.caller
    request = await repository.find(connection, caller.org_id, vote.request_id)
    if request is None:
        raise NotFound
    return await repository.with_current_owners(connection, request), await repository.load_participant(
        connection, caller
    )


def _require_open(request: RequestRecord, now: datetime) -> None:
    status = request.status_at(now)
    if status is not Status.PENDING:
        raise Conflict(f"The request is {status.value} already.")


def _require_active_requester(request: RequestRecord) -> None:
    """Whoever is gone acts on no approval. Should he come back in time, the request waits yet."""
    if not request.has_active_requester:
        raise Conflict("Who asked, or somebody for whom he acts or to whom he belongs, has left or is disabled.")


def _forbid_self_approval(request: RequestRecord, voter: Participant) -> None:
    if request.is_self_vote(voter):
        raise Forbidden("Nobody approves a request of his own.")
    if not Approver(voter.kind, voter.owner_group).is_eligible_for(request.circle):
        raise Forbidden("An agent or service does not approve what those ask for to whom it belongs.")


async def _require_decider(connection: AsyncConnection, request: RequestRecord, voter: Participant) -> None:
    if await repository.may_decide(connection, request, voter):
        return
    if voter.kind is not PrincipalKind.USER and voter.principal_id not in request.machine_approver_ids:
        raise Forbidden("Agents and services decide only where the policy lists them.")
    roles = " or ".join(sorted(request.approver_roles))
    raise Forbidden(f"This request is decided by {roles}.")


async def _count_valid_votes(connection: AsyncConnection, request: RequestRecord) -> VoteCount:
    approving = await repository.valid_approvers(connection, request)
    return count_votes(request.min_approvers, request.circle, approving.values())


async def _is_still_counted(connection: AsyncConnection, request: RequestRecord, voter: Participant) -> bool:
    """Whether his earlier approval does. That of a machine may not, though it may decide: it was cast for somebody who
    has left since, or while it belonged to who asks now.
    """
    consent = (await repository.valid_approvers(connection, request)).get(voter.principal_id)
    return consent is not None and consent.is_eligible_for(request.circle)


def _final_count(request: RequestRecord) -> VoteCount:
    """As it was when the request was decided."""
    return VoteCount(request.min_approvers, request.approvals or 0, bool(request.independent))


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
        raise Conflict("The request is decided already.")
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
