"""Which rule decides: held against a slow oracle over random rules and questions."""

import itertools
import re
from dataclasses import replace
from typing import Any, get_args

from hypothesis import given, settings
from hypothesis import strategies as st

from control.approvals.policies.api import DecidingRole
from control.approvals.policies.rules import (
    ACTION_GLOB_PATTERN,
    ACTION_NAME_PATTERN,
    BUILTIN,
    DECIDING_ROLES,
    FALLBACK,
    Effect,
    PolicyQuery,
    RiskClass,
    Rule,
    Source,
    decide,
    decision_reason,
    matches,
    rank_rules,
    required_approvals,
    specificity,
)
from proto.identity import Role

WORDS = ("deploy", "issue", "a", "b", "sso")
actions = st.lists(st.sampled_from(WORDS), min_size=2, max_size=4).map(".".join)
segments = st.sampled_from((*WORDS, "*"))
patterns = st.one_of(
    st.just("**"),
    st.lists(segments, min_size=2, max_size=4).map(".".join),
    st.lists(segments, min_size=1, max_size=3).map(lambda parts: ".".join([*parts, "**"])),
)
rules = st.builds(
    Rule,
    name=st.just("a policy"),
    source=st.sampled_from((Source.PROJECT, Source.ORGANIZATION)),
    action_pattern=patterns,
    effect=st.sampled_from(Effect),
    risk_class=st.sampled_from(RiskClass),
    policy_id=st.integers(0, 99).map("pol_{:02}".format),
    target_type=st.sampled_from((None, "service", "host")),
    min_approvers=st.integers(1, 3),
)
questions = st.builds(PolicyQuery, actions, st.sampled_from(("service", "host", "other")))


def as_regex(pattern: str) -> re.Pattern[str]:
    parts = {"*": r"[^.]+", "**": r"[^.]+(?:\.[^.]+)*"}
    return re.compile(r"\.".join(parts.get(part, re.escape(part)) for part in pattern.split(".")))


@given(patterns, actions)
def test_a_pattern_matches_what_its_regular_expression_matches(pattern: str, action: str) -> None:
    """Those that are drawn are ones that bodies take."""
    assert re.search(ACTION_GLOB_PATTERN, pattern)
    assert re.search(ACTION_NAME_PATTERN, action)
    assert matches(pattern, action) == (as_regex(pattern).fullmatch(action) is not None)


def test_a_star_of_a_pattern_stands_for_one_part_and_two_for_any_number() -> None:
    for pattern, action, expected in (
        ("mitigation.*", "mitigation.apply", True),
        ("mitigation.*", "mitigation.apply.region", False),
        ("mitigation.**", "mitigation.apply.region", True),
        ("mitigation.**", "mitigation.apply", True),
        ("mitigation.**", "mitigations.apply", False),
        ("*.apply", "mitigation.apply", True),
        ("*.apply", "mitigation.revert", False),
        ("**", "a.b.c.d", True),
        ("a.b", "a.b", True),
        ("a.b", "a.bc", False),
    ):
        assert matches(pattern, action) is expected, (pattern, action)


@given(st.lists(patterns, min_size=3, max_size=3), actions)
def test_specificity_orders_the_patterns_of_one_action(three: list[str], action: str) -> None:
    """A narrower pattern, one that matches only what the other does, is the more specific; no two tie."""
    for one, other in itertools.combinations([each for each in three if matches(each, action)], 2):
        assert (specificity(one) == specificity(other)) == (one == other)
        if one != other and covers(one, other):
            assert specificity(other) > specificity(one)


def covers(wide: str, narrow: str) -> bool:
    """Whether every action of `narrow` is one of `wide`, by trying out all words in the places of stars."""
    parts = narrow.split(".")
    tails = [[]] if parts[-1] != "**" else [["x"], ["x", "y"], ["x", "y", "z"], ["x"] * 4]
    body = parts if parts[-1] != "**" else parts[:-1]
    return all(matches(wide, ".".join(["q" if part == "*" else part for part in body] + tail)) for tail in tails)


@given(st.lists(rules, max_size=8), questions)
def test_the_order_of_rules(policies: list[Rule], question: PolicyQuery) -> None:
    decided = decide(policies, question)
    fitting = [
        rule
        for rule in policies
        if as_regex(rule.action_pattern).fullmatch(question.action) and rule.target_type in (None, question.target_type)
    ]
    floor = [rule for rule in fitting if rule.source is Source.ORGANIZATION and rule.effect is Effect.DENY]
    own = [rule for rule in fitting if rule.source is Source.PROJECT]
    built = [rule for rule in BUILTIN if as_regex(rule.action_pattern).fullmatch(question.action)]
    tier = next(tier for tier in (floor, own, fitting, built, [FALLBACK]) if tier)
    assert decided in tier
    for rule in tier:
        assert specificity(rule.action_pattern) <= specificity(decided.action_pattern)
        if rule.action_pattern == decided.action_pattern:
            assert decided.target_type is not None or rule.target_type is None
            if rule.target_type == decided.target_type:
                assert list(Effect).index(rule.effect) <= list(Effect).index(decided.effect)


