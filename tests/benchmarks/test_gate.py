"""What `make gate` makes of what it measured."""

import math
from collections.abc import Collection
from random import Random

import pytest

from benchmarks.gate.__main__ import FIGURES, new_table, told_of
from benchmarks.gate.judgement import FEWEST, Outcome, Verdict, judged, outcome
from benchmarks.gate.sides import Pair, Pairs, in_turns
from tests.decisions import Allowance, added, allowances

SEEDS = 100


def ratios(change: float, noise: float, pairs: int, seed: int) -> list[float]:
    """As measured on a machine with so much noise, now and then with an outlier."""
    random = Random(seed)
    return [
        change * math.exp(random.gauss(0, noise)) * (random.choice((0.5, 2)) if random.random() < 0.05 else 1)
        for _ in range(pairs)
    ]


def verdicts(change: float, noise: float, pairs: int) -> list[Verdict]:
    return [judged(ratios(change, noise, pairs, seed)).verdict for seed in range(SEEDS)]


def test_no_change_is_hardly_ever_worse_and_is_told_from_one_where_the_noise_allows() -> None:
    assert verdicts(1.0, 0.05, FEWEST).count(Verdict.WORSE) == 0
    assert verdicts(1.0, 0.02, 12).count(Verdict.FINE) > 0.9 * SEEDS
    assert verdicts(1.1, 0.02, 12).count(Verdict.WORSE) > 0.9 * SEEDS
    assert verdicts(0.8, 0.05, 12).count(Verdict.FINE) > 0.9 * SEEDS


def test_a_change_for_the_worse_hardly_ever_passes_for_none_because_of_noise() -> None:
    assert verdicts(1.1, 0.3, FEWEST).count(Verdict.FINE) < 0.03 * SEEDS
    assert verdicts(1.1, 0.3, 24).count(Verdict.FINE) < 0.03 * SEEDS
    assert verdicts(1.0, 0.3, FEWEST).count(Verdict.UNTOLD) > 0.9 * SEEDS


@pytest.mark.parametrize(
    ("values", "verdict"),
    [
        ([1.06] * 8, Verdict.WORSE),
        ([1.05] * 8, Verdict.FINE),  # 5 % and not more
        ([0.99] + [1.2] * 7, Verdict.UNTOLD),  # one pair against seven: it may be noise
        ([0.99] + [1.2] * 11, Verdict.WORSE),  # one against eleven is not
        ([1.001] * 3 + [1.06] * 5, Verdict.WORSE),
        ([0.97, 1.0, 1.01, 1.02, 1.03, 1.04, 1.04, 1.06], Verdict.FINE),  # narrow enough
        ([0.80, 1.0, 1.01, 1.02, 1.03, 1.04, 1.04, 1.06], Verdict.UNTOLD),
        ([0.50, 0.6, 0.70, 0.80, 0.90, 0.95, 0.99, 1.04], Verdict.FINE),  # whatever it is, it is not worse
    ],
)
def test_the_rule(values: list[float], verdict: Verdict) -> None:
    assert judged(values).verdict is verdict
    assert judged(values[::-1]) == judged(values)


def test_the_interval_is_that_of_the_sign_test() -> None:
    intervals = {pairs: judged([float(each) for each in range(1, pairs + 1)]) for pairs in (8, 12, 16, 20, 24)}
    assert {pairs: (one.lower, one.upper) for pairs, one in intervals.items()} == {
        8: (1, 8), 12: (2, 11), 16: (3, 14), 20: (4, 17), 24: (6, 19)
    }  # fmt: skip
    with pytest.raises(ValueError, match="too few"):
        judged([1.0] * 7)


def test_what_is_worse_fails_unless_a_new_page_names_it() -> None:
    seen = {"a": Verdict.WORSE, "b": Verdict.FINE, "c": Verdict.WORSE, "d": Verdict.UNTOLD}
    assert outcome(seen, ()) == Outcome(["a", "c"], [], ["d"])
    assert outcome(seen, {"a"}).exit_code == 1
    assert outcome(seen, {"a", "c"}) == Outcome([], ["a", "c"], ["d"])
    assert outcome(seen, {"a", "c"}).exit_code == 2
    assert outcome(seen, {"a", "c", "d"}).exit_code == 0
    assert outcome({"b": Verdict.FINE}, {"b"}) == Outcome([], [], [])


def test_a_line_of_a_page_counts_where_it_is_new() -> None:
    base = {"001-codec": "Gate: cpu-json\n", "002-tables": "# Tables\n"}
    head = {
        "003-codec": "Gate: cpu-json\nGate: cpu-gzip  \n",
        "002-tables": "# Tables\nGate: explore-list\n    Gate: explore-compare\nOr `Gate: start-time`.\nGate:\n",
    }
    assert added(base, head, "Gate") == ["cpu-gzip", "explore-list"]
    assert allowances(head, "Interface") == []
    assert allowances({"004-lists": "Interface: GET /a: is gone\r\n"}, "Interface") == [
        Allowance("004-lists", "GET /a: is gone")
    ]


def test_figures_have_names_that_a_line_can_say() -> None:
    assert len(set(FIGURES)) == len(FIGURES)
    pages = {"001-all": "".join(f"Gate: {figure}\n" for figure in FIGURES)}
    assert added({}, pages, "Gate") == list(FIGURES)


def test_a_figure_has_pairs_until_it_is_told_and_no_more_than_it_may_have(capsys: pytest.CaptureFixture[str]) -> None:
    asked: dict[str, list[int]] = {"start-time": [], "start-cpu": [], "memory-query": []}
    noise = {number: Pair(2.0, 2 * one) for number, one in enumerate(ratios(1.0, 0.5, 20, seed=1), 1)}

    def measure(number: int, figures: Collection[str]) -> Pairs:
        for figure in figures:
            asked[figure].append(number)
        return {"start-time": noise[number], "start-cpu": Pair(2, 2.02), "memory-query": Pair(100, 110)}

    told = told_of(measure, list(asked), 14, new_table())
    assert told == {"start-time": Verdict.UNTOLD, "start-cpu": Verdict.FINE, "memory-query": Verdict.WORSE}
    assert {figure: numbers[-1] for figure, numbers in asked.items()} == {
        "start-time": 14, "start-cpu": 8, "memory-query": 8
    }  # fmt: skip
    said = capsys.readouterr().out
    assert "| memory-query | 100 MiB | 110 | **1.100** (1.100 to 1.100) | 8 | worse |" in said


def test_sides_take_turns() -> None:
    orders = [[name for name, _ in in_turns(number, {"base": 1, "head": 2})] for number in range(3)]
    assert orders == [["head", "base"], ["base", "head"], ["head", "base"]]
