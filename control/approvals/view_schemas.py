"""Response bodies of requests as somebody sees them who may vote on them."""

from datetime import datetime
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from chassis.db.database import format_time
from control.approvals.model import Status, StoredVote, Verdict
from control.approvals.schemas import ApprovalRequest, request_body
from control.approvals.vote_rules import VoteCase, explain_approval, explain_rejection
from control.http.field_types import Timestamp
from control.http.paging import NextCursor
from proto.identity import Role

MAX_LISTED_VOTES: Final = 100  # of one request; votes of people who may no longer decide stay

_PrincipalName = Annotated[str | None, Meta(description="Null: there is no such principal any more.")]


class ApprovalVote(msgspec.Struct, frozen=True, rename="camel"):
    """A vote. `approver` and `onBehalfOf` are ids of principals."""

    approver: str
    approver_name: _PrincipalName
    on_behalf_of: Annotated[str | None, Meta(description="The principal that an agent has voted for.")]
    on_behalf_of_name: str | None
    decision: Verdict
    reason: str | None
    at: Timestamp
    counts: Annotated[
        bool | None,
        Meta(
            description="Whether this approval counts as of now: its voter may have lost the right to decide. Null for "
            "a rejection, and once the request is decided."
        ),
    ]


class ApprovalRefusals(msgspec.Struct, frozen=True):
    """Why a vote of the caller would be refused, or would change nothing: one sentence each. Null: it would count."""

    approve: str | None
    reject: str | None


class ApprovalViewer(msgspec.Struct, frozen=True, rename="camel"):
    """What the caller may do, by the rules that are applied to a vote."""

    may_approve: bool
    may_reject: bool
    withdraws: Annotated[bool, Meta(description="Whether a rejection by the caller withdraws the request.")]
    why: ApprovalRefusals


class ApprovalView(msgspec.Struct, frozen=True, rename="camel"):
    """A request with its votes, with names, and with what the caller may do."""

    request: ApprovalRequest
    requester_name: _PrincipalName
    on_behalf_of_name: str | None
    decider_name: str | None
    approver_roles: Annotated[list[Role], Meta(description="The roles that may decide.", max_length=len(Role))]
    votes: Annotated[
        list[ApprovalVote], Meta(description="Oldest first; the latest of more.", max_length=MAX_LISTED_VOTES)
    ]
    approvals: Annotated[
        int, Meta(ge=0, description="Approvals that count; once the request is decided, those that did.")
    ]
    remaining: Annotated[int, Meta(ge=0, description="Approvals still required.")]
    has_independent_approver: bool
    viewer: ApprovalViewer


class ApprovalInbox(msgspec.Struct, frozen=True, rename="camel"):
    """A page of requests, and the number of pending ones."""

    data: list[ApprovalView]
    next_cursor: NextCursor
    has_more: bool
    pending_count: Annotated[
        int, Meta(ge=0, description="Pending requests of the organization, whatever the filter is.")
    ]


def involved_principals(case: VoteCase) -> set[str]:
    """The principals that a view names."""
    request, votes = case.request, case.votes[-MAX_LISTED_VOTES:]
    named = {request.requester_id, request.on_behalf_of, request.decider_id}
    named |= {one for vote in votes for one in (vote.principal_id, vote.on_behalf_of)}
    return {one for one in named if one is not None}


def view_body(case: VoteCase, names: dict[str, str], now: datetime) -> ApprovalView:
    """The API representation at that time. `names`: of the involved principals, by id."""
    request, count = case.request, case.vote_count
    return ApprovalView(
        request=request_body(request, now),
        requester_name=names.get(request.requester_id),
        on_behalf_of_name=names.get(request.on_behalf_of or ""),
        decider_name=names.get(request.decider_id or ""),
        approver_roles=sorted(request.approver_roles),
        votes=[_vote_body(case, vote, names, now) for vote in case.votes[-MAX_LISTED_VOTES:]],
        approvals=count.approvals,
        remaining=count.remaining,
        has_independent_approver=count.has_independent_approver,
        viewer=_viewer(case, now),
    )


def _vote_body(case: VoteCase, vote: StoredVote, names: dict[str, str], now: datetime) -> ApprovalVote:
    is_open = case.request.status_at(now) is Status.PENDING and vote.verdict is Verdict.APPROVE
    return ApprovalVote(
        approver=vote.principal_id,
        approver_name=names.get(vote.principal_id),
        on_behalf_of=vote.on_behalf_of,
        on_behalf_of_name=names.get(vote.on_behalf_of or ""),
        decision=vote.verdict,
        reason=vote.reason,
        at=format_time(vote.voted_at),
        counts=case.counts(vote.principal_id) if is_open else None,
    )


def _viewer(case: VoteCase, now: datetime) -> ApprovalViewer:
    why = ApprovalRefusals(explain_approval(case, now), explain_rejection(case, now))
    return ApprovalViewer(why.approve is None, why.reject is None, case.withdraws, why)
