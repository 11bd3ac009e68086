"""Which rule decides a question: pure functions over rules."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from control.policies.builtin import BUILTIN, FALLBACK
from control.policies.model import Effect, RiskClass, Rule, Source
from control.policies.pattern import matches, specificity

_STRICTNESS: Final = {effect: rank for rank, effect in enumerate(Effect)}
_RISK: Final = {risk: rank for rank, risk in enumerate(RiskClass)}
_SOURCE_ORDER: Final = {source: rank for rank, source in enumerate(Source)}
_ORG_DENY_TIER: Final = -1  # an organization's DENY: no project and no narrower pattern goes past it
_SOURCE_PHRASES: Final = {
    Source.PROJECT: 'The policy "{name}" of the project',
    Source.ORGANIZATION: 'The policy "{name}" of the organization',
    Source.BUILTIN: "The built-in rule for {name}",
    Source.FALLBACK: "Since no other rule knows the action, the fallback",
}


@dataclass(frozen=True, slots=True)
class PolicyQuery:
    """What is to be done, and to what kind of thing. The rules of its project are the caller's to bring."""

    action: str
    target_type: str


def decide(policies: Iterable[Rule], query: PolicyQuery) -> Rule:
    """The rule that decides; there always is one."""
    return rank_rules(policies, query)[0]


def rank_rules(policies: Iterable[Rule], query: PolicyQuery) -> list[Rule]:
    """Every rule that matches, the deciding one first and the fallback last.

    `policies` are those of the organization and of the question's project that are switched on. A DENY of the
    organization comes before all; then project, organization and built-in table; among those of one source the more
    specific pattern, then a rule for the target type; on a tie the stricter effect, the higher risk, more approvers,
    the older policy.
    """
    matching = [rule for rule in (*policies, *BUILTIN, FALLBACK) if _matches(rule, query)]
    return sorted(sorted(matching, key=_creation_key), key=_precedence, reverse=True)


def required_approvals(rule: Rule) -> int:
    """Approvals that are needed under the rule: none where nobody is asked."""
    return rule.min_approvers if rule.effect is Effect.ASK else 0


def reason(rule: Rule) -> str:
    """One sentence for people: which rule decided, and what."""
    approvals = "1 approval" if rule.min_approvers == 1 else f"{rule.min_approvers} approvals"
    verdict = {Effect.ALLOW: "allows it", Effect.ASK: f"asks for {approvals}", Effect.DENY: "denies it"}[rule.effect]
    return f"{_SOURCE_PHRASES[rule.source].format(name=rule.name)} {verdict}."


def _matches(rule: Rule, query: PolicyQuery) -> bool:
    return rule.target_type in (None, query.target_type) and matches(rule.action_pattern, query.action)


def _tier(rule: Rule) -> int:
    floor = rule.source is Source.ORGANIZATION and rule.effect is Effect.DENY
    return _ORG_DENY_TIER if floor else _SOURCE_ORDER[rule.source]


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
    """Ids sort by time of creation."""
    return rule.policy_id or ""
