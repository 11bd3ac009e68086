"""The figures of a comparison: identities that hold for all counts, and what chance alone produces."""

import math
import random
from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from query.analysis.comparison import MIN_Z, Totals, default_min_spike_count, score

TOTALS = st.builds(Totals, st.integers(1, 10**8), st.integers(1, 10**8))


@st.composite
def counts(draw: st.DrawFn) -> tuple[Totals, int, int]:
    totals = draw(TOTALS)
    return totals, draw(st.integers(0, totals.spike)), draw(st.integers(0, totals.baseline))


@given(counts())
def test_the_figures_say_the_same_in_different_words(case: tuple[Totals, int, int]) -> None:
    totals, spike, baseline = case
    figures = score(totals, spike, baseline)
    assert 0 <= figures.spike_share <= 1
    assert 0 <= figures.baseline_share <= 1
    assert math.isclose(figures.expected + figures.surplus, spike, rel_tol=1e-9, abs_tol=1e-9)
    assert math.isclose(figures.surplus, totals.spike * (figures.spike_share - figures.baseline_share), abs_tol=1e-6)
    assert math.isclose(figures.contribution, figures.spike_share - figures.baseline_share, abs_tol=1e-9)
    assert -1 <= figures.contribution <= 1
    assert (figures.lift is None) is (baseline == 0)
    if figures.lift is not None:
        assert math.isclose(figures.lift * figures.expected, spike, rel_tol=1e-9)
    assert math.isfinite(figures.z)


@given(st.lists(st.tuples(st.integers(0, 1000), st.integers(0, 1000)), min_size=1, max_size=30))
def test_what_one_value_has_too_much_the_others_of_its_key_have_too_little(values: list[tuple[int, int]]) -> None:
    """`values` are all values of one key, its absence among them: every span is in exactly one."""
    spike, baseline = (sum(side) for side in zip(*values, strict=True))
    if not spike or not baseline:
        return
    surplus = math.fsum(score(Totals(spike, baseline), *each).surplus for each in values)
    assert math.isclose(surplus, 0, abs_tol=1e-6)


@given(TOTALS, st.integers(1, 1000))
def test_twice_the_traffic_is_no_difference(totals: Totals, times: int) -> None:
    figures = score(Totals(totals.spike * times, totals.spike), totals.spike * times, totals.spike)
    assert (figures.surplus, figures.lift, figures.z) == (0, 1, 0)


def test_a_value_of_the_spike_alone_stands_before_one_that_both_have() -> None:
    new, more = score(Totals(100, 100), 50, 0), score(Totals(100, 200), 60, 20)
    assert new.contribution == more.contribution
    assert new.rank < more.rank


def test_one_span_in_a_hundred_counts_and_five_at_least() -> None:
    assert [default_min_spike_count(spike) for spike in (0, 1, 500, 501, 600, 601)] == [5, 5, 5, 6, 6, 7]


def test_two_samples_of_one_population_hardly_differ() -> None:
    """Thirty keys of sixty values with a long tail. By chance alone many are twice as frequent in the spike; of a
    thousand values that are tested, one in the tail may pass.
    """
    rng, spans = random.Random(4), Totals(500, 5000)
    weights = [1 / (rank + 1) for rank in range(60)]
    doubled = found = 0
    for _ in range(30):
        spike, baseline = (Counter(rng.choices(range(60), weights, k=size)) for size in (spans.spike, spans.baseline))
        figures = [score(spans, count, baseline[value]) for value, count in spike.items() if count >= 5]
        doubled += sum(each.lift is None or each.lift >= 2 for each in figures)
        found += sum(each.z > MIN_Z for each in figures)
    assert doubled > 20
    assert found <= 1
