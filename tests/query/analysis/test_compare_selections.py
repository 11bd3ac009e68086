"""A spike that is selected by filters, against the rest: each figure against the spans counted in plain Python."""

import random
from collections import Counter
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import pytest

from chassis.clickhouse import ClickHouse
from tests.query.conftest import MS, NOW, SECOND, Explore, Loader, span

PATH: Final = "/spans/compare"


class Made(NamedTuple):
    """A span: seconds before now, milliseconds, and attributes."""

    age: int
    duration: int
    status: int
    attributes: dict[str, Any]


Covers = Callable[[Made], bool]
SLOW: Final = {"key": "durationMs", "op": "gte", "value": "500"}
FAILED: Final = {"key": "statusCode", "op": "eq", "value": "ERROR"}
BUILD: Final = {"key": "build", "op": "neq", "value": "b1"}
TAGGED: Final = {"key": "tag", "op": "exists"}
NEWEST, HOUR, BEFORE = (600, 0), (3600, 0), (3600, 600)  # windows, in seconds before now

CASES: Final[list[tuple[tuple[int, int], list[Any], Covers, tuple[int, int], list[Any], Covers]]] = [
    (NEWEST, [SLOW], lambda made: made.duration >= 500, NEWEST, [], lambda _: True),
    (HOUR, [SLOW, BUILD], lambda made: made.duration >= 500 and made.attributes.get("build") != "b1", HOUR, [], bool),
    (HOUR, [FAILED], lambda made: made.status == 2, HOUR, [TAGGED], lambda made: "tag" in made.attributes),
    (NEWEST, [TAGGED], lambda made: "tag" in made.attributes, HOUR, [], bool),
    (NEWEST, [SLOW], lambda made: made.duration >= 500, BEFORE, [SLOW], lambda made: made.duration >= 500),
    (NEWEST, [], bool, HOUR, [FAILED], lambda made: made.status == 2),
]


def made_spans() -> list[Made]:
    rng = random.Random(7)
    found = []
    for n in range(400):
        build = rng.choice(["b1", "b2"])
        attributes: dict[str, Any] = {"build": build} if n % 5 else {}
        if rng.random() < 0.5:
            attributes["tag"] = rng.choice(["x", "y", 7])
        slow = rng.random() < (0.7 if build == "b2" else 0.2)
        found.append(Made(rng.randrange(1, 3600), 800 if slow else 20, rng.choice([0, 0, 2]), attributes))
    return found


@pytest.mark.parametrize("lost", [False, True], ids=["roll-up", "no roll-up"])
@pytest.mark.parametrize(
    "common",
    [
        pytest.param([], marks=pytest.mark.long),
        [{"key": "name", "op": "eq", "value": "op"}, {"key": "host", "op": "exists"}],
    ],
)
async def test_the_baseline_has_what_the_spike_has_not(
    lost: bool, common: list[Any], explore: Explore, loader: Loader, clickhouse: ClickHouse
) -> None:
    """Also of keys that the roll-up has lost, whose conditions hold for every row until they are read again."""
    made = made_spans()
    await loader.spans(
        *(
            span(n, start=NOW - age * SECOND, duration=duration * MS, status=status, attributes=attributes)
            for n, (age, duration, status, attributes) in enumerate(made, 1)
        ),
        resource={"host": "h"},
    )
    if lost:
        await clickhouse.command("TRUNCATE TABLE attribute_keys")
    for spike_window, spike_filters, in_spike, baseline_window, baseline_filters, in_baseline in CASES:
        spike = [each for each in made if _within(each, spike_window) and in_spike(each)]
        rest = [each for each in made if _within(each, baseline_window) and in_baseline(each) and each not in spike]
        body = {"spike": _side(spike_window, spike_filters), "baseline": _side(baseline_window, baseline_filters)}
        answer = await explore.post(PATH, body | {"filters": common, "minSpikeCount": 1, "keys": ["build", "tag"]})
        assert answer.status == 200, answer.text
        assert (answer.json["spike"]["total"], answer.json["baseline"]["total"]) == (len(spike), len(rest))
        counts = {
            (each["key"], each["value"]): (each["spikeCount"], each["baselineCount"])
            for each in answer.json["attributes"]
        }
        of_spike, of_rest = _pairs(spike), _pairs(rest)
        assert answer.json["pairsConsidered"] == len(of_spike) * bool(rest)
        assert counts.items() <= {pair: (of_spike[pair], of_rest[pair]) for pair in of_spike}.items()


async def test_a_selection_is_explained(explore: Explore, loader: Loader) -> None:
    await loader.spans(
        *(span(n, start=NOW - SECOND, duration=800 * MS, attributes={"build": "new"}) for n in range(1, 31)),
        *(span(n, start=NOW - SECOND, duration=20 * MS, attributes={"build": "old"}) for n in range(31, 101)),
    )
    spike = {"from": "-1h", "to": "now", "filters": [SLOW, {"key": "durationMs", "op": "lt", "value": "1000"}]}
    answer = (await explore.post(PATH, {"spike": spike, "baseline": {"from": "-1h", "to": "now"}})).json
    found = {(each["key"], each["value"]): (each["spikeCount"], each["baselineCount"]) for each in answer["attributes"]}
    assert found == {("build", "new"): (30, 0)}
    assert "that match 2 filters of the spike" in answer["disclaimer"]
    assert "Spans of the spike are not counted in the baseline." in answer["disclaimer"]


def _within(made: Made, window: tuple[int, int]) -> bool:
    return window[0] >= made.age > window[1]


def _side(window: tuple[int, int], filters: list[Any]) -> dict[str, Any]:
    return {"from": f"-{window[0]}s", "to": f"-{window[1]}s" if window[1] else "now", "filters": filters}


def _pairs(spans: list[Made]) -> Counter[tuple[str, str]]:
    return Counter((key, str(value)) for each in spans for key, value in each.attributes.items())
