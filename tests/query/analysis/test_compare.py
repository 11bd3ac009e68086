"""POST .../spans/compare: what it finds, and what it says of it."""

import random
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from chassis.clickhouse import ClickHouse
from query.settings import QuerySettings
from query.values import format_timestamp
from tests.query.conftest import HOUR, NOW, OTHER_PROJECT, SECOND, Explore, Loader, served, span
from tests.query.test_sql import ODD

SPIKE = {"from": "-10m", "to": "now"}
BASELINE = {"from": "-70m", "to": "-10m"}
BODY = {"spike": SPIKE, "baseline": BASELINE}
RECENT, BEFORE = NOW - 60 * SECOND, NOW - HOUR // 2


async def compared(explore: Explore, **body: Any) -> Any:
    """The answer to a comparison that must succeed."""
    answer = await explore.post("/spans/compare", {**BODY, **body})
    assert answer.status == 200, answer.text
    return answer.json


def pairs(answer: Any) -> list[tuple[str, str]]:
    return [(each["key"], each["value"]) for each in answer["attributes"]]


def spans(attributes: Sequence[Mapping[str, Any]], start: int, **fields: Any) -> list[Span]:
    """One span of each."""
    return [span(n, start=start, attributes=each, **fields) for n, each in enumerate(attributes, 1)]


def routes(count: int, start: int, route: str, of_them: int, **fields: Any) -> list[Span]:
    """Spans of which some have the route, and the others as many others."""
    paths = [route if n < of_them else f"/other/{n % 20}" for n in range(count)]
    return spans([{"http.route": path} for path in paths], start, **fields)


async def test_the_difference_is_found(explore: Explore, loader: Loader) -> None:
    spike = [
        span(
            n, start=RECENT, attributes={"http.route": "/pay" if n < 80 else "/cart", "user": f"u{n}", "retries": n % 3}
        )
        for n in range(1, 101)
    ]
    baseline = [
        span(
            n, start=BEFORE, attributes={"http.route": "/pay" if n < 21 else "/cart", "user": f"u{n}", "retries": n % 3}
        )
        for n in range(1, 201)
    ]
    await loader.spans(*spike, resource={"service.name": "shop", "host.name": "a"})
    await loader.spans(*baseline, resource={"service.name": "shop", "host.name": "b"})
    answer = await compared(explore)
    assert answer["spike"]["total"] == 100
    assert answer["baseline"]["total"] == 200
    assert pairs(answer) == [("resource.host.name", "a"), ("http.route", "/pay")]
    route = answer["attributes"][1]
    assert route["spikeCount"] == 79
    assert route["baselineCount"] == 20


async def test_every_value_of_the_answer(explore: Explore, loader: Loader) -> None:
    """Sixty of a hundred against thirty of three hundred."""
    await loader.spans(*routes(100, RECENT, "/pay", 60), *routes(300, BEFORE, "/pay", 30))
    answer = await compared(explore, minSpikeCount=50)
    disclaimer = answer.pop("disclaimer")
    assert answer == {
        "spike": {"from": format_timestamp(NOW - 600 * SECOND), "to": format_timestamp(NOW), "total": 100},
        "baseline": {
            "from": format_timestamp(NOW - 4200 * SECOND),
            "to": format_timestamp(NOW - 600 * SECOND),
            "total": 300,
        },
        "attributes": [
            {
                "key": "http.route",
                "value": "/pay",
                "spikeCount": 60,
                "baselineCount": 30,
                "spikeShare": 0.6,
                "baselineShare": 0.1,
                "expectedCount": 10.0,
                "surplus": 50.0,
                "lift": pytest.approx(6),
                "contribution": 0.5,
            }
        ],
        "truncated": False,
        "pairsConsidered": 5,  # the route, name, kind, status and environment, which all spans share
        "minSpikeCount": 50,
    }
    spike, baseline = answer["spike"], answer["baseline"]
    assert disclaimer == (
        f"The spike has 100 spans from {spike['from']} to {spike['to']}. The baseline has 300 spans from "
        f"{baseline['from']} to {baseline['to']}. For each pair of a key and a value, its share of the spike is "
        "compared with its share of the baseline. Shares do not show whether the number of spans changed. "
        "5 key-value pairs were tested. The list has the pairs with a significant difference (z > 4). "
        "Some of these differences may still be due to chance. A difference is an association, not a cause."
    )


