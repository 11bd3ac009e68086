"""Votes and withdrawals: each runs in the caller's transaction, and reads again all that it depends on."""

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
    request, voter = await _load(connection, vote)
    earlier = await repository.find_vote(connection, request, voter.principal_id)
    if earlier is Verdict.APPROVE and request.status is Status.APPROVED:
        return VoteOutcome(request, _final_count(request), idempotent=True, decided=False)
    _require_open(request, vote.now)
    _require_active_requester(request)
    _forbid_self_approval(request, voter)
    await _require_decider(connection, request, voter)
    still_counted = earlier is not None and await _is_still_counted(connection, request, voter)
    if not still_counted:
        await repository.cast_vote(
            connection, request, voter, Verdict.APPROVE, vote.reason, vote.caller.token_id, vote.now
        )
    vote_count = await _count_valid_votes(connection, request)
    if not still_counted:
        await _record_audit(connection, vote, "approval_request.vote", request, vote_count)
    if vote_count.is_sufficient:
        request = await _decide(connection, vote, request, Status.APPROVED, vote_count)
    return VoteOutcome(
        request, vote_count, idempotent=still_counted and not vote_count.is_sufficient, decided=vote_count.is_sufficient
    )


async def reject(connection: AsyncConnection, vote: VoteRequest) -> VoteOutcome:
    """Cast a rejection, which is final. The requester, or an owner of the requester, may reject too: that withdraws the
    request.

    Raises NotFound; Conflict for a request that is decided or expired; Forbidden for principals that may not decide it.
    If the same principal repeats it, the result is the same and nothing is written.
    """
    request, voter = await _load(connection, vote)
    if request.status is Status.REJECTED and request.decider_id == voter.principal_id:
        return VoteOutcome(request, _final_count(request), idempotent=True, decided=False)
    _require_open(request, vote.now)
    require_right_to_reject(vote.caller, request)
    if voter.principal_id not in request.current_requester_ids:
        await _require_decider(connection, request, voter)
    await repository.cast_vote(connection, request, voter, Verdict.REJECT, vote.reason, vote.caller.token_id, vote.now)
    vote_count = await _count_valid_votes(connection, request)
    request = await _decide(connection, vote, request, Status.REJECTED, vote_count)
    return VoteOutcome(request, vote_count, idempotent=False, decided=True)


def require_right_to_reject(caller: AuthorizationContext, request: RequestRecord) -> None:
    """Raises Forbidden: deciding requires its scope; withdrawing one's own request that one or the scope to request.
    NotFound for callers who may neither read nor decide and are not the requester.
    """
    sufficient_scopes = {Scope.APPROVALS_DECIDE}
    if caller.principal_id in request.current_requester_ids:
        sufficient_scopes.add(Scope.APPROVALS_WRITE)
    elif caller.scopes.isdisjoint({Scope.APPROVALS_READ, Scope.APPROVALS_DECIDE}):
        raise NotFound
    if caller.scopes.isdisjoint(sufficient_scopes):
        raise Forbidden(f"The access token or its holder's role lacks the scope {Scope.APPROVALS_DECIDE.value}.")


async def _load(connection: AsyncConnection, vote: VoteRequest) -> tuple[RequestRecord, Participant]:
    """The request and the voter as of this transaction: the guard's data of the caller may be some seconds old."""
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
        raise Conflict(f"The request is already {status.value}.")


def _require_active_requester(request: RequestRecord) -> None:
    """A requester who has left cannot act on an approval. Should it return in time, the request is still open."""
    if not request.has_active_requester:
        raise Conflict(
            "The requester, its owner or the principal that it acts for has left the organization or is disabled."
        )


def _forbid_self_approval(request: RequestRecord, voter: Participant) -> None:
    if request.is_self_vote(voter):
        raise Forbidden("You cannot approve your own request.")
    if not Approver(voter.kind, voter.owner_group).is_eligible_for(request.circle):
        raise Forbidden(
            "An agent or service cannot approve a request of its owner or of another principal with the same owner."
        )


async def _require_decider(connection: AsyncConnection, request: RequestRecord, voter: Participant) -> None:
    if await repository.may_decide(connection, request, voter):
        return
    if voter.kind is not PrincipalKind.USER and voter.principal_id not in request.machine_approver_ids:
        raise Forbidden("An agent or service can decide only if the policy lists it in machineApproverIds.")
    roles = " or ".join(sorted(request.approver_roles))
    raise Forbidden(f"Deciding this request requires the role {roles}.")


async def _count_valid_votes(connection: AsyncConnection, request: RequestRecord) -> VoteCount:
    approvers = await repository.valid_approvers(connection, request)
    return count_votes(request.min_approvers, request.circle, approvers.values())


async def _is_still_counted(connection: AsyncConnection, request: RequestRecord, voter: Participant) -> bool:
    """Whether the voter's earlier approval counts. That of an agent or service may not, although it may decide: it was
    cast on behalf of somebody who has left since, or while it belonged to the requester.
    """
    approver = (await repository.valid_approvers(connection, request)).get(voter.principal_id)
    return approver is not None and approver.is_eligible_for(request.circle)


def _final_count(request: RequestRecord) -> VoteCount:
    """The count when the request was decided."""
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