@given(st.lists(rules, max_size=8), questions)
def test_a_deny_of_the_organization_is_never_overridden(policies: list[Rule], question: PolicyQuery) -> None:
    floor: dict[str, Any] = {"name": "floor", "source": Source.ORGANIZATION, "policy_id": "pol_floor"}
    deny = Rule(**floor, action_pattern="**", effect=Effect.DENY, risk_class=RiskClass.LOW)
    assert decide([*policies, deny], question).effect is Effect.DENY


@settings(max_examples=50)
@given(st.lists(rules, max_size=8), questions, st.randoms())
def test_the_order_of_policies_in_the_store_does_not_matter(
    policies: list[Rule], question: PolicyQuery, random: object
) -> None:
    """Each rule that fits has a reason, and the fallback is the last one."""
    unique = list({rule.policy_id: rule for rule in policies}.values())
    shuffled = list(unique)
    random.shuffle(shuffled)  # type: ignore[attr-defined]  # hypothesis' Random
    every = rank_rules(unique, question)
    assert every == rank_rules(shuffled, question)
    assert every[-1] is FALLBACK
    for rule in every:
        assert required_approvals(rule) == (rule.min_approvers if rule.effect is Effect.ASK else 0)
        assert decision_reason(rule).endswith(("the action.", "approval.", "approvals."))


def test_builtin_rules() -> None:
    for action, effect, risk, approvers in (
        ("issue.comment", Effect.ALLOW, RiskClass.LOW, 0),
        ("issue.assign", Effect.ALLOW, RiskClass.LOW, 0),
        ("issue.resolve", Effect.ALLOW, RiskClass.LOW, 0),
        ("probe.attach", Effect.ASK, RiskClass.MEDIUM, 1),
        ("probe.detach", Effect.ALLOW, RiskClass.LOW, 0),
        ("mitigation.apply", Effect.ASK, RiskClass.HIGH, 1),
        ("mitigation.revert", Effect.ASK, RiskClass.MEDIUM, 1),
        ("proposal.merge", Effect.ASK, RiskClass.HIGH, 1),
        ("release.rollback", Effect.ASK, RiskClass.HIGH, 1),
        ("sink.create", Effect.ASK, RiskClass.HIGH, 1),
        ("sso.update", Effect.ASK, RiskClass.CRITICAL, 2),
        ("sso.connection.delete", Effect.ASK, RiskClass.CRITICAL, 2),
        ("issue.delete", Effect.ASK, RiskClass.HIGH, 1),
        ("no.such.thing", Effect.ASK, RiskClass.HIGH, 1),
    ):
        rule = decide([], PolicyQuery(action, "anything"))
        assert (rule.effect, rule.risk_class, required_approvals(rule)) == (effect, risk, approvers), action
        assert rule.approver_roles == DECIDING_ROLES == (Role.MEMBER, Role.ADMIN, Role.OWNER)
        assert rule.machine_approver_ids == ()


def test_bodies_accept_the_deciding_roles() -> None:
    assert get_args(DecidingRole) == tuple(map(str, DECIDING_ROLES))


def test_reasons_say_which_rule_decided_and_what() -> None:
    policy = Rule(
        name="Freeze",
        source=Source.PROJECT,
        action_pattern="deploy.*",
        effect=Effect.ASK,
        risk_class=RiskClass.LOW,
        min_approvers=2,
    )
    assert decision_reason(policy) == 'The project policy "Freeze" requires 2 approvals.'
    freeze = replace(policy, source=Source.ORGANIZATION, effect=Effect.DENY)
    assert decision_reason(freeze) == 'The organization policy "Freeze" denies the action.'
    assert (
        decision_reason(decide([], PolicyQuery("issue.resolve", "issue")))
        == "The built-in rule for issue.resolve allows the action."
    )
    assert (
        decision_reason(FALLBACK) == "The fallback rule, which applies if no other rule matches, requires 1 approval."
    )


def test_invalid_patterns_and_actions() -> None:
    neither = ("deploy", "a..b", "a.b\n", "", "a." * 8 + "a")
    for text in (*neither, "*", "**.a", "a.**.b", ".a", "a.", "A.b", "a.b*", "a.***", "a b.c"):
        assert re.search(ACTION_GLOB_PATTERN, text) is None, text
    for text in (*neither, "A.b", "a.B", "1a.b", "a.*", ".", "a.b.", "ä.b"):
        assert re.search(ACTION_NAME_PATTERN, text) is None, text
    assert re.search(ACTION_NAME_PATTERN, "a.1")


def test_on_a_tie_the_higher_risk_decides_and_then_more_approvers() -> None:
    """Though the weaker one is older."""
    like: dict[str, Any] = {"name": "x", "source": Source.ORGANIZATION, "action_pattern": "deploy.**"}
    for weaker, stronger in (
        ((RiskClass.LOW, 3), (RiskClass.HIGH, 1)),
        ((RiskClass.HIGH, 1), (RiskClass.HIGH, 2)),
    ):
        older, younger = (
            Rule(**like, effect=Effect.ASK, risk_class=risk, min_approvers=approvers, policy_id=policy_id)
            for policy_id, (risk, approvers) in (("pol_1", weaker), ("pol_2", stronger))
        )
        for policies in ([older, younger], [younger, older]):
            assert decide(policies, PolicyQuery("deploy.it", "service")) == younger
