"""Values of approval requests and votes, and rules for which votes are independent of each other."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple, Self

from chassis.auth.grants import MembershipStatus, with_owner_chain
from control.approvals.policies.rules import RiskClass, Source
from proto.identity import PrincipalKind, Role


def max_disjoint(owner_groups: Iterable[frozenset[str]]) -> int:
    """The largest number of these owner groups that are pairwise disjoint.

    A user who is alone in a group always belongs to such a set. The remaining groups belong to agents and services
    whose owners have not voted themselves. Policies limit the number of such agents and services.
    """
    groups = set(owner_groups)
    single = {one for one in groups if len(one) == 1}
    people = frozenset().union(*single)
    return len(single) + _max_independent_set({one for one in groups - single if people.isdisjoint(one)})


def _max_independent_set(owner_groups: set[frozenset[str]]) -> int:
    """Takes a group if all groups that overlap with it overlap with each other, which is always optimal. If no such
    group is left, branches on the group with the most overlaps: counts with and without it, and takes the larger count.
    """
    remaining, count = set(owner_groups), 0
    while remaining:
        overlapping = {
            one: {other for other in remaining if not one.isdisjoint(other)} for one in remaining
        }  # each group overlaps with itself
        optimal = next((one for one in remaining if _all_overlap(overlapping[one])), None)
        if optimal is None:
            branch = max(remaining, key=lambda one: len(overlapping[one]))
            return count + max(
                1 + _max_independent_set(remaining - overlapping[branch]), _max_independent_set(remaining - {branch})
            )
        remaining -= overlapping[optimal]
        count += 1
    return count


def _all_overlap(owner_groups: set[frozenset[str]]) -> bool:
    return not any(one.isdisjoint(other) for one in owner_groups for other in owner_groups)


class Status(StrEnum):
    """State of a request. All states except PENDING are final."""

    PENDING = "PENDING"
    APPROVED = "APPROVED"
    REJECTED = "REJECTED"
    EXPIRED = "EXPIRED"


class Verdict(StrEnum):
    """Content of a vote."""

    APPROVE = "APPROVE"
    REJECT = "REJECT"


def acting_ids(principal_id: str, on_behalf_of: str | None, act_chain: Iterable[str]) -> frozenset[str]:
    """The ids of a principal, of the principal that it acts on behalf of, and of its actor chain."""
    return frozenset({principal_id, *act_chain} | (set() if on_behalf_of is None else {on_behalf_of}))


@dataclass(frozen=True, slots=True)
class Participant:
    """A requester or voter: a principal, the principals that it acts for and through, and the owners of all of them.

    `owner_group` contains all of these. Participants are independent if their owner groups are disjoint. For example,
    an agent is not independent of its owner, and not of another agent of the same owner.
    """

    principal_id: str
    kind: PrincipalKind
    on_behalf_of: str | None
    act_chain: tuple[str, ...]
    owner_group: frozenset[str]

    @property
    def acting_principal_ids(self) -> frozenset[str]:
        """The owner group without the owners."""
        return acting_ids(self.principal_id, self.on_behalf_of, self.act_chain)


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """An approval request as stored. Its `status` is never EXPIRED, see `status_at`.

    `circle`: the requester's owner group, with the owners at the time of the request. `with_current_owners` adds the
    current owners. It also sets `current_requester_ids` (the requester, the principals that it acts for and through,
    and their current owners) and `has_active_requester`. The latter is true if none of these principals is disabled or
    has left, so that an approval can still be used.
    """

    id: str
    org_id: str
    requester_id: str
    on_behalf_of: str | None
    act_chain: tuple[str, ...]
    circle: frozenset[str]
    action: str
    risk_class: RiskClass
    target_type: str
    target_id: str
    project_id: int | None
    status: Status
    min_approvers: int
    approver_roles: frozenset[Role]
    machine_approver_ids: frozenset[str]
    policy_id: str | None
    policy_source: Source
    policy_reason: str
    decider_id: str | None
    decided_at: datetime | None
    reason: str | None
    approvals: int | None
    independent: bool | None
    expires_at: datetime
    created_at: datetime
    payload: Any
    told_channel_ids: tuple[str, ...]
    expiry_noted: bool
    current_requester_ids: frozenset[str] = frozenset()
    has_active_requester: bool = True

    def status_at(self, now: datetime) -> Status:
        """The status at the time `now`. An expiry recorded by one process also holds in a process with a slow clock."""
        expired = self.status is Status.PENDING and (self.expiry_noted or self.expires_at <= now)
        return Status.EXPIRED if expired else self.status

    @property
    def acting_principal_ids(self) -> frozenset[str]:
        """The ids of the requester, of the principal that it acts on behalf of, and of its actor chain."""
        return acting_ids(self.requester_id, self.on_behalf_of, self.act_chain)

    def with_current_owners(self, memberships: Mapping[str, MembershipStatus]) -> Self:
        """The request with the requester's current owners, because agents and services may have been transferred.
        `memberships` has the membership statuses of the principals and of their owners.
        """
        current = with_owner_chain(self.acting_principal_ids & memberships.keys(), memberships)
        return replace(
            self,
            current_requester_ids=current,
            circle=self.circle | current,
            has_active_requester=all(
                memberships[one].role is not None and not memberships[one].is_disabled for one in current
            ),
        )

    def may_decide(self, principal_id: str, kind: PrincipalKind, memberships: Iterable[MembershipStatus]) -> bool:
        """Whether a principal may decide. `memberships`: its own, and its owner group's. All must have one of
        the deciding roles, and none may be disabled. Agents and services must also be listed in the policy.
        """
        listed = kind is PrincipalKind.USER or principal_id in self.machine_approver_ids
        return listed and all(not one.is_disabled and one.role in self.approver_roles for one in memberships)


@dataclass(frozen=True, slots=True)
class StoredVote(Participant):
    """A vote with its voter, as stored. `owner_group`: the voter's owner group at the time of the vote."""

    verdict: Verdict
    reason: str | None
    voted_at: datetime


class Approver(NamedTuple):
    """An approval by a principal that may still decide: the voter's kind, its owner group at the vote and now."""

    kind: PrincipalKind
    owner_group: frozenset[str]

    def is_eligible_for(self, requester_group: frozenset[str]) -> bool:
        """Whether the approval counts for this requester. An approval by a user always counts. An approval by an agent
        or service counts only if it shares no owner with the requester, because a machine speaks for its owners.
        """
        return self.kind is PrincipalKind.USER or requester_group.isdisjoint(self.owner_group)


class VoteCount(NamedTuple):
    """The votes on a request. `has_independent_approver`: whether one approver is independent of the requester."""

    min_approvers: int
    approvals: int
    has_independent_approver: bool

    @property
    def remaining(self) -> int:
        """The number of missing approvals: at least one while no approver is independent of the requester."""
        return max(self.min_approvers - self.approvals, 0 if self.has_independent_approver else 1)

    @property
    def is_sufficient(self) -> bool:
        """Whether these votes approve the request."""
        return self.remaining == 0


def count_votes(min_approvers: int, requester_group: frozenset[str], approvers: Iterable[Approver]) -> VoteCount:
    """Count approvals. `requester_group` is the requester's owner group. Votes with overlapping owner groups count
    once: for example, a user and the agents that the user owns are one approver.
    """
    owner_groups = [one.owner_group for one in approvers if one.is_eligible_for(requester_group)]
    return VoteCount(
        min_approvers, max_disjoint(owner_groups), any(requester_group.isdisjoint(group) for group in owner_groups)
    )
