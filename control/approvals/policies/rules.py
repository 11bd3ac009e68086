"""Rules, the patterns of their actions, and the choice of the rule that decides an action. All functions are pure.

An action is `domain.verb`, of up to eight segments. In a pattern `*` stands for exactly one segment, and `**` at the
end for one or more: `mitigation.*` matches `mitigation.apply`, `mitigation.**` also `mitigation.apply.region`, and `**`
matches every action. Patterns are compared segment by segment. Users cannot supply regular expressions.
"""

from collections.abc import Iterable
from dataclasses import dataclass
from enum import StrEnum
from typing import Final

from proto.identity import ROLE_SCOPES, Role, Scope

MAX_ACTION_LENGTH: Final = 120
MAX_TARGET_TYPE_LENGTH: Final = 120
ACTION_NAME_PATTERN: Final = r"^[a-z][a-z0-9_-]*(?:\.[a-z0-9][a-z0-9_-]*){1,7}(?!\n)$"
_SEGMENT: Final = r"(?:[a-z0-9][a-z0-9_-]*|\*)"
ACTION_GLOB_PATTERN: Final = rf"^(?:\*\*|(?:{_SEGMENT}\.){{1,7}}(?:{_SEGMENT}|\*\*))(?!\n)$"

_LITERAL: Final = 2
_RANKS: Final = {"**": 0, "*": 1}


def matches(pattern: str, action: str) -> bool:
    """Whether the pattern matches the action."""
    pattern_segments, action_segments = pattern.split("."), action.split(".")
    if pattern_segments[-1] == "**":
        pattern_segments.pop()
        if len(action_segments) <= len(pattern_segments):
            return False
        del action_segments[len(pattern_segments) :]
    return len(pattern_segments) == len(action_segments) and all(
        one in ("*", other) for one, other in zip(pattern_segments, action_segments, strict=True)
    )


def specificity(pattern: str) -> tuple[int, ...]:
    """Sort key of patterns that match the same action. At the first difference, a name is greater than a star, and one
    star is greater than two stars.
    """
    return tuple(_RANKS.get(segment, _LITERAL) for segment in pattern.split("."))


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
    """The possible damage of an action, from least to greatest."""

    LOW = "LOW"
    MEDIUM = "MEDIUM"
    HIGH = "HIGH"
    CRITICAL = "CRITICAL"


class Source(StrEnum):
    """The source of a rule, in the order of precedence. An organization's DENY precedes all sources."""

    PROJECT = "project_policy"
    ORGANIZATION = "org_policy"
    BUILTIN = "builtin"
    FALLBACK = "fallback"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rule:
    """A rule from any source. `policy_id` is set for policies.

    `min_approvers`, `approver_roles`, `machine_approver_ids` and `ttl_minutes` apply to ASK. `machine_approver_ids`
    lists the agents and services whose approvals count. Approvals of other agents and services do not count.
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


def _rule(pattern: str, effect: Effect, risk: RiskClass, approvers: int = 1) -> Rule:
    return Rule(
        name=pattern,
        source=Source.BUILTIN,
        action_pattern=pattern,
        effect=effect,
        risk_class=risk,
        min_approvers=approvers,
    )


BUILTIN: Final = (
    _rule("issue.comment", Effect.ALLOW, RiskClass.LOW),
    _rule("issue.assign", Effect.ALLOW, RiskClass.LOW),
    _rule("issue.resolve", Effect.ALLOW, RiskClass.LOW),
    _rule("mitigation.apply", Effect.ASK, RiskClass.HIGH),
    _rule("mitigation.revert", Effect.ASK, RiskClass.MEDIUM),
    _rule("probe.attach", Effect.ASK, RiskClass.MEDIUM),
    _rule("probe.detach", Effect.ALLOW, RiskClass.LOW),
    _rule("proposal.merge", Effect.ASK, RiskClass.HIGH),
    _rule("release.rollback", Effect.ASK, RiskClass.HIGH),
    _rule("sink.**", Effect.ASK, RiskClass.HIGH),
    _rule("sso.**", Effect.ASK, RiskClass.CRITICAL, approvers=2),
)
# Unknown actions require approval.
FALLBACK: Final = Rule(
    name="fallback", source=Source.FALLBACK, action_pattern="**", effect=Effect.ASK, risk_class=RiskClass.HIGH
)


_STRICTNESS: Final = {effect: rank for rank, effect in enumerate(Effect)}
_RISK: Final = {risk: rank for rank, risk in enumerate(RiskClass)}
_SOURCE_ORDER: Final = {source: rank for rank, source in enumerate(Source)}
_ORG_DENY_TIER: Final = -1  # an organization's DENY: neither a project nor a more specific pattern overrides it
_SOURCE_PHRASES: Final = {
    Source.PROJECT: 'The project policy "{name}"',
    Source.ORGANIZATION: 'The organization policy "{name}"',
    Source.BUILTIN: "The built-in rule for {name}",
    Source.FALLBACK: "The fallback rule, which applies if no other rule matches,",
}


@dataclass(frozen=True, slots=True)
class PolicyQuery:
    """The action and the type of its target. The caller selects the project by the policies that it passes."""

    action: str
    target_type: str


def decide(policies: Iterable[Rule], query: PolicyQuery) -> Rule:
    """The rule that decides. There always is one, because the fallback matches every action."""
    return rank_rules(policies, query)[0]


def rank_rules(policies: Iterable[Rule], query: PolicyQuery) -> list[Rule]:
    """Every rule that matches, the deciding one first and the fallback last.

    `policies` are the enabled ones of the organization and of the query's project. A DENY of the organization ranks
    first, followed by rules of the project, of the organization, and built-in rules. Within a source, the more specific
    pattern ranks first, then a rule for the target type. On a tie, the order is: stricter effect, higher risk, more
    approvers, older policy.
    """
    matching = [
        rule
        for rule in (*policies, *BUILTIN, FALLBACK)
        if rule.target_type in (None, query.target_type) and matches(rule.action_pattern, query.action)
    ]
    by_age = sorted(matching, key=lambda rule: rule.policy_id or "")  # ids sort by the time of creation
    return sorted(by_age, key=_precedence, reverse=True)


def required_approvals(rule: Rule) -> int:
    """The number of approvals that the rule requires: 0 unless its effect is ASK."""
    return rule.min_approvers if rule.effect is Effect.ASK else 0


def decision_reason(rule: Rule) -> str:
    """A sentence for users that names the deciding rule and its decision."""
    approvals = "1 approval" if rule.min_approvers == 1 else f"{rule.min_approvers} approvals"
    verdict = {
        Effect.ALLOW: "allows the action",
        Effect.ASK: f"requires {approvals}",
        Effect.DENY: "denies the action",
    }[rule.effect]
    return f"{_SOURCE_PHRASES[rule.source].format(name=rule.name)} {verdict}."


def _precedence(rule: Rule) -> tuple[int, tuple[int, ...], bool, int, int, int]:
    is_org_deny = rule.source is Source.ORGANIZATION and rule.effect is Effect.DENY
    return (
        -(_ORG_DENY_TIER if is_org_deny else _SOURCE_ORDER[rule.source]),
        specificity(rule.action_pattern),
        rule.target_type is not None,
        _STRICTNESS[rule.effect],
        _RISK[rule.risk_class],
        rule.min_approvers,
    )
