"""Selects the rule that decides a query: pure functions over rules."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from control.approvals.policies.builtin import BUILTIN, FALLBACK
from control.approvals.policies.model import Effect, RiskClass, Rule, Source
from control.approvals.policies.pattern import matches, specificity

_STRICTNESS: Final = {effect: rank for rank, effect in enumerate(Effect)}
_RISK: Final = {risk: rank for rank, risk in enumerate(RiskClass)}
_SOURCE_ORDER: Final = {source: rank for rank, source in enumerate(Source)}
_ORG_DENY_TIER: Final = -1  # an organization's DENY: neither a project nor a more specific pattern overrides it
_SOURCE_PHRASES: Final = {
    Source.PROJECT: 'The project policy "{name}"',
    Source.ORGANIZATION: 'The organization policy "{name}"',
    Source.BUILTIN: "The built-in rule for {name}",
    Source.FALLBACK: "No other rule matches the action: the fallback",
}


@dataclass(frozen=True, slots=True)
class PolicyQuery:
    """The action and the type of its target. The caller passes the rules of the project."""

    action: str
    target_type: str


def decide(policies: Iterable[Rule], query: PolicyQuery) -> Rule:
    """The rule that decides; there always is one."""
    return rank_rules(policies, query)[0]


def rank_rules(policies: Iterable[Rule], query: PolicyQuery) -> list[Rule]:
    """Every rule that matches, the deciding one first and the fallback last.

    `policies` are the enabled ones of the organization and of the query's project. A DENY of the organization ranks
    first; then project, organization and built-in table. Within a source the more specific pattern ranks first, then a
    rule for the target type; on a tie the stricter effect, the higher risk, more approvers, the older policy.
    """
    matching = [rule for rule in (*policies, *BUILTIN, FALLBACK) if _matches(rule, query)]
    return sorted(sorted(matching, key=_creation_key), key=_precedence, reverse=True)


def required_approvals(rule: Rule) -> int:
    """The number of approvals that the rule requires: 0 unless its effect is ASK."""
    return rule.min_approvers if rule.effect is Effect.ASK else 0


def reason(rule: Rule) -> str:
    """A sentence for people: which rule decided, and what."""
    approvals = "1 approval" if rule.min_approvers == 1 else f"{rule.min_approvers} approvals"
    verdict = {
        Effect.ALLOW: "allows the action",
        Effect.ASK: f"requires {approvals}",
        Effect.DENY: "denies the action",
    }[rule.effect]
    return f"{_SOURCE_PHRASES[rule.source].format(name=rule.name)} {verdict}."


def _matches(rule: Rule, query: PolicyQuery) -> bool:
    return rule.target_type in (None, query.target_type) and matches(rule.action_pattern, query.action)


def _tier(rule: Rule) -> int:
    is_org_deny = rule.source is Source.ORGANIZATION and rule.effect is Effect.DENY
    return _ORG_DENY_TIER if is_org_deny else _SOURCE_ORDER[rule.source]


def _precedence(rule: Rule) -> tuple[int, tuple[int, ...], bool, int, int, int]:
    return (
        -_tier(rule),
        specificity(rule.action_pattern),
        rule.target_type is not None,
        _STRICTNESS[rule.effect],
        _RISK[rule.risk_class],
        rule.min_approvers,
    )


def _creation_key(rule: Rule) -> str:
    """The policy id: ids sort by creation time."""
    return rule.policy_id or ""
