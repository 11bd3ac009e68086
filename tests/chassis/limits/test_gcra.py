"""The arithmetic against a bucket of tokens that is filled drop by drop, in fractions."""

from fractions import Fraction

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from chassis.limits import limiter
from chassis.limits.limiter import SECOND_NS, Rule

RULES = st.builds(Rule, st.integers(1, 10_000), st.sampled_from([1, 60, 3_600]), st.integers(1, 12))
# Waits in intervals of the rule, so that borders are met.
WAITS = st.lists(st.fractions(0, 6, max_denominator=4) | st.just(Fraction(0)), max_size=60)


class Tokens:
    """What a bucket is: it holds `burst` tokens, a request takes a whole one, one comes back each interval."""

    def __init__(self, rule: Rule) -> None:
        self._rule = rule
        self.held = Fraction(rule.burst)

    def wait(self, nanoseconds: int) -> None:
        self.held = min(Fraction(self._rule.burst), self.held + Fraction(nanoseconds, self._rule.interval_ns))

    def take(self) -> bool:
        if self.held < 1:
            return False
        self.held -= 1
        return True


def times(rule: Rule, waits: list[Fraction]) -> list[int]:
    """Waits between requests, in nanoseconds."""
    return [int(wait * rule.interval_ns) for wait in waits]


@given(RULES, WAITS)
@example(Rule(7, 60, 3), [Fraction(0)] * 4 + [Fraction(1)] * 4)
def test_it_is_a_bucket_of_tokens(rule: Rule, waits: list[Fraction]) -> None:
    tokens, full_at, now = Tokens(rule), 0, 1_000
    for wait in times(rule, waits):
        now += wait
        tokens.wait(wait)
        before = limiter.peek(full_at, now, rule)
        level = limiter.take(full_at, now, rule)
        assert (level.wait_ns == 0) is (before.wait_ns == 0) is tokens.take()
        assert level.remaining == int(tokens.held)
        assert level.full_at - now == (rule.burst - tokens.held) * rule.interval_ns
        full_at = level.full_at


@given(RULES, WAITS)
def test_never_more_than_burst_and_rate_in_any_window(rule: Rule, waits: list[Fraction]) -> None:
    passed, full_at, now = list[int](), 0, 1_000
    for wait in times(rule, waits):
        now += wait
        level = limiter.take(full_at, now, rule)
        full_at = level.full_at
        if not level.wait_ns:
            passed.append(now)
    for first, start in enumerate(passed):
        for last, end in enumerate(passed[first:], first):
            assert last - first + 1 <= rule.burst + Fraction((end - start) * rule.requests, rule.per_s * SECOND_NS)


@given(RULES, WAITS)
def test_after_the_wait_it_names_a_request_passes_and_not_before(rule: Rule, waits: list[Fraction]) -> None:
    full_at, now = 0, 1_000
    for wait in times(rule, waits):
        now += wait
        full_at, _, refused_for = limiter.take(full_at, now, rule)
        if refused_for:
            assert limiter.take(full_at, now + refused_for - 1, rule).wait_ns == 1
            assert limiter.take(full_at, now + refused_for, rule).wait_ns == 0
        assert limiter.peek(full_at, full_at, rule) == (full_at, rule.burst, 0)


def test_a_refused_request_costs_nothing() -> None:
    rule = Rule(60, 60, 2)
    full_at, _, _ = limiter.take(limiter.take(0, 0, rule).full_at, 0, rule)
    assert limiter.take(full_at, 0, rule) == (2 * SECOND_NS, 0, SECOND_NS)
    assert limiter.take(full_at, SECOND_NS, rule) == (3 * SECOND_NS, 0, 0)


@pytest.mark.parametrize(
    ("rule", "interval"),
    [(Rule(3_000, 60, 600), 20_000_000), (Rule(5_000, 1, 10_000), 200_000), (Rule(7, 60, 1), 8_571_428_572)],
)
def test_an_interval_is_never_too_short(rule: Rule, interval: int) -> None:
    assert rule.interval_ns == interval
