"""Request and response bodies of policies."""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from chassis.db.database import format_time
from control.http.field_types import Name, Slug, Timestamp
from control.http.paging import NextCursor
from control.policies.evaluation import reason, required_approvals
from control.policies.model import (
    DEFAULT_TTL_MINUTES,
    MAX_APPROVERS,
    MAX_TTL_MINUTES,
    Effect,
    Policy,
    RiskClass,
    Rule,
    Source,
)
from control.policies.pattern import ACTION_GLOB_PATTERN, ACTION_NAME_PATTERN, MAX_LENGTH
from control.policies.tables import MAX_TARGET_TYPE_LENGTH
from proto.identity import VISIBLE_PATTERN, Role

POLICY_ID_PATTERN: Final = "^pol_[0-9a-z]{26}$"
MAX_MACHINE_APPROVERS: Final = 50

ActionName = Annotated[
    str,
    Meta(
        max_length=MAX_LENGTH,
        pattern=ACTION_NAME_PATTERN,
        description="Must be 2 to 8 lower-case segments joined by dots, such as `domain.verb`.",
    ),
]
ActionPattern = Annotated[
    str,
    Meta(
        max_length=MAX_LENGTH,
        pattern=ACTION_GLOB_PATTERN,
        description="Must be an action; * matches one segment, a trailing ** one or more, ** alone every action.",
    ),
]
TargetType = Annotated[
    str,
    Meta(
        min_length=1,
        max_length=MAX_TARGET_TYPE_LENGTH,
        pattern=VISIBLE_PATTERN,
        description="Must consist of visible characters, without leading or trailing spaces.",
    ),
]
TtlMinutes = Annotated[int, Meta(ge=1, le=MAX_TTL_MINUTES, description="Minutes until a request expires.")]
MinApprovers = Annotated[int, Meta(ge=1, le=MAX_APPROVERS, description="Required number of approvals, for ASK.")]
DecidingRole = Literal["MEMBER", "ADMIN", "OWNER"]  # the names of DECIDING_ROLES
ApproverRoles = Annotated[
    list[DecidingRole], Meta(min_length=1, max_length=3, description="Roles that may decide, for ASK.")
]
MachineId = Annotated[
    str, Meta(min_length=1, max_length=32, pattern=r"^[0-9a-z_]+(?!\n)$", description="Must be a principal id.")
]
MachineApproverIds = Annotated[
    list[MachineId],
    Meta(
        max_length=MAX_MACHINE_APPROVERS,
        description="Ids of the agents and services that may decide, for ASK.",
    ),
]


class NewPolicy(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The policy to create; without `projectSlug` it applies to the whole organization."""

    name: Name
    action_pattern: ActionPattern
    effect: Effect
    risk_class: RiskClass
    project_slug: Slug | None = None
    target_type: TargetType | None = None
    min_approvers: MinApprovers = 1
    approver_roles: ApproverRoles = msgspec.field(default_factory=lambda: ["MEMBER", "ADMIN", "OWNER"])
    machine_approver_ids: MachineApproverIds = []
    ttl_minutes: TtlMinutes = DEFAULT_TTL_MINUTES
    enabled: bool = True


class PolicyChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Changes to a policy; omitted fields stay as they are. Existing requests are not affected."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    action_pattern: ActionPattern | msgspec.UnsetType = msgspec.UNSET
    effect: Effect | msgspec.UnsetType = msgspec.UNSET
    risk_class: RiskClass | msgspec.UnsetType = msgspec.UNSET
    target_type: TargetType | msgspec.UnsetType | None = msgspec.UNSET
    min_approvers: MinApprovers | msgspec.UnsetType = msgspec.UNSET
    approver_roles: ApproverRoles | msgspec.UnsetType = msgspec.UNSET
    machine_approver_ids: MachineApproverIds | msgspec.UnsetType = msgspec.UNSET
    ttl_minutes: TtlMinutes | msgspec.UnsetType = msgspec.UNSET
    enabled: bool | msgspec.UnsetType = msgspec.UNSET


class ApprovalPolicy(msgspec.Struct, frozen=True, rename="camel"):
    """The decision about actions that match a pattern."""

    id: Annotated[str, Meta(pattern=POLICY_ID_PATTERN)]
    org_id: str
    project_slug: Annotated[str | None, Meta(description="Null if it applies to the whole organization.")]
    name: Name
    action_pattern: ActionPattern
    target_type: Annotated[TargetType | None, Meta(description="Null if it applies to every type.")]
    effect: Effect
    risk_class: RiskClass
    min_approvers: MinApprovers
    approver_roles: list[Role]
    machine_approver_ids: MachineApproverIds
    ttl_minutes: TtlMinutes
    enabled: bool
    created_at: Timestamp
    updated_at: Timestamp


class PolicyPage(msgspec.Struct, rename="camel"):
    """A page of policies, newest first."""

    data: list[ApprovalPolicy]
    next_cursor: NextCursor
    has_more: bool


class DryRun(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The action to evaluate."""

    action: ActionName
    target_type: TargetType
    project_tag: Slug | None = None


class MatchingRule(msgspec.Struct, frozen=True, rename="camel"):
    """A rule that matches."""

    policy_id: Annotated[str | None, Meta(description="Null for the built-in rules and the fallback.")]
    name: str
    policy_source: Source
    action_pattern: str
    target_type: str | None
    effect: Effect


class DryRunResult(msgspec.Struct, frozen=True, rename="camel"):
    """The decision, and why; `matching` has every rule that matches, the deciding one first."""

    decision: Effect
    risk_class: RiskClass
    reason: str
    min_approvers: int
    policy_source: Source
    policy_id: str | None
    approver_roles: list[Role]
    machine_approver_ids: list[str]
    ttl_minutes: int
    matching: list[MatchingRule]


def policy_body(policy: Policy) -> ApprovalPolicy:
    """The API representation."""
    return ApprovalPolicy(
        id=policy.id,
        org_id=policy.org_id,
        project_slug=policy.project_slug,
        name=policy.name,
        action_pattern=policy.action_pattern,
        target_type=policy.target_type,
        effect=policy.effect,
        risk_class=policy.risk_class,
        min_approvers=policy.min_approvers,
        approver_roles=[*policy.approver_roles],
        machine_approver_ids=[*policy.machine_approver_ids],
        ttl_minutes=policy.ttl_minutes,
        enabled=policy.enabled,
        created_at=format_time(policy.created_at),
        updated_at=format_time(policy.updated_at),
    )


def dry_run_body(ranked: list[Rule]) -> DryRunResult:
    """The decision of the first rule."""
    first = ranked[0]
    return DryRunResult(
        decision=first.effect,
        risk_class=first.risk_class,
        reason=reason(first),
        min_approvers=required_approvals(first),
        policy_source=first.source,
        policy_id=first.policy_id,
        approver_roles=[*first.approver_roles],
        machine_approver_ids=[*first.machine_approver_ids],
        ttl_minutes=first.ttl_minutes,
        matching=[
            MatchingRule(rule.policy_id, rule.name, rule.source, rule.action_pattern, rule.target_type, rule.effect)
            for rule in ranked
        ],
    )
