"""What other comparisons get wrong; what is expected is what the interface promises."""

import random
from typing import Any

import pytest

from tests.query.conftest import HOUR, NOW, Explore, Loader, issues, span
from tests.query.test_defects import BASELINE, BEFORE, RECENT, SPIKE, compared


async def test_filters_hold_for_both_sides_and_shares_are_of_spans(loader: Loader, explore: Explore) -> None:
    """Without its filter the baseline would be 400 spans; of those with a route `/pay` would be all."""
    route = {"http.route": "/pay"}
    await loader.spans(*(span(n, name="get", start=RECENT, attributes=route if n <= 60 else {}) for n in range(1, 101)))
    await loader.spans(*(span(n, name="get", start=BEFORE, attributes=route if n <= 20 else {}) for n in range(1, 201)))
    await loader.spans(*(span(n, name="put", start=BEFORE, attributes=route) for n in range(1, 201)))
    answer = await compared(explore, filters=[{"key": "name", "op": "eq", "value": "get"}])
    assert (answer["spike"]["total"], answer["baseline"]["total"]) == (100, 200)
    (pay,) = answer["attributes"]
    assert (pay["key"], pay["value"], pay["spikeCount"], pay["baselineCount"]) == ("http.route", "/pay", 60, 20)
    figures = ("spikeShare", "baselineShare", "expectedCount", "surplus", "lift", "contribution")
    assert [pay[name] for name in figures] == pytest.approx([0.6, 0.1, 10, 50, 6, 0.5])


async def test_lift_is_null_for_what_the_baseline_lacks_alone(loader: Loader, explore: Explore) -> None:
    rng = random.Random(9)
    await loader.spans(*(span(n, start=RECENT, attributes={"v": rng.choice("aab"), "new": 1}) for n in range(1, 201)))
    await loader.spans(*(span(n, start=BEFORE, attributes={"v": rng.choice("abbbb")}) for n in range(1, 501)))
    answer = await compared(explore, minSpikeCount=1)
    spike, baseline = answer["spike"]["total"], answer["baseline"]["total"]
    assert [(each["key"], each["value"]) for each in answer["attributes"]] == [("new", "1"), ("v", "a")]
    for each in answer["attributes"]:
        s, b = each["spikeCount"], each["baselineCount"]
        assert (each["lift"] is None) is (b == 0)
        assert each["spikeShare"] == pytest.approx(s / spike)
        assert each["baselineShare"] == pytest.approx(b / baseline)
        assert each["expectedCount"] + each["surplus"] == pytest.approx(s)
        assert each["contribution"] == pytest.approx(each["surplus"] / spike)
        assert b == 0 or each["lift"] == pytest.approx(s / each["expectedCount"])


async def test_chance_is_no_finding(loader: Loader, explore: Explore) -> None:
    """Thirty keys of up to sixty values, drawn alike on both sides."""
    rng = random.Random(90)

    def drawn(number: int, start: int) -> Any:
        return span(number, start=start, attributes={f"k{n}": rng.randrange(2 * n + 2) for n in range(30)})

    await loader.spans(*(drawn(n, RECENT) for n in range(1, 501)))
    await loader.spans(*(drawn(n, BEFORE) for n in range(1, 2001)))
    answer = await compared(explore)
    assert answer["attributes"] == []
    assert answer["pairsConsidered"] > 500
    assert answer["minSpikeCount"] == 5
    assert answer["disclaimer"]


async def test_a_side_without_spans_an_overlap_and_equal_windows(loader: Loader, explore: Explore) -> None:
    await loader.spans(*(span(n, start=RECENT, attributes={"k": "v"}) for n in range(1, 101)))
    assert (await compared(explore))["attributes"] == []
    swapped = await compared(explore, spike=BASELINE, baseline=SPIKE)
    assert (swapped["attributes"], swapped["spike"]["total"]) == ([], 0)
    await loader.spans(*(span(n, start=BEFORE) for n in range(1, 101)))
    around = await compared(explore, baseline={"from": NOW - HOUR, "to": NOW})
    assert (around["spike"]["total"], around["baseline"]["total"]) == (100, 100)
    assert [(each["key"], each["lift"]) for each in around["attributes"]] == [("k", None)]
    equal = await explore.post("/spans/compare", {"spike": SPIKE, "baseline": SPIKE})
    assert issues(equal)