async def test_a_value_that_the_baseline_lacks_has_no_lift(explore: Explore, loader: Loader) -> None:
    await loader.spans(*routes(50, RECENT, "/new", 25), *routes(50, BEFORE, "/old", 25))
    (found,) = (await compared(explore))["attributes"]
    assert (found["value"], found["baselineCount"], found["lift"], found["expectedCount"]) == ("/new", 0, None, 0)


async def test_filters_hold_for_both_windows(explore: Explore, loader: Loader) -> None:
    """Without the filter the route is twice as frequent; among errors it is not."""
    await loader.spans(
        *routes(100, RECENT, "/pay", 80, status=2),
        *routes(100, BEFORE, "/pay", 80, status=2),
        *routes(300, BEFORE, "/pay", 0, status=0),
    )
    assert ("http.route", "/pay") in pairs(await compared(explore))
    answer = await compared(explore, filters=[{"key": "statusCode", "op": "eq", "value": "ERROR"}])
    assert (answer["spike"]["total"], answer["baseline"]["total"]) == (100, 100)
    assert answer["attributes"] == []
    assert "All these spans match 1 filter." in answer["disclaimer"]


async def test_what_lies_in_both_windows_is_of_the_spike_alone(explore: Explore, loader: Loader) -> None:
    """A baseline of two hours around the spike: its spans before and after it count, and no other project's."""
    await loader.spans(
        *routes(40, NOW - HOUR - SECOND, "/pay", 40), *routes(30, BEFORE, "/a", 30), *routes(20, RECENT, "/b", 20)
    )
    await loader.spans(*routes(99, NOW - HOUR - SECOND, "/pay", 99), project=OTHER_PROJECT)
    spike, baseline = {"from": "-70m", "to": "-50m"}, {"from": "-2h", "to": "now"}
    answer = await compared(explore, spike=spike, baseline=baseline)
    assert answer["baseline"] == {
        "from": format_timestamp(NOW - 2 * HOUR),
        "to": format_timestamp(NOW),
        "total": 50,
    }
    assert pairs(answer) == [("http.route", "/pay")]
    assert "Spans in both windows count only for the spike." in answer["disclaimer"]


async def test_nothing_is_compared_with_nothing(explore: Explore, loader: Loader) -> None:
    await loader.spans(*routes(50, RECENT, "/pay", 50), *routes(50, BEFORE, "/a", 50))
    old, older = {"from": "-3h", "to": "-2h"}, {"from": "-4h", "to": "-3h"}
    within = {"from": "-5m", "to": "-1m"}
    for spike, baseline, totals in (
        *((old, BASELINE, (0, 50)), (SPIKE, old, (50, 0)), (SPIKE, within, (50, 0)), (old, older, (0, 0))),
    ):
        answer = await compared(explore, spike=spike, baseline=baseline)
        assert (answer["spike"]["total"], answer["baseline"]["total"]) == totals
        assert (answer["attributes"], answer["pairsConsidered"], answer["truncated"]) == ([], 0, False)
        assert "nothing to compare" in answer["disclaimer"]


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


async def test_identifiers_and_many_numbers_are_left_out_unless_they_are_named(
    explore: Explore, loader: Loader
) -> None:
    """In the spike a tenth of the ids and most of the sizes are the same one."""
    spike = [{"id": "same" if n <= 9 else f"s{n}", "size": 7 if n <= 80 else n, "few": 7} for n in range(1, 101)]
    baseline = [{"id": f"b{n}", "size": n % 70, "few": n % 3} for n in range(1, 201)]
    await loader.spans(*spans(spike, RECENT), *spans(baseline, BEFORE))
    usual = await compared(explore)
    assert pairs(usual) == [("few", "7")]
    assert "1 key was omitted (id), because nearly every span has a different value." in usual["disclaimer"]
    assert pairs(await compared(explore, keys=["id", "size"])) == [("size", "7"), ("id", "same")]


