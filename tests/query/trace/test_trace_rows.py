"""A trace as columns: the rows of the waterfall, in fewer bytes."""

import random
from typing import Any

import pytest

from tests.query.conftest import MS, NOW, SECOND, Explore, Loader, span

pytestmark = pytest.mark.both_stores

START = NOW - 600 * SECOND
TRACE = "0" * 31 + "1"
HEX = "{:016x}".format


async def rows(explore: Explore, trace: str = TRACE, **query: Any) -> Any:
    answer = await explore.get(f"/traces/{trace}/rows", **query)
    assert answer.status == 200, answer.text
    return answer.json


def texts(table: Any, column: str) -> list[str | None]:
    return [None if at < 0 else table["strings"][at] for at in table["columns"][column]]


async def test_columns_are_those_of_the_waterfall(loader: Loader, explore: Explore) -> None:
    """Of a random tree with orphans, a cycle and a span that was sent twice."""
    drawn = random.Random(4)  # a seed
    spans = []
    for number in range(1, 60):
        parent = drawn.choice([0, 99, *range(1, number)]) if number > 1 else 0
        start = START + drawn.randrange(1_000) * MS
        spans.append(
            span(number, parent=parent, start=start, duration=drawn.randrange(500) * MS + number, name=f"n{number % 7}")
        )
    spans += [span(70, parent=71, start=START, duration=5), span(71, parent=70, start=START + 1, duration=5), spans[3]]
    await loader.spans(*spans, resource={"service.name": "web"})
    table = await rows(explore)
    answer = await explore.get(f"/traces/{TRACE}/waterfall")
    whole = answer.json
    for name in ("traceId", "spanCount", "orphanCount", "maxDepth", "startTime", "endTime", "durationMs", "services"):
        assert table[name] == whole[name], name
    columns, shown = table["columns"], whole["rows"]
    assert table["rows"] == len(shown) == len(columns["spanId"])
    assert columns["spanId"] == [row["spanId"] for row in shown]
    assert columns["depth"] == [row["depth"] for row in shown]
    assert texts(table, "name") == [row["name"] for row in shown]
    assert texts(table, "service") == [row["serviceName"] for row in shown]
    assert texts(table, "kind") == [row["kind"] for row in shown]
    assert texts(table, "status") == [row["statusCode"] for row in shown]
    assert [at / 1e6 for at in columns["startOffsetNs"]] == [row["offsetMs"] for row in shown]
    assert [at / 1e6 for at in columns["durationNs"]] == [row["durationMs"] for row in shown]
    assert [at / 1e6 for at in columns["selfTimeNs"]] == [row["selfTimeMs"] for row in shown]
    assert columns["orphan"] == [int(row["orphan"]) for row in shown]
    for at, parent in enumerate(columns["parent"]):
        assert parent == -1 if columns["depth"][at] == 0 else columns["depth"][parent] == columns["depth"][at] - 1
        assert columns["children"][at] == columns["parent"].count(at)
        if parent >= 0 and not columns["orphan"][at]:
            assert columns["spanId"][parent] == shown[at]["parentSpanId"]


async def test_a_subtree(loader: Loader, explore: Explore) -> None:
    await loader.spans(
        span(1, start=START, duration=100 * MS),
        span(2, parent=1, start=START + 10 * MS, duration=30 * MS),
        span(3, parent=2, start=START + 20 * MS, duration=40 * MS),
        span(4, parent=1, start=START + 70 * MS, duration=MS),
    )
    table = await rows(explore, root=HEX(2))
    assert (table["root"], table["spanCount"], table["rows"]) == (HEX(2), 4, 2)
    columns = table["columns"]
    assert (columns["spanId"], columns["depth"], columns["parent"]) == ([HEX(2), HEX(3)], [0, 1], [-1, 0])
    assert columns["startOffsetNs"] == [0, 10 * MS]
    assert table["durationMs"] == 50
    assert (await explore.get(f"/traces/{TRACE}/rows", root=HEX(9))).status == 404
    assert (await explore.get(f"/traces/{TRACE}/rows", root="x")).status == 400
    assert (await explore.get(f"/traces/{'f' * 32}/rows")).status == 404


async def test_a_chain_ten_thousand_deep(loader: Loader, explore: Explore) -> None:
    await loader.spans(*(span(n, parent=n - 1, start=START + n, duration=10**6 - n) for n in range(1, 10_001)))
    table = await rows(explore)
    assert (table["rows"], table["maxDepth"], table["truncated"]) == (10_000, 9_999, False)
    assert table["columns"]["parent"] == list(range(-1, 9_999))
    waterfall = (await explore.get(f"/traces/{TRACE}/waterfall")).json
    assert (waterfall["spanCount"], waterfall["maxDepth"], waterfall["orphanCount"]) == (10_000, 9_999, 0)
    assert [row["spanId"] for row in waterfall["rows"]] == [HEX(n) for n in range(1, 10_001)]
