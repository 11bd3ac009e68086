"""What other trace explorers get wrong, one after the other; what is expected is what the interface promises.

 1 ties at a page edge                    lists.test_pages, and below while spans arrive
 2 percentiles that change, or are off    below
 3 negations that lose spans              below
 4 cycles, duplicates, orphans, depth     trace.test_traces, trace.test_waterfall
 5 self time                              trace.test_waterfall
 6 null, empty and nothing taken for one  below
 7 a top N of each bucket                 below
 8 cuts that nobody mentions              below
 9 a baseline without the filters         analysis.test_compare
10 times that the sort key does not see   test_what_is_asked
11 the engine's clock and zone            test_what_is_asked
12 texts that become SQL                  test_hostile_texts
13 keys of several types                  below
14 ways to write a trace id               lists.test_pages, trace.test_traces
15 midnight, and ends after the window    below; trace.test_traces
"""

import asyncio
import itertools
import json
import math
import random
from decimal import Decimal
from fractions import Fraction
from itertools import product
from math import ceil
from typing import Any, Final

import pytest

from chassis.clickhouse import ClickHouse
from query.settings import QuerySettings
from query.statements import Fn
from query.values import format_timestamp
from tests.query.conftest import HOUR, MS, NOW, SECOND, Explore, Loader, served, span
from tests.selection import scaled

MINUTE: Final = 60 * SECOND


async def aggregated(explore: Explore, fn: str, **body: Any) -> Any:
    """The answer to an aggregate that must succeed; numbers with a point exactly as they stand there."""
    answer = await explore.post("/spans/aggregate", {"fn": fn, **{name.rstrip("_"): body[name] for name in body}})
    assert answer.status == 200, answer.text
    return json.loads(answer.text, parse_float=Decimal, parse_constant=pytest.fail)


async def compared(explore: Explore, **body: Any) -> Any:
    answer = await explore.post("/spans/compare", {"spike": SPIKE, "baseline": BASELINE, **body})
    assert answer.status == 200, answer.text
    return json.loads(answer.text, parse_constant=pytest.fail)


SPIKE: Final = {"from": NOW - 10 * MINUTE, "to": NOW}
BASELINE: Final = {"from": NOW - 70 * MINUTE, "to": NOW - 10 * MINUTE}
RECENT: Final = NOW - MINUTE
BEFORE: Final = NOW - 30 * MINUTE


def values(answer: Any) -> dict[str | None, Any]:
    return {group["group"]: group["value"] for group in answer["groups"]}


def counts(answer: Any) -> dict[str | None, int]:
    return {group["group"]: group["count"] for group in answer["groups"]}


# --- 1 ----------------------------------------------------------------------------------------------------------------


async def test_pages_lose_and_repeat_nothing_while_spans_arrive(loader: Loader, explore: Explore) -> None:
    """Late rows may appear where they belong; all that was there comes once, in one order."""
    rng = random.Random(11)
    there = [span(n, trace=n % 5 + 1, start=NOW - rng.choice([1, 1, 2, 7, 400]) * MINUTE) for n in range(1, 401)]
    await loader.spans(*there)
    reading = True

    async def arrivals() -> None:
        for number in itertools.count(1000, 4):
            if not reading:
                return
            starts = (NOW - 1, NOW - MINUTE, NOW - 3 * MINUTE, NOW - 400 * MINUTE)
            await loader.spans(*(span(number + n, trace=n + 1, start=start) for n, start in enumerate(starts)))

    writer = asyncio.create_task(arrivals())
    try:
        pages = await explore.pages(limit=17)
    finally:
        reading = False
        await writer
    found = [(row["startTime"], row["traceId"], row["spanId"]) for page in pages for row in page]
    assert found == sorted(set(found), reverse=True)
    assert [number for *_, number in found if int(number, 16) < 1000] == [
        each.span_id.hex()
        for each in sorted(there, key=lambda e: (e.start_time_unix_nano, e.trace_id, e.span_id), reverse=True)
    ]
    assert len(found) > 400


# --- 2 ----------------------------------------------------------------------------------------------------------------

LEVELS: Final = {"p50": (1, 2), "p75": (3, 4), "p90": (9, 10), "p95": (19, 20), "p99": (99, 100), "p999": (999, 1000)}


async def test_percentiles_are_nearest_ranks_and_the_same_each_time(loader: Loader, explore: Explore) -> None:
    """Groups of sizes where q * n is whole, and others."""
    rng = random.Random(2)
    durations = {f"of {n}": [rng.randrange(10**9) for _ in range(n)] for n in (1, 2, 4, 7, 20, 40, 100, 101, 1000)}
    await loader.spans(
        *(
            span(n + 1, name=name, duration=each, attributes={"size": each / 8})
            for name, group in durations.items()
            for n, each in enumerate(group)
        )
    )
    for fn, level in LEVELS.items():
        ranked = {name: sorted(group)[ceil(Fraction(*level) * len(group)) - 1] for name, group in durations.items()}
        answers = [await aggregated(explore, fn, field="durationMs", groupBy="name") for _ in range(2)]
        assert values(answers[0]) == {name: Decimal(each) / MS for name, each in ranked.items()}
        assert answers[1] == answers[0]
        sizes = values(await aggregated(explore, fn, field="size", groupBy="name"))
        assert {name: float(size) for name, size in sizes.items()} == {name: each / 8 for name, each in ranked.items()}