async def test_numbers_of_too_many_values_in_the_baseline_alone_are_left_out(explore: Explore, loader: Loader) -> None:
    for count, found in ((50, [("size", "0")]), (51, [])):
        start = BEFORE - count * SECOND
        await loader.spans(
            *spans([{"size": 0}] * 40, start), *spans([{"size": n % count} for n in range(204)], start + SECOND)
        )
        spike = {"from": str(start), "to": str(start + 1)}
        baseline = {"from": str(start + SECOND), "to": str(start + SECOND + 1)}
        assert pairs(await compared(explore, spike=spike, baseline=baseline)) == found


async def test_what_own_fields_say_is_not_said_again(explore: Explore, loader: Loader) -> None:
    attributes = {"service.name": "cart", "service.version": "2", "deployment.environment.name": "prod", "zone": "a"}
    await loader.spans(*routes(50, RECENT, "/", 50), resource=attributes)
    await loader.spans(*routes(50, BEFORE, "/", 50), resource={"service.name": "shop"})
    answer = await compared(explore)
    assert pairs(answer) == [
        ("environment", "prod"),
        ("release", "2"),
        ("resource.zone", "a"),
        ("serviceName", "cart"),
    ]
    named = await compared(explore, keys=["resource.service.name", "zone"])
    assert pairs(named) == [("resource.service.name", "cart"), ("zone", "a")]


async def test_an_attribute_named_as_a_field_is_told_apart(explore: Explore, loader: Loader) -> None:
    await loader.spans(*spans([{"name": "x", "attr:y": "z"}] * 50, RECENT), *spans([{}] * 50, BEFORE))
    assert pairs(await compared(explore)) == [("attr:attr:y", "z"), ("attr:name", "x")]
    assert pairs(await compared(explore, keys=["name", "attr:name"])) == [("attr:name", "x")]


async def test_texts_that_no_filter_may_name_are_left_out(explore: Explore, loader: Loader) -> None:
    values = {"k": "é" * 1024, "l": "é" * 1025, "m" * 256: "x", "é" * 128: "y"}
    await loader.spans(*spans([values] * 50, RECENT), resource={"r" * 250: "x"})
    await loader.spans(*spans([{}] * 50, BEFORE))
    assert pairs(await compared(explore)) == [("k", "é" * 1024), ("m" * 256, "x"), ("é" * 128, "y")]


async def test_the_most_telling_come_first_and_the_rest_is_told(explore: Explore, loader: Loader) -> None:
    spike = [{"a": "x", "b": "x" if n <= 60 else "y", "c": "x" if n <= 60 else "y", "d": n % 2} for n in range(1, 101)]
    baseline = [{"b": "x" if n <= 10 else "y", "d": n % 2} for n in range(1, 101)]
    await loader.spans(*spans(spike, RECENT), *spans(baseline, BEFORE))
    answer = await compared(explore)
    assert pairs(answer) == [("a", "x"), ("c", "x"), ("b", "x"), ("c", "y")]
    assert answer["truncated"] is False
    cut = await compared(explore, limit=3)
    assert pairs(cut) == [("a", "x"), ("c", "x"), ("b", "x")]
    assert cut["truncated"] is True
    assert cut["pairsConsidered"] == answer["pairsConsidered"]


async def test_what_is_rarer_than_asked_for_is_not_considered(explore: Explore, loader: Loader) -> None:
    await loader.spans(*routes(600, RECENT, "/rare", 6), *routes(6000, BEFORE, "/rare", 0))
    assert (await compared(explore))["minSpikeCount"] == 6
    assert pairs(await compared(explore)) == [("http.route", "/rare")]
    assert pairs(await compared(explore, minSpikeCount=7)) == []


