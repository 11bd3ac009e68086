"""Built-in rules for known actions; an organization's policies take precedence."""

from typing import Final

from control.approvals.policies.model import Effect, RiskClass, Rule, Source


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