# --- 3 ----------------------------------------------------------------------------------------------------------------

OPPOSITES: Final = (("eq", "neq", "a"), ("exists", "not_exists", None))
OTHER_OPPOSITES: Final = (("contains", "not_contains", "a"), ("in", "not_in", "a,b"))
ASKED: Final = ["k", "attr:k", "resource.k", "host", "scope.name", "statusMessage", "serviceName", "name", "missing"]


@pytest.mark.sized
async def test_a_negation_finds_all_that_its_opposite_does_not(loader: Loader, explore: Explore) -> None:
    sent: list[dict[str, Any]] = [{"k": "a"}, {"k": "ab"}, {"k": ""}, {"k": 1}, {"k": None}, {}, {"k": ["a"]}]
    for resource in ({"host": "a", "service.name": "a"}, {"k": "a"}, {}):
        await loader.spans(
            *(span(n, name="a" * n, message="a" * (n - 1), attributes=own) for n, own in enumerate(sent, 1)),
            resource=resource,
        )
    for (op, opposite, value), key in product(OPPOSITES + scaled((), OTHER_OPPOSITES), ASKED):
        found = []
        for each in (op, opposite):
            filters = [{"key": key, "op": each} | ({"value": value} if value is not None else {})]
            rows = await explore.data(filters=json.dumps(filters), limit=200)
            answer = await aggregated(explore, "count", filters=filters)
            assert counts(answer) == {None: len(rows)}
            found.append([(row["spanId"], json.dumps(row["attributes"])) for row in rows])
        assert sorted(found[0] + found[1]) == sorted(set(found[0]) | set(found[1]))
        assert len(found[0]) + len(found[1]) == 21, key
        assert key != "missing" or len(found[1]) == 21


# --- 6 ----------------------------------------------------------------------------------------------------------------


async def test_missing_empty_and_no_value_are_three_things(loader: Loader, explore: Explore) -> None:
    await loader.spans(
        span(1, attributes={"g": "x", "n": 3}),
        span(2, attributes={"g": "", "n": 0}),
        span(3, attributes={"n": 5}),
        span(4, attributes={"g": "text", "n": "7"}),
        span(5, attributes={"g": "nan", "n": math.nan}),
        span(6, attributes={"g": "none"}),
    )
    for fn in ("avg", "min", "max", "p50", "p99", "sum"):
        answer = await aggregated(explore, fn, field="n", groupBy="g")
        assert values(answer) == {None: 5, "x": 3, "": 0, "nan": None, "none": None, "text": None}
        assert [group["group"] for group in answer["groups"]] == [None, "x", "", "nan", "none", "text"]
        assert set(counts(answer).values()) == {1}
    for fn, nothing in {"count": 0, "sum": 0, "count_unique": 0, "avg": None, "min": None, "p95": None}.items():
        points = (await aggregated(explore, fn, **({} if fn == "count" else {"field": "n"}), hours=2))["series"][0][
            "points"
        ]
        assert {(point["value"], point["count"]) for point in points[:-2]} == {(nothing, 0)}


# --- 7 ----------------------------------------------------------------------------------------------------------------


async def test_groups_are_ranked_over_the_window_and_series_follow_them(loader: Loader, explore: Explore) -> None:
    """Each interval has its own winner, and `steady`, second everywhere, is first of all."""
    sent = {"steady": [4, 4, 4, 4], "a": [5, 0, 0, 0], "b": [0, 5, 0, 0], "c": [0, 0, 5, 0], "d": [0, 0, 0, 6]}
    start = NOW // HOUR * HOUR - 4 * HOUR
    numbers = itertools.count(1)
    await loader.spans(
        *(
            span(next(numbers), start=start + hour * HOUR, attributes={"g": group})
            for group, amounts in sent.items()
            for hour, amount in enumerate(amounts)
            for _ in range(amount)
        )
    )
    answer = await aggregated(
        explore, "count", groupBy="g", limit=3, intervalMinutes=60, from_=start, to=start + 4 * HOUR
    )
    assert counts(answer) == {"steady": 16, "d": 6, "a": 5}
    assert (answer["groupCount"], answer["groupsTruncated"], answer["scanned"]) == (5, True, 37)
    assert [series["group"] for series in answer["series"]] == [each["group"] for each in answer["groups"]]
    assert list(counts(answer)) == ["steady", "d", "a"]
    assert {series["group"]: [point["count"] for point in series["points"]] for series in answer["series"]} == {
        group: sent[group] for group in ("steady", "d", "a")
    }
    whole = await aggregated(explore, "count", groupBy="g", limit=5, from_=start, to=start + 4 * HOUR)
    assert (whole["groupCount"], whole["groupsTruncated"]) == (5, False)


