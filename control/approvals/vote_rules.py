"""Who may vote on a request, and what the votes amount to.

`load_cases` reads all that this depends on, for any number of requests at once; everything else is computed from that.
`voting` applies the rules before it writes a vote, `views` to say beforehand what a vote would be answered.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import MembershipStatus, load_membership_statuses, require_scope, with_owner_chain
from chassis.auth.model import AuthorizationContext
from chassis.errors import Conflict, Forbidden, NotFound
from control.approvals import repository
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
from proto.identity import PrincipalKind, Scope

APPROVE_SCOPES: Final = (Scope.APPROVALS_DECIDE,)
REJECT_SCOPES: Final = (Scope.APPROVALS_DECIDE, Scope.APPROVALS_WRITE)  # who may request may withdraw


@dataclass(frozen=True, slots=True)
class VoteCase:
    """A request and somebody who may want to vote on it, as of one transaction.

    `request` has its current owners. `is_decider`: whether roles and policy let the voter decide. `votes`: all on the
    request, oldest first; `approvers`: those whose approvals are of somebody who may decide now, by principal.
    """

    request: RequestRecord
    caller: AuthorizationContext
    voter: Participant
    is_decider: bool
    votes: Sequence[StoredVote]
    approvers: Mapping[str, Approver]

    @property
    def has_approved(self) -> bool:
        """Whether the voter has approved the request, whether that counts or not."""
        own = (one for one in self.votes if one.principal_id == self.voter.principal_id)
        return any(one.verdict is Verdict.APPROVE for one in own)

    @property
    def withdraws(self) -> bool:
        """Whether a rejection by the voter would withdraw the request."""
        return self.voter.principal_id in self.request.current_requester_ids

    @property
    def vote_count(self) -> VoteCount:
        """The count: of a decided request the one at its decision."""
        if self.request.status is Status.PENDING:
            return count_votes(self.request.min_approvers, self.request.circle, self.approvers.values())
        return VoteCount(self.request.min_approvers, self.request.approvals or 0, bool(self.request.independent))

    @property
    def is_counted(self) -> bool:
        """Whether the voter's approval counts."""
        return self.counts(self.voter.principal_id)

    def counts(self, principal_id: str) -> bool:
        """Whether the principal's approval counts. That of an agent or service may not, although it may decide: it was
        cast on behalf of somebody who has left since, or while it belonged to the requester.
        """
        approver = self.approvers.get(principal_id)
        return approver is not None and approver.is_eligible_for(self.request.circle)


async def load_cases(
    connection: AsyncConnection, caller: AuthorizationContext, requests: Sequence[RequestRecord]
) -> list[VoteCase]:
    """The cases of the caller, in the order of the requests, in two statements. The guard's data of the caller may be
    some seconds old: its memberships are read again. Raises NotFound when the caller, or one that it acts for, is no
    longer a member.
    """
    votes = await repository.list_votes(connection, [one.id for one in requests])
    everyone = acting_ids(caller.principal_id, caller.on_behalf_of, caller.act_chain).union(
        *(one.acting_principal_ids for one in requests),
        *(vote.acting_principal_ids for of_request in votes.values() for vote in of_request),
    )
    found = await load_membership_statuses(connection, caller.org_id, everyone)
    voter = repository.participant(caller, found)
    return [_case(request, caller, voter, votes[request.id], found) for request in requests]


def is_repeated_approval(case: VoteCase, now: datetime) -> bool:
    """Whether the approval is permitted and would change nothing, because the voter has approved before.

    Raises Conflict for a request that is decided or expired, or whose requester has left or is disabled; Forbidden
    without the scope, for one's own request, and for principals that may not decide it.
    """
    require_scope(case.caller.scopes, APPROVE_SCOPES)
    if case.request.status is Status.APPROVED and case.has_approved:
        return True
    _require_open(case.request, now)
    _require_active_requester(case.request)
    _forbid_self_approval(case.request, case.voter)
    _require_decider(case)
    return case.is_counted and not case.vote_count.is_sufficient


def is_repeated_rejection(case: VoteCase, now: datetime) -> bool:
    """Whether the rejection is permitted and would change nothing, because the voter has rejected before.

    Raises Conflict for a request that is decided or expired; Forbidden without a scope for it, and for principals that
    may not decide it and are not the requester or its owner. NotFound as `require_right_to_reject`.
    """
    require_right_to_reject(case.caller, case.request)
    if case.request.status is Status.REJECTED and case.request.decider_id == case.voter.principal_id:
        return True
    _require_open(case.request, now)
    if not case.withdraws:
        _require_decider(case)
    return False


def explain_approval(case: VoteCase, now: datetime) -> str | None:
    """Why an approval would be refused or change nothing, in one sentence; None if it would count."""
    return _explain(is_repeated_approval, case, now, "You have approved this request already.")


def explain_rejection(case: VoteCase, now: datetime) -> str | None:
    """The same of a rejection."""
    return _explain(is_repeated_rejection, case, now, "You have rejected this request already.")


def _explain(rule: Callable[[VoteCase, datetime], bool], case: VoteCase, now: datetime, repeated: str) -> str | None:
    try:
        return repeated if rule(case, now) else None
    except (Conflict, Forbidden) as refusal:
        return refusal.message


def require_right_to_reject(caller: AuthorizationContext, request: RequestRecord) -> None:
    """Raises Forbidden: deciding requires its scope; withdrawing one's own request that one or the scope to request.
    NotFound for callers who may neither read nor decide and are not the requester.
    """
    require_scope(caller.scopes, REJECT_SCOPES)
    if caller.principal_id in request.current_requester_ids:
        return
    if caller.scopes.isdisjoint({Scope.APPROVALS_READ, Scope.APPROVALS_DECIDE}):
        raise NotFound
    require_scope(caller.scopes, APPROVE_SCOPES)


def _case(
    request: RequestRecord,
    caller: AuthorizationContext,
    voter: Participant,
    votes: Sequence[StoredVote],
    found: Mapping[str, MembershipStatus],
) -> VoteCase:
    statuses = [found[one] for one in voter.owner_group]
    return VoteCase(
        request.with_current_owners(found),
        caller,
        voter,
        request.may_decide(voter.principal_id, voter.kind, statuses),
        votes,
        _valid_approvers(request, votes, found),
    )


def _valid_approvers(
    request: RequestRecord, votes: Sequence[StoredVote], found: Mapping[str, MembershipStatus]
) -> dict[str, Approver]:
    """Approvers who may decide now, by principal; their owner groups include the owners then and now."""
    approvers = {}
    for vote in votes:
        owners = with_owner_chain(vote.acting_principal_ids, found)
        may_decide = request.may_decide(vote.principal_id, vote.kind, [found[one] for one in owners])
        if vote.verdict is Verdict.APPROVE and may_decide:
            approvers[vote.principal_id] = Approver(vote.kind, vote.owner_group | owners)
    return approvers


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


def _require_decider(case: VoteCase) -> None:
    if case.is_decider:
        return
    request, voter = case.request, case.voter
    if voter.kind is not PrincipalKind.USER and voter.principal_id not in request.machine_approver_ids:
        raise Forbidden("An agent or service can decide only if the policy lists it in machineApproverIds.")
    roles = " or ".join(sorted(request.approver_roles))
    raise Forbidden(f"Deciding this request requires the role {roles}.")
