"""Traces over the wire: the waterfall with exactly the specified keys, the whole record of a span, a trace's logs."""

from typing import Any

import pytest

from query.settings import QuerySettings
from query.values import format_timestamp
from tests.query.conftest import HOUR, MS, NOW, OTHER_PATH, OTHER_PROJECT, SECOND, Explore, Loader, record, span

pytestmark = pytest.mark.both_stores

START = NOW - 600 * SECOND
TRACE = "0" * 31 + "1"
HEX = "{:016x}".format


ROW = (
    *("spanId", "parentSpanId", "name", "kind", "serviceName", "statusCode", "depth", "offsetMs", "durationMs"),
    *("offsetRatio", "widthRatio", "selfTimeMs", "orphan", "attributes"),
)


async def waterfall(explore: Explore, trace: str = TRACE) -> Any:
    answer = await explore.get(f"/traces/{trace}/waterfall")
    assert answer.status == 200, answer.text
    return answer.json


async def test_a_small_trace_whole(loader: Loader, explore: Explore) -> None:
    await loader.spans(
        span(1, start=START, duration=100 * MS, name="GET /", status=2, attributes={"n": 1}),
        span(2, parent=1, start=START + 10 * MS, duration=30 * MS, name="query", kind=3),
        resource={"service.name": "web"},
    )
    await loader.spans(
        span(3, parent=77, start=START + 50 * MS, duration=100 * MS + 5), resource={"service.name": "cart"}
    )
    answer = await explore.get(f"/traces/{TRACE}/waterfall")
    assert answer.headers["Content-Type"] == "application/json"
    whole, web, cart = 150 * MS + 5, {"resource.service.name": "web"}, {"resource.service.name": "cart"}
    rows: list[tuple[object, ...]] = [
        (HEX(1), None, "GET /", "SERVER", "web", "ERROR", 0, 0, 100, 0, 100 * MS / whole, 70, False, {"n": 1} | web),
        (
            HEX(2),
            HEX(1),
            "query",
            "CLIENT",
            "web",
            "UNSET",
            1,
            10,
            30,
            10 * MS / whole,
            30 * MS / whole,
            30,
            False,
            web,
        ),
        (
            *(HEX(3), HEX(77), "op", "SERVER", "cart", "UNSET", 0, 50, 100.000005, 50 * MS / whole),
            *((100 * MS + 5) / whole, 100.000005, True, cart),
        ),
    ]
    assert answer.json == {
        "traceId": TRACE,
        "spanCount": 3,
        "orphanCount": 1,
        "maxDepth": 1,
        "startTime": format_timestamp(START),
        "endTime": format_timestamp(START + 150 * MS + 5),
        "durationMs": 150.000005,
        "services": ["cart", "web"],
        "truncated": False,
        "rows": [dict(zip(ROW, row, strict=True)) for row in rows],
    }
    assert list(answer.json["rows"][0]) == [*ROW]
    assert '"durationMs":150.000005' in answer.text
    assert '"selfTimeMs":70.000000' in answer.text


async def test_a_trace_without_length_has_no_ratios(loader: Loader, explore: Explore) -> None:
    await loader.spans(span(1, start=START, duration=0), span(2, start=START, duration=-1))
    found = await waterfall(explore)
    assert found["durationMs"] == 0
    assert [(row["offsetRatio"], row["widthRatio"], row["durationMs"]) for row in found["rows"]] == [(0, 0, 0)] * 2
    assert found["services"] == []


async def test_resends_are_shown_once_and_shared_ids_each(loader: Loader, explore: Explore) -> None:
    client = span(2, parent=1, start=START + 10, duration=100, kind=3)
    server = span(2, parent=1, start=START + 20, duration=50, kind=2)
    for _ in range(3):
        await loader.spans(
            span(1, start=START, duration=200), client, server, span(3, parent=2, start=START + 30, duration=5)
        )
    found = await waterfall(explore)
    assert found["spanCount"] == 4
    assert [(row["spanId"], row["kind"], row["depth"]) for row in found["rows"]] == [
        (HEX(1), "SERVER", 0),
        (HEX(2), "CLIENT", 1),
        (HEX(3), "SERVER", 2),
        (HEX(2), "SERVER", 1),
    ]


async def test_cycles_self_parents_and_orphans(loader: Loader, explore: Explore) -> None:
    await loader.spans(
        span(1, parent=2, start=START + 1),
        span(2, parent=1, start=START + 2),
        span(3, parent=3, start=START + 3),
        span(4, parent=99, start=START + 4),
    )
    found = await waterfall(explore)
    assert [(row["spanId"][-1], row["depth"], row["orphan"]) for row in found["rows"]] == [
        ("1", 0, True),
        ("2", 1, False),
        ("3", 0, True),
        ("4", 0, True),
    ]
    assert found["orphanCount"] == 3