async def test_beyond_the_ceiling_both_sides_are_sampled(
    explore_store: ClickHouse, loader: Loader, moving_clock: list[int]
) -> None:
    await loader.spans(*routes(400, RECENT, "/pay", 300), *routes(800, BEFORE, "/pay", 80))
    async with served(explore_store, QuerySettings(max_scan_rows=300), moving_clock) as client:
        first, again = await compared(client), await compared(client)
        filtered = await compared(client, filters=[{"key": "http.route", "op": "eq", "value": "/pay"}])
    assert first == again
    assert first["truncated"] is True
    assert "Spike and baseline are sampled: one span in 4, selected by hash" in first["disclaimer"]
    assert 50 < first["spike"]["total"] < 150
    assert 130 < first["baseline"]["total"] < 270
    (found,) = first["attributes"]
    assert found["spikeCount"] + found["baselineCount"] == filtered["spike"]["total"] + filtered["baseline"]["total"]
    assert found["spikeShare"] == found["spikeCount"] / first["spike"]["total"]


async def test_at_the_ceiling_every_span_counts(
    explore_store: ClickHouse, loader: Loader, moving_clock: list[int]
) -> None:
    await loader.spans(*routes(100, RECENT, "/pay", 90), *routes(200, BEFORE, "/pay", 20))
    async with served(explore_store, QuerySettings(max_scan_rows=300), moving_clock) as client:
        answer = await compared(client)
    assert (answer["spike"]["total"], answer["baseline"]["total"], answer["truncated"]) == (100, 200, False)


async def test_identifiers_of_a_large_spike_are_known_by_a_part_of_it(
    explore: Explore, loader: Loader, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All of its spans start with the first of the eight stretches."""
    monkeypatch.setattr("query.analysis.candidate_pairs._LARGE_SPIKE_SPANS", 199)
    spike = [{"id": f"s{n}", "k": "x" if n <= 150 else "y"} for n in range(1, 201)]
    await loader.spans(*spans(spike, NOW - 600 * SECOND))
    await loader.spans(*spans([{"id": f"b{n}", "k": "y"} for n in range(100)], BEFORE))
    answer = await compared(explore, minSpikeCount=1)
    assert pairs(answer) == [("k", "x")]
    assert "1 key was omitted (id), because nearly every span has a different value." in answer["disclaimer"]
    assert answer["pairsConsidered"] == 6


async def test_what_a_bound_cuts_off_is_told(explore: Explore, loader: Loader) -> None:
    """Two values, one key in two places and one in one."""
    spike = [{"k": "a" if n % 2 else "b", "host": "own"} for n in range(100)]
    await loader.spans(*spans(spike, RECENT), resource={"host": "theirs"})
    await loader.spans(*spans([{"k": "c"}] * 100, BEFORE), resource={"host": "other"})
    whole = await compared(explore)
    assert whole["truncated"] is False
    assert {("k", "a"), ("k", "b"), ("host", "own")} <= set(pairs(whole))
    shown = {(each["key"], each["value"]): each for each in whole["attributes"]}
    bounds = {"MAX_PAIRS": 1, "MAX_VALUES_OF_KEY": 1, "MAX_MULTI_LOCATION_KEYS": 0, "_KEY_BYTES": 0}
    for bound, value in bounds.items():
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(f"query.analysis.candidate_pairs.{bound}", value)
            cut = await compared(explore)
        assert cut["truncated"] is True, bound
        assert len(pairs(cut)) < len(pairs(whole)), bound
        assert "the rarest are omitted" in cut["disclaimer"]
        assert all(each == shown[each["key"], each["value"]] for each in cut["attributes"])


async def test_hostile_keys_and_values_are_data(explore: Explore, loader: Loader) -> None:
    values = {f"k{text}": text for text in ODD}
    await loader.spans(*spans([values] * 50, RECENT), *spans([{}] * 50, BEFORE))
    await loader.spans(*spans([values] * 50, BEFORE), project=OTHER_PROJECT)
    assert sorted(pairs(await compared(explore))) == sorted(values.items())
    assert sorted(pairs(await compared(explore, keys=[*values]))) == sorted(values.items())