# --- 8 ----------------------------------------------------------------------------------------------------------------


async def test_a_cut_is_named_contiguous_and_the_same_with_any_number_of_threads(
    loader: Loader, clickhouse_url: str, database: str
) -> None:
    rng = random.Random(8)
    starts = [NOW - 1 - rng.randrange(6 * HOUR) for _ in range(3000)]
    for at in range(0, 3000, 500):
        await loader.spans(
            *(span(n + 1, start=starts[n], attributes={"g": n % 7, "n": n / 3}) for n in range(at, at + 500))
        )
    body = {"field": "n", "groupBy": "g", "hours": 6, "intervalMinutes": 10}
    answers = []
    for threads in (1, 2, 8):
        store = ClickHouse(clickhouse_url, database=database, handles=1)
        limits = QuerySettings(max_scan_rows=1000, max_threads=threads)
        async with served(store, limits, [NOW]) as explore:
            answers.append({fn: await aggregated(explore, fn, **body) for fn in Fn})
    assert answers[1:] == answers[:1] * 2
    count = answers[0][Fn.COUNT]
    assert count["scanTruncated"]
    assert count["limits"]["maxScanRows"] == 1000
    cut = count["range"]["from"]
    assert cut > format_timestamp(NOW - 6 * HOUR)
    kept = [n for n, start in enumerate(starts) if format_timestamp(start) >= cut]
    assert 0 < len(kept) <= 1000
    assert count["scanned"] == len(kept)
    assert counts(count) == {str(g): sum(n % 7 == g for n in kept) for g in range(7)}


# --- 13 ---------------------------------------------------------------------------------------------------------------


async def test_a_key_of_several_types_is_each_of_them(loader: Loader, explore: Explore) -> None:
    await loader.spans(span(1, attributes={"v": "12"}), span(2, attributes={"v": "x"}), resource={"service.name": "a"})
    await loader.spans(span(3, attributes={"v": 12}), span(4, attributes={"v": 40.5}), resource={"service.name": "b"})
    await loader.spans(span(5, attributes={"v": math.inf}), span(6, attributes={"v": True}), span(7))

    async def found(text: str) -> set[int]:
        return {int(row["spanId"], 16) for row in await explore.data(filters=text)}

    assert await found("v:12") == {1, 3}
    assert await found("v:12.0") == {3}
    assert await found("v:>11") == {3, 4}
    assert await found("v:>1e300") == set()
    assert await found("-v:12") == {2, 4, 5, 6, 7}
    keys = {row["key"]: row for row in await explore.data("/attributes")}
    assert keys["v"] == {"key": "v", "spans": 6, "numeric": False}
    assert values(await aggregated(explore, "avg", field="v")) == {None: Decimal("26.25")}
    assert values(await aggregated(explore, "count", field="v")) == {None: 6}
    assert values(await aggregated(explore, "count_unique", field="v")) == {None: 5}
    assert counts(await aggregated(explore, "max", field="v", groupBy="v")) == {
        "40.5": 1,
        "12": 2,
        "Infinity": 1,
        "true": 1,
        "x": 1,
        None: 1,
    }


# --- 15 ---------------------------------------------------------------------------------------------------------------


async def test_the_start_decides_whether_a_span_is_in_the_window(loader: Loader, explore: Explore) -> None:
    """Also of one that ends after it, or long before it began; across a midnight."""
    midnight = NOW // (24 * HOUR) * 24 * HOUR
    start, end = midnight - 10 * MINUTE, midnight + 10 * MINUTE
    await loader.spans(
        span(1, name="before", start=start - 1, duration=HOUR),
        span(2, name="first", start=start, duration=24 * HOUR),
        span(3, name="over midnight", start=midnight - 1, duration=2),
        span(4, name="backwards", start=midnight, duration=-HOUR),
        span(5, name="last", start=end - 1, duration=HOUR),
        span(6, name="after", start=end),
    )
    inside = ["backwards", "first", "last", "over midnight"]
    window: dict[str, Any] = {"from_": start, "to": end}
    assert await explore.names(**window) == inside
    answer = await aggregated(explore, "max", field="durationMs", groupBy="name", intervalMinutes=5, **window)
    assert sorted(counts(answer), key=str) == inside
    assert values(answer)["backwards"] == 0
    assert {row["key"]: row["spans"] for row in await explore.data("/attributes", **window)}["name"] == 4
    spike = {"from": midnight, "to": end}
    sides = await compared(explore, spike=spike, baseline={"from": start, "to": end})
    assert (sides["spike"]["total"], sides["baseline"]["total"]) == (2, 2)