class TestSmallLimits:
    """With a limit of five spans, and of a MiB of attributes."""

    @pytest.fixture
    def query_settings(self) -> QuerySettings:
        return QuerySettings(max_trace_spans=5, max_trace_bytes=2**20)

    async def test_of_a_longer_trace_the_earliest_are_shown(self, loader: Loader, explore: Explore) -> None:
        for _ in range(2):
            await loader.spans(*(span(n, start=START + n) for n in range(1, 9)))
        found = await waterfall(explore)
        assert found["truncated"]
        assert found["spanCount"] == 8
        assert [row["spanId"] for row in found["rows"]] == [HEX(n) for n in range(1, 6)]

    async def test_a_trace_of_just_that_length_is_whole_whatever_was_resent(
        self, loader: Loader, explore: Explore
    ) -> None:
        for _ in range(3):
            await loader.spans(*(span(n, start=START + n) for n in range(1, 6)))
        found = await waterfall(explore)
        assert not found["truncated"]
        assert found["spanCount"] == len(found["rows"]) == 5

    async def test_a_trace_ends_where_its_attributes_are_too_many(self, loader: Loader, explore: Explore) -> None:
        wide = {f"k{n}": "x" * 16_000 for n in range(40)}
        await loader.spans(*(span(n, start=START + n, attributes=wide) for n in range(1, 5)))
        found = await waterfall(explore)
        assert found["truncated"]
        assert (found["spanCount"], len(found["rows"])) == (4, 2)


async def test_an_unknown_trace_is_not_found(loader: Loader, explore: Explore) -> None:
    await loader.spans(span(1, trace=5), project=OTHER_PROJECT)
    for suffix in ("waterfall", "rows", "logs", f"spans/{HEX(1)}"):
        for trace in ("0" * 31 + "5", "0" * 32, "5", "x" * 64, "0" * 30 + "%20", "f" * 32):
            answer = await explore.get(f"/traces/{trace}/{suffix}")
            assert (answer.status, answer.json["error"]["message"]) == (404, "Not found."), (trace, suffix)
    assert (await explore.get(f"/traces/{'0' * 31}5/waterfall", base=OTHER_PATH)).status == 200


async def test_a_trace_id_in_the_path_in_either_case_and_length(loader: Loader, explore: Explore) -> None:
    await loader.spans(span(1, trace=171))
    for trace in ("0" * 30 + "ab", "0" * 30 + "AB", "0" * 14 + "Ab"):
        assert (await waterfall(explore, trace))["traceId"] == "0" * 30 + "ab"


async def test_a_trace_across_midnight_is_whole(loader: Loader, explore: Explore) -> None:
    midnight = NOW // (24 * HOUR) * 24 * HOUR
    await loader.spans(span(1, start=midnight - 5), span(2, parent=1, start=midnight + 5))
    found = await waterfall(explore)
    assert [row["depth"] for row in found["rows"]] == [0, 1]


async def test_a_span_by_its_id(loader: Loader, explore: Explore) -> None:
    first = span(1, start=START, name="first")
    await loader.spans(first, span(1, start=START + 5, name="second"), span(2, start=START))
    await loader.spans(first)
    answer = await explore.get(f"/traces/{TRACE}/spans/{HEX(1)}")
    assert answer.json["name"] == "first"
    assert [other["name"] for other in answer.json["alternates"]] == ["second"]
    for missing in (HEX(9), "1", "0" * 16, "z" * 16):
        assert (await explore.get(f"/traces/{TRACE}/spans/{missing}")).status == 404


async def test_the_logs_of_a_trace(loader: Loader, explore: Explore) -> None:
    old = NOW - 10 * 24 * HOUR
    await loader.spans(span(1, trace=2))
    await loader.logs(
        record(body="a", trace=1, at=old, severity=9),
        record(body="b", trace=1, at=old + HOUR, severity=17),
        record(body="c", trace=3, at=old),
        record(body="d", at=old),
    )
    path = f"/traces/{TRACE}/logs"
    assert [row["body"] for row in await explore.data(path)] == ["b", "a"]
    assert [row["body"] for row in await explore.data(path, filters="severityNumber:>=17")] == ["b"]
    assert [row["body"] for row in await explore.data(path, from_=old, to=old + HOUR)] == ["a"]
    assert await explore.data(path, hours=1) == []
    assert [len(page) for page in await explore.pages(path, limit=1)] == [1, 1]
    assert await explore.data(path, traceId=TRACE) != []
    assert await explore.data(path, traceId="0" * 31 + "3") == []
    assert await explore.data("/traces/" + "0" * 31 + "2/logs") == []
