"""Request and response bodies of approval requests (specification 2.1, 4.1)."""

import re
from datetime import datetime
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from chassis.http.validation import Issues, check_length
from control.approvals.model import RequestRecord, Status
from control.approvals.policies.api import ActionName, TargetType, TtlMinutes
from control.approvals.policies.rules import Effect, RiskClass, Source
from control.approvals.tables import MAX_REASON_LENGTH, MAX_TARGET_ID_LENGTH
from control.http.field_types import Slug, Timestamp
from control.routing.resource import shown_as
from proto.identity import UNPRINTABLE, VISIBLE_PATTERN, ZERO_WIDTH

REQUEST_ID_PATTERN: Final = "^apr_[0-9a-z]{26}$"
MAX_SUMMARY_LENGTH: Final = 2_000
MAX_CHANNELS: Final = 50
MAX_CHANNEL_ID_LENGTH: Final = 200
PROSE_RULE: Final = "Must not contain control or bidirectional formatting characters."
_CONTROL_CHARACTERS: Final = re.compile(
    rf"(?![\t\n\r\u2028\u2029])[{UNPRINTABLE}]"
)  # prose may have tabs and line breaks
_BLANK: Final = re.compile(rf"[\s{ZERO_WIDTH}]*")

TargetId = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_TARGET_ID_LENGTH,
        pattern=VISIBLE_PATTERN,
        description="Must consist of visible characters, without leading or trailing spaces.",
    ),
]
# `check_prose` validates prose instead of a pattern. Programs that generate texts from a pattern of such lengths take
# minutes per text.
Summary = Annotated[str, Meta(max_length=MAX_SUMMARY_LENGTH, description=PROSE_RULE)]
Reason = Annotated[str, Meta(max_length=MAX_REASON_LENGTH, description=PROSE_RULE)]
RequiredReason = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_REASON_LENGTH,
        description=f"Must have visible text. {PROSE_RULE}",
    ),
]
ChannelId = Annotated[str, Meta(max_length=MAX_CHANNEL_ID_LENGTH)]


class NewRequest(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The action to approve. `notify` is true by default if `channelIds` is set. Without `channelIds`, `notify` selects
    all enabled channels of the organization, and of the project that `projectTag` names.
    """

    action: ActionName
    target_type: TargetType
    target_id: TargetId
    project_tag: Annotated[
        Slug | None,
        Meta(
            description="Slug of a project. The policies of the project then apply in addition to the policies of the "
            "organization."
        ),
    ] = None
    summary: Annotated[Summary | None, Meta(description="Context for the approvers.")] = None
    ttl_minutes: Annotated[
        TtlMinutes | msgspec.UnsetType,
        Meta(description="Minutes until the request expires. Default: the policy's `ttlMinutes`."),
    ] = msgspec.UNSET
    channel_ids: Annotated[list[ChannelId], Meta(max_length=MAX_CHANNELS)] | msgspec.UnsetType = msgspec.UNSET
    notify: bool | msgspec.UnsetType = msgspec.UNSET


class Approval(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An approval, with an optional reason."""

    reason: Reason | msgspec.UnsetType = msgspec.UNSET


class Rejection(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A rejection and its reason."""

    reason: RequiredReason


class ApprovalRequest(msgspec.Struct, frozen=True, rename="camel"):
    """A request to approve an action."""

    id: Annotated[str, Meta(pattern=REQUEST_ID_PATTERN)]
    org_id: str
    requester_principal_id: str
    on_behalf_of_principal_id: str | None
    action: ActionName
    risk_class: RiskClass
    target_type: TargetType
    target_id: TargetId
    status: Status
    min_approvers: Annotated[int, Meta(ge=1)]
    policy_id: Annotated[
        str | None,
        Meta(
            description="The policy that applied. Null if a built-in rule applied, or if no rule matched the action, "
            "so that the fallback applied."
        ),
    ]
    decider_principal_id: Annotated[str | None, Meta(description="The principal whose vote decided the request.")]
    decided_at: Timestamp | None
    reason: Annotated[str | None, Meta(description="The reason that the decider gave.")]
    expires_at: Timestamp
    created_at: Timestamp
    payload: Annotated[
        Any,
        Meta(
            description="`summary`, `projectTag`, `policySource` and `policyReason`. The last two describe the rule "
            "that applied."
        ),
    ]


class RequestList(msgspec.Struct):
    """Requests, newest first."""

    data: list[ApprovalRequest]


class ChannelNotification(msgspec.Struct, frozen=True, rename="camel"):
    """The state of the notification of one channel."""

    channel_id: str | None
    kind: Annotated[str, Meta(description="Kind of the channel, `unknown` if no channel has this id.")]
    delivered: bool
    error: Annotated[
        str | None,
        Meta(
            description="`not_found` (no channel has this id), `disabled`, `too_many`, `queued` (the delivery is not "
            "finished yet), or the reason why the delivery failed."
        ),
    ]


class Decision(msgspec.Struct, frozen=True, rename="camel"):
    """The decision about the action, and its reason."""

    decision: Effect
    risk_class: RiskClass
    reason: str
    min_approvers: Annotated[int, Meta(ge=0, description="0 unless the decision is ASK.")]
    policy_source: Source
    request: Annotated[ApprovalRequest | None, Meta(description="Null unless the decision is ASK.")]
    deliveries: list[ChannelNotification]


class VoteResult(msgspec.Struct, frozen=True, rename="camel"):
    """The request after a vote, and the count of its votes."""

    request: ApprovalRequest
    approvals: Annotated[int, Meta(ge=0)]
    remaining: Annotated[int, Meta(ge=0, description="Approvals still required.")]
    has_independent_approver: bool
    idempotent: Annotated[
        bool, Meta(description="True if the caller had already cast this vote. The request was then not changed.")
    ]


def check_prose(path: str, text: str, issues: Issues) -> str:
    """The text without surrounding spaces. Adds an issue for control characters and for bidirectional formatting."""
    if _CONTROL_CHARACTERS.search(text) is not None:
        issues.add(path, PROSE_RULE, "format")
    return text.strip()


def reason_or_none(body: Approval | Rejection | None) -> str | None:
    """The reason, None if there is none. Raises BadRequest for an invalid reason, and for a rejection without one."""
    if body is None or body.reason is msgspec.UNSET:
        return None
    issues = Issues()
    text = check_prose("body.reason", body.reason, issues)
    if _BLANK.fullmatch(text) is not None:
        text = ""
    if isinstance(body, Rejection):
        check_length("body.reason", text, 1, MAX_REASON_LENGTH, issues)
    issues.raise_if_any("The request body is not valid.")
    return text or None


def request_body(request: RequestRecord, now: datetime) -> ApprovalRequest:
    """The request at the time `now`, as a response body."""
    return shown_as(
        ApprovalRequest,
        request,
        requester_principal_id=request.requester_id,
        on_behalf_of_principal_id=request.on_behalf_of,
        status=request.status_at(now),
        decider_principal_id=request.decider_id,
    )
