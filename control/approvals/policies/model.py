"""Rules, and the values that they consist of."""

from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from proto.identity import ROLE_SCOPES, Role, Scope

MAX_APPROVERS: Final = 10
MAX_TTL_MINUTES: Final = 43_200  # 30 days
DEFAULT_TTL_MINUTES: Final = 1_440
DECIDING_ROLES: Final = tuple(role for role in Role if Scope.APPROVALS_DECIDE in ROLE_SCOPES[role])


class Effect(StrEnum):
    """The decision of a rule, from least to most strict."""

    ALLOW = "ALLOW"
    ASK = "ASK"
    DENY = "DENY"


class RiskClass(StrEnum):
    """The possible damage of an action, from least to most."""

    LOW = "LOW"
    MEDIUM = "MEDIUM"
    HIGH = "HIGH"
    CRITICAL = "CRITICAL"


class Source(StrEnum):
    """The source of a rule, by precedence; an organization's DENY precedes all."""

    PROJECT = "project_policy"
    ORGANIZATION = "org_policy"
    BUILTIN = "builtin"
    FALLBACK = "fallback"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule from any source. `policy_id` is set for policies.

    `min_approvers`, `approver_roles`, `machine_approver_ids` and `ttl_minutes` apply to ASK. `machine_approver_ids`
    lists the agents and services whose approvals count; those of others do not.
    """

    name: str
    source: Source
    action_pattern: str
    effect: Effect
    risk_class: RiskClass
    policy_id: str | None = None
    target_type: str | None = None
    min_approvers: int = 1
    approver_roles: tuple[Role, ...] = DECIDING_ROLES
    machine_approver_ids: tuple[str, ...] = ()
    ttl_minutes: int = DEFAULT_TTL_MINUTES
