"""Requests and votes as values, and who is independent of whom."""

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from typing import Any, NamedTuple

from chassis.auth.membership_status import MembershipStatus
from control.approvals.independence import max_disjoint
from control.policies.model import RiskClass, Source
from proto.identity import PrincipalKind, Role


class Status(StrEnum):
    """Where a request stands. All but PENDING are final."""

    PENDING = "PENDING"
    APPROVED = "APPROVED"
    REJECTED = "REJECTED"
    EXPIRED = "EXPIRED"


class Verdict(StrEnum):
    """What a vote says."""

    APPROVE = "APPROVE"
    REJECT = "REJECT"


def acting_ids(principal_id: str, on_behalf_of: str | None, act_chain: Iterable[str]) -> frozenset[str]:
    """A principal, and whoever it acts for and through."""
    return frozenset({principal_id, *act_chain} | (set() if on_behalf_of is None else {on_behalf_of}))


@dataclass(frozen=True, slots=True)
class Participant:
    """Who asks, or who votes: a principal, whoever it acts for and through, and everyone who owns one of them.

    `circle` is all of these. Parties are independent of each other when their circles have nobody in common; so an
    agent is not independent of its owner, nor of another agent of the same owner.
    """

    principal_id: str
    kind: PrincipalKind
    on_behalf_of: str | None
    act_chain: tuple[str, ...]
    owner_group: frozenset[str]

    @property
    def acting_principal_ids(self) -> frozenset[str]:
        """All of these but the owners."""
        return acting_ids(self.principal_id, self.on_behalf_of, self.act_chain)


@dataclass(frozen=True, slots=True)
class RequestRecord:
    """An approval request as it is stored; `status` is never EXPIRED here, ask `status_at`.

    `circle`: of those who asked, with the owners of then; `store.with_owners_now` adds those of now, and finds
    `askers`: who asked, whoever that acts for and through, and who owns one of these now; `usable`: none of these is
    disabled or has left, so that there is somebody who could act on an approval.
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
        """What it is at that time. What one process has noted as expired is so for one whose clock is behind, too."""
        over = self.status is Status.PENDING and (self.expiry_noted or self.expires_at <= now)
        return Status.EXPIRED if over else self.status

    def may_decide(self, principal_id: str, kind: PrincipalKind, memberships: Iterable[MembershipStatus]) -> bool:
        """Whether somebody decides it whose circle stands so: all of them in one of its roles, and none disabled. Of
        agents and services only those that are listed.
        """
        listed = kind is PrincipalKind.USER or principal_id in self.machine_approver_ids
        return listed and all(not one.is_disabled and one.role in self.approver_roles for one in memberships)

    def is_self_vote(self, voter: Participant) -> bool:
        """Whether the requester votes; also when somebody else votes in his name, or through him."""
        return self.requester_id in voter.acting_principal_ids


class Approver(NamedTuple):
    """The vote of one who approves and may still decide: what he is, and his circle of then and now."""

    kind: PrincipalKind
    owner_group: frozenset[str]

    def is_eligible_for(self, requester_group: frozenset[str]) -> bool:
        """Whether it does for those who ask. That of a person does; an agent or service of one of them says what they
        say.
        """
        return self.kind is PrincipalKind.USER or requester_group.isdisjoint(self.owner_group)


class VoteCount(NamedTuple):
    """How the votes on a request stand. `independent`: whether somebody independent of the requester approves."""

    min_approvers: int
    approvals: int
    has_independent_approver: bool

    @property
    def remaining(self) -> int:
        """Approvals that are missing yet; one at least as long as none of them is independent."""
        return max(self.min_approvers - self.approvals, 0 if self.has_independent_approver else 1)

    @property
    def is_sufficient(self) -> bool:
        """Whether the request is approved by them."""
        return self.remaining == 0


def count_votes(min_approvers: int, requester_group: frozenset[str], approvers: Iterable[Approver]) -> VoteCount:
    """`requester`: the circle of those who ask. Votes whose circles meet count once: nobody is two people by what he
    owns.
    """
    circles = [one.owner_group for one in approvers if one.is_eligible_for(requester_group)]
    return VoteCount(
        min_approvers, max_disjoint(circles), any(requester_group.isdisjoint(circle) for circle in circles)
    )
