"""Votes and withdrawals: each one transaction of its caller, in which nothing that was read before counts."""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.errors import Conflict, Forbidden, NotFound
from chassis.identity.model import Reach
from control.approvals import store
from control.approvals.model import Consent, Party, Request, Status, Tally, Verdict, count_votes
from control.audit.record import record
from proto.identity import PrincipalKind, Scope


class Outcome(NamedTuple):
    """The request afterwards and how the votes stand. `idempotent`: the vote had been there and changed nothing;
    `decided`: this vote decided the request.
    """

    request: Request
    tally: Tally
    idempotent: bool
    decided: bool


@dataclass(frozen=True, slots=True)
class Ballot:
    """One vote that somebody is about to cast. `trace_id`: of the HTTP request that brings it, for the audit."""

    caller: Reach
    request_id: str
    reason: str | None
    trace_id: str
    now: datetime


async def approve(connection: AsyncConnection, ballot: Ballot) -> Outcome:
    """An approval; the one that makes it enough decides the request.

    Raises NotFound; Conflict for a request that is decided or expired, or of somebody who has left or is disabled;
    Forbidden for one's own, and for who may not decide it. Again by the same principal, before or after the request is
    approved: the same answer, nothing written; but while it waits, a vote that counts no more, as it was cast, is cast
    anew.
    """
    request, voter = await _read(connection, ballot)
    earlier = await store.own_vote(connection, request, voter.principal_id)
    if earlier is Verdict.APPROVE and request.status is Status.APPROVED:
        return Outcome(request, _final(request), idempotent=True, decided=False)
    _require_open(request, ballot.now)
    _require_usable(request)
    _require_another(request, voter)
    await _require_deciding(connection, request, voter)
    stands = earlier is not None and await _counts(connection, request, voter)
    if not stands:
        await store.cast(connection, request, voter, Verdict.APPROVE, ballot.reason, ballot.caller.token_id, ballot.now)
    tally = await _counted(connection, request)
    if not stands:
        await _tell_audit(connection, ballot, "approval_request.vote", request, tally)
    if tally.enough:
        request = await _decide(connection, ballot, request, Status.APPROVED, tally)
    return Outcome(request, tally, idempotent=stands and not tally.enough, decided=tally.enough)


async def reject(connection: AsyncConnection, ballot: Ballot) -> Outcome:
    """A rejection, which is final. Whoever asked, or owns one who asked, may reject too: that withdraws the request.

    Raises NotFound; Conflict for a request that is decided or expired; Forbidden for who may not decide it. Again by
    the same principal: the same answer, nothing written.
    """
    request, voter = await _read(connection, ballot)
    if request.status is Status.REJECTED and request.decider_id == voter.principal_id:
        return Outcome(request, _final(request), idempotent=True, decided=False)
    _require_open(request, ballot.now)
    require_right_to_reject(ballot.caller, request)
    if voter.principal_id not in request.askers:
        await _require_deciding(connection, request, voter)
    await store.cast(connection, request, voter, Verdict.REJECT, ballot.reason, ballot.caller.token_id, ballot.now)
    tally = await _counted(connection, request)
    request = await _decide(connection, ballot, request, Status.REJECTED, tally)
    return Outcome(request, tally, idempotent=False, decided=True)


def require_right_to_reject(caller: Reach, request: Request) -> None:
    """Raises Forbidden: deciding takes the scope for it, withdrawing what one asked for that or the one for asking.
    NotFound for whom it is as though there were none: who may neither read nor decide, and did not ask.
    """
    wanted = {Scope.APPROVALS_DECIDE}
    if caller.principal_id in request.askers:
        wanted.add(Scope.APPROVALS_WRITE)
    elif caller.scopes.isdisjoint({Scope.APPROVALS_READ, Scope.APPROVALS_DECIDE}):
        raise NotFound
    if caller.scopes.isdisjoint(wanted):
        raise Forbidden(f"The access token or its holder's role lacks the scope {Scope.APPROVALS_DECIDE.value}.")


async def _read(connection: AsyncConnection, ballot: Ballot) -> tuple[Request, Party]:
    """As of this transaction: what the guard knows of the caller may be some seconds old."""
    caller = ballot.caller
    request = await store.find(connection, caller.org_id, ballot.request_id)
    if request is None:
        raise NotFound
    return await store.with_owners_now(connection, request), await store.party(connection, caller)


def _require_open(request: Request, now: datetime) -> None:
    status = request.status_at(now)
    if status is not Status.PENDING:
        raise Conflict(f"The request is {status.value} already.")


def _require_usable(request: Request) -> None:
    """Whoever is gone acts on no approval. Should he come back in time, the request waits yet."""
    if not request.usable:
        raise Conflict("Who asked, or somebody for whom he acts or to whom he belongs, has left or is disabled.")


def _require_another(request: Request, voter: Party) -> None:
    if request.is_own(voter):
        raise Forbidden("Nobody approves a request of his own.")
    if not Consent(voter.kind, voter.circle).counts(request.circle):
        raise Forbidden("An agent or service does not approve what those ask for to whom it belongs.")


async def _require_deciding(connection: AsyncConnection, request: Request, voter: Party) -> None:
    if await store.may_decide(connection, request, voter):
        return
    if voter.kind is not PrincipalKind.USER and voter.principal_id not in request.machine_approver_ids:
        raise Forbidden("Agents and services decide only where the policy lists them.")
    roles = " or ".join(sorted(request.approver_roles))
    raise Forbidden(f"This request is decided by {roles}.")


async def _counted(connection: AsyncConnection, request: Request) -> Tally:
    approving = await store.approving(connection, request)
    return count_votes(request.min_approvers, request.circle, approving.values())


async def _counts(connection: AsyncConnection, request: Request, voter: Party) -> bool:
    """Whether his earlier approval does. That of a machine may not, though it may decide: it was cast for somebody who
    has left since, or while it belonged to who asks now.
    """
    consent = (await store.approving(connection, request)).get(voter.principal_id)
    return consent is not None and consent.counts(request.circle)


def _final(request: Request) -> Tally:
    """As it was when the request was decided."""
    return Tally(request.min_approvers, request.approvals or 0, bool(request.independent))


async def _decide(
    connection: AsyncConnection, ballot: Ballot, request: Request, status: Status, tally: Tally
) -> Request:
    values = {
        "status": status.value,
        "decider_id": ballot.caller.principal_id,
        "decided_at": ballot.now,
        "reason": ballot.reason,
        "approvals": tally.approvals,
        "independent": tally.independent,
    }
    if not await store.decide(connection, request, values, ballot.now):
        raise Conflict("The request is decided already.")
    verb = {Status.APPROVED: "approve", Status.REJECTED: "reject"}[status]
    await _tell_audit(connection, ballot, f"approval_request.{verb}", request, tally)
    return await store.existing(connection, request.org_id, request.id)


async def _tell_audit(connection: AsyncConnection, ballot: Ballot, action: str, request: Request, tally: Tally) -> None:
    data: dict[str, Any] = {
        "action": request.action,
        "reason": ballot.reason,
        "approvals": tally.approvals,
        "minApprovers": tally.min_approvers,
        "independent": tally.independent,
    }
    await record(connection, ballot.caller, action, request.id, data, ballot.trace_id)
