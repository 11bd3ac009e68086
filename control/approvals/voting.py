"""Votes and withdrawals, for the API and for chats.

    cast_vote          `approve` or `reject`, then the notifications of a decision, in one transaction
    load_cases         everything that the rules depend on, for any number of requests, as of this transaction
    check_approval     the rules, functions of a `VoteCase`                                              -> 403, 409
    store.save_vote    the vote, which `load_cases` counts again
    store.decide       the request, if the count is sufficient or the vote is a rejection                -> 409

Views use the same rules to show the caller's possible actions (`explain_approval`).
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import MembershipStatus, load_membership_statuses, require_scope, with_owner_chain
from chassis.auth.model import AuthorizationContext
from chassis.errors import Conflict, Forbidden, NotFound
from control.approvals import notifications, store
from control.approvals.model import (
    Approver,
    Participant,
    RequestRecord,
    Status,
    StoredVote,
    Verdict,
    VoteCount,
    acting_ids,
    count_votes,
)
from control.approvals.notifications import RequestLinks
from control.audit.record import record
from proto.identity import PrincipalKind, Scope

APPROVE_SCOPES: Final = (Scope.APPROVALS_DECIDE,)
REJECT_SCOPES: Final = (Scope.APPROVALS_DECIDE, Scope.APPROVALS_WRITE)  # a caller who may request may also withdraw


@dataclass(frozen=True, slots=True)
class VoteCase:
    """A request and a principal that may want to vote on it, as of one transaction.

    `request` has its current owners. `is_decider`: whether roles and policy let the voter decide. `votes`: all votes on
    the request, oldest first. `approvers`: the approvals of principals that may decide now, by principal.
    """

    request: RequestRecord
    caller: AuthorizationContext
    voter: Participant
    is_decider: bool
    votes: Sequence[StoredVote]
    approvers: Mapping[str, Approver]

    @property
    def has_approved(self) -> bool:
        """Whether the voter has approved the request, even if the approval no longer counts."""
        own = (one for one in self.votes if one.principal_id == self.voter.principal_id)
        return any(one.verdict is Verdict.APPROVE for one in own)

    @property
    def withdraws(self) -> bool:
        """Whether a rejection by the voter would withdraw the request."""
        return self.voter.principal_id in self.request.current_requester_ids

    @property
    def vote_count(self) -> VoteCount:
        """The count now. For a decided request, the count at its decision."""
        if self.request.status is Status.PENDING:
            return count_votes(self.request.min_approvers, self.request.circle, self.approvers.values())
        return VoteCount(self.request.min_approvers, self.request.approvals or 0, bool(self.request.independent))

    def counts(self, principal_id: str) -> bool:
        """Whether the principal's approval counts. An approval of an agent or service that may decide does not count if
        it was cast on behalf of a principal that has left since, or while the requester owned the agent or service.
        """
        approver = self.approvers.get(principal_id)
        return approver is not None and approver.is_eligible_for(self.request.circle)


class CastVote(NamedTuple):
    """The request after the vote, and the vote count. `idempotent`: the vote existed and nothing changed. `decided`:
    this vote decided the request.
    """

    request: RequestRecord
    vote_count: VoteCount
    idempotent: bool
    decided: bool


@dataclass(frozen=True, slots=True)
class Ballot:
    """A vote to cast on the approval request `request_id`. `trace_id`: id of the HTTP request, for the audit log."""

    caller: AuthorizationContext
    request_id: str
    reason: str | None
    trace_id: str
    now: datetime


async def cast_vote(connection: AsyncConnection, verdict: Verdict, ballot: Ballot, links: RequestLinks) -> CastVote:
    """Approve or reject, and enqueue notifications of a decision, without waiting for their delivery. Raises the errors
    of `approve` or `reject`.
    """
    cast = await (approve if verdict is Verdict.APPROVE else reject)(connection, ballot)
    if cast.decided:
        await notifications.notify_resolved(connection, cast.request, links, ballot.now)
    return cast


async def load_cases(
    connection: AsyncConnection, caller: AuthorizationContext, requests: Sequence[RequestRecord]
) -> list[VoteCase]:
    """The cases of the caller, in the order of the requests, in two statements. The caller's memberships are read
    again, because the data of the guard may be some seconds old. Raises NotFound if the caller, or a principal that it
    acts for, is no longer a member.
    """
    votes = await store.list_votes(connection, [one.id for one in requests])
    everyone = acting_ids(caller.principal_id, caller.on_behalf_of, caller.act_chain).union(
        *(one.acting_principal_ids for one in requests),
        *(vote.acting_principal_ids for of_request in votes.values() for vote in of_request),
    )
    memberships = await load_membership_statuses(connection, caller.org_id, everyone)
    voter = store.participant(caller, memberships)
    statuses = [memberships[one] for one in voter.owner_group]
    return [
        VoteCase(
            request.with_current_owners(memberships),
            caller,
            voter,
            request.may_decide(voter.principal_id, voter.kind, statuses),
            votes[request.id],
            _valid_approvers(request, votes[request.id], memberships),
        )
        for request in requests
    ]


def check_approval(case: VoteCase, now: datetime) -> bool:
    """Check an approval. Returns whether it would change nothing, because the voter has approved before.

    Raises Conflict for a request that is decided or expired, or whose requester has left or is disabled. Raises
    Forbidden without the scope, for the voter's own request, and for principals that may not decide the request.
    """
    require_scope(case.caller.scopes, APPROVE_SCOPES)
    if case.request.status is Status.APPROVED and case.has_approved:
        return True
    _require_open(case.request, now)
    _require_active_requester(case.request)
    _forbid_self_approval(case.request, case.voter)
    _require_decider(case)
    return case.counts(case.voter.principal_id) and not case.vote_count.is_sufficient


def check_rejection(case: VoteCase, now: datetime) -> bool:
    """Check a rejection. Returns whether it would change nothing, because the voter has rejected before.

    Raises Conflict for a request that is decided or expired. Raises Forbidden without a scope for the rejection, and
    for principals that may not decide the request and are not the requester or its owner. Raises NotFound as
    `require_right_to_reject` does.
    """
    require_right_to_reject(case.caller, case.request)
    if case.request.status is Status.REJECTED and case.request.decider_id == case.voter.principal_id:
        return True
    _require_open(case.request, now)
    if not case.withdraws:
        _require_decider(case)
    return False


def explain_approval(case: VoteCase, now: datetime) -> str | None:
    """Why an approval would be refused or would change nothing, in one sentence. None if it would count."""
    return _explain(check_approval, case, now, "You have approved this request already.")


def explain_rejection(case: VoteCase, now: datetime) -> str | None:
    """Why a rejection would be refused or would change nothing, in one sentence. None if it would count."""
    return _explain(check_rejection, case, now, "You have rejected this request already.")


def _explain(rule: Callable[[VoteCase, datetime], bool], case: VoteCase, now: datetime, repeated: str) -> str | None:
    try:
        return repeated if rule(case, now) else None
    except (Conflict, Forbidden) as refusal:
        return refusal.message


def require_right_to_reject(caller: AuthorizationContext, request: RequestRecord) -> None:
    """Raises Forbidden without the scope: rejecting requires the scope to decide, and withdrawing one's own request
    requires the scope to decide or to request. Raises NotFound for callers who may neither read nor decide and are not
    the requester.
    """
    require_scope(caller.scopes, REJECT_SCOPES)
    if caller.principal_id in request.current_requester_ids:
        return
    if caller.scopes.isdisjoint({Scope.APPROVALS_READ, Scope.APPROVALS_DECIDE}):
        raise NotFound
    require_scope(caller.scopes, APPROVE_SCOPES)


def _valid_approvers(
    request: RequestRecord, votes: Sequence[StoredVote], memberships: Mapping[str, MembershipStatus]
) -> dict[str, Approver]:
    """Approvers who may decide now, by principal. Their owner groups include the owners at the vote and now."""
    approvers = {}
    for vote in votes:
        owners = with_owner_chain(vote.acting_principal_ids, memberships)
        may_decide = request.may_decide(vote.principal_id, vote.kind, [memberships[one] for one in owners])
        if vote.verdict is Verdict.APPROVE and may_decide:
            approvers[vote.principal_id] = Approver(vote.kind, vote.owner_group | owners)
    return approvers


def _require_open(request: RequestRecord, now: datetime) -> None:
    status = request.status_at(now)
    if status is not Status.PENDING:
        raise Conflict(f"The request is already {status.value}.")


def _require_active_requester(request: RequestRecord) -> None:
    """A requester who has left cannot use an approval. The request stays open in case the requester returns in time."""
    if not request.has_active_requester:
        raise Conflict(
            "The requester, its owner, or the principal on whose behalf the requester acts has left the organization "
            "or is disabled."
        )


def _forbid_self_approval(request: RequestRecord, voter: Participant) -> None:
    """Forbids an approval by the requester, by principals that act on its behalf or through it, and by machines of its
    owners.
    """
    if request.requester_id in voter.acting_principal_ids:
        raise Forbidden("You cannot approve your own request.")
    if not Approver(voter.kind, voter.owner_group).is_eligible_for(request.circle):
        raise Forbidden(
            "An agent or service cannot approve a request of its owner or of another principal with the same owner."
        )


def _require_decider(case: VoteCase) -> None:
    if case.is_decider:
        return
    request, voter = case.request, case.voter
    if voter.kind is not PrincipalKind.USER and voter.principal_id not in request.machine_approver_ids:
        raise Forbidden("An agent or service can decide only if the policy lists it in machineApproverIds.")
    roles = " or ".join(sorted(request.approver_roles))
    raise Forbidden(f"Deciding this request requires the role {roles}.")


async def approve(connection: AsyncConnection, ballot: Ballot) -> CastVote:
    """Cast an approval. The approval that makes the count sufficient decides the request.

    Raises NotFound. Raises Conflict for a request that is decided or expired, or whose requester has left or is
    disabled. Raises Forbidden for the voter's own request, and for principals that may not decide the request.

    A repeated approval of an approved request writes nothing. While the request is open, a repeated approval writes the
    vote again if the vote no longer counts. It decides the request if the votes have become sufficient because owners
    or roles have changed. Otherwise it writes nothing.
    """
    case = await _load(connection, ballot)
    if check_approval(case, ballot.now):
        return CastVote(case.request, case.vote_count, idempotent=True, decided=False)
    request, vote_count = case.request, case.vote_count
    if not case.counts(case.voter.principal_id):
        vote_count = await _write_vote(connection, ballot, case, Verdict.APPROVE)
        await _record_audit(connection, ballot, "approval_request.vote", request, vote_count)
    if vote_count.is_sufficient:
        request = await _decide(connection, ballot, request, Status.APPROVED, vote_count)
    return CastVote(request, vote_count, idempotent=False, decided=vote_count.is_sufficient)


async def reject(connection: AsyncConnection, ballot: Ballot) -> CastVote:
    """Cast a rejection, which is final. A rejection by the requester, or by an owner of the requester, withdraws the
    request.

    Raises NotFound. Raises Conflict for a request that is decided or expired. Raises Forbidden for principals that may
    not decide the request. A repeated rejection by the same principal gives the same result and writes nothing.
    """
    case = await _load(connection, ballot)
    if check_rejection(case, ballot.now):
        return CastVote(case.request, case.vote_count, idempotent=True, decided=False)
    vote_count = await _write_vote(connection, ballot, case, Verdict.REJECT)
    request = await _decide(connection, ballot, case.request, Status.REJECTED, vote_count)
    return CastVote(request, vote_count, idempotent=False, decided=True)


async def _load(connection: AsyncConnection, ballot: Ballot) -> VoteCase:
    request = await store.get(connection, ballot.caller.org_id, ballot.request_id)
    (case,) = await load_cases(connection, ballot.caller, [request])
    return case


async def _write_vote(connection: AsyncConnection, ballot: Ballot, case: VoteCase, verdict: Verdict) -> VoteCount:
    """Write the vote. Returns the count with the vote."""
    await store.save_vote(
        connection, case.request, case.voter, verdict, ballot.reason, ballot.caller.token_id, ballot.now
    )
    (voted,) = await load_cases(connection, ballot.caller, [case.request])
    return voted.vote_count


async def _decide(
    connection: AsyncConnection, ballot: Ballot, request: RequestRecord, status: Status, vote_count: VoteCount
) -> RequestRecord:
    values = {
        "status": status.value,
        "decider_id": ballot.caller.principal_id,
        "decided_at": ballot.now,
        "reason": ballot.reason,
        "approvals": vote_count.approvals,
        "independent": vote_count.has_independent_approver,
    }
    if not await store.decide(connection, request, values, ballot.now):
        raise Conflict("The request is already decided.")
    verb = {Status.APPROVED: "approve", Status.REJECTED: "reject"}[status]
    await _record_audit(connection, ballot, f"approval_request.{verb}", request, vote_count)
    return await store.get(connection, request.org_id, request.id)


async def _record_audit(
    connection: AsyncConnection, ballot: Ballot, action: str, request: RequestRecord, vote_count: VoteCount
) -> None:
    data: dict[str, Any] = {
        "action": request.action,
        "reason": ballot.reason,
        "approvals": vote_count.approvals,
        "minApprovers": vote_count.min_approvers,
        "independent": vote_count.has_independent_approver,
    }
    await record(connection, ballot.caller, action, request.id, data, ballot.trace_id)
