"""Pages: every stored row once, newest first, whatever the ties; cursors that fit nothing but their own list."""

import json
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from query.settings import QuerySettings
from query.statements import BUCKET
from query.values import format_timestamp
from tests.query.conftest import (
    HOUR,
    NOW,
    ONE_ENGINE,
    SECOND,
    Explore,
    Loader,
    record,
    span,
)
from tests.selection import scaled


def keys(pages: list[list[Any]]) -> list[str]:
    return [row["id"] for page in pages for row in page]


@pytest.mark.sized
@ONE_ENGINE
async def test_two_thousand_spans_of_one_start_time_come_once_each(loader: Loader, explore: Explore) -> None:
    start = NOW - 600 * SECOND
    numbers = [*range(1, 2001)]
    random.Random(1).shuffle(numbers)
    for at in range(0, 2000, 500):
        await loader.spans(*(span(n, trace=n % 3 + 1, start=start) for n in numbers[at : at + 500]))
    limit = scaled(21, 7)
    pages = await explore.pages(limit=limit, hours=1)
    assert len(pages) == -(-2000 // limit)
    assert {len(page) for page in pages[:-1]} == {limit}
    found = [(row["traceId"], row["spanId"]) for page in pages for row in page]
    assert found == sorted(found, reverse=True)
    assert len(set(found)) == 2000


async def test_rows_that_are_equal_in_everything_are_all_listed(loader: Loader, explore: Explore) -> None:
    """A resend is stored again and listed again: lists count stored rows."""
    for _ in range(3):
        await loader.spans(*[span(1)] * 4)
    assert [len(page) for page in await explore.pages(limit=5)] == [5, 5, 2]


@pytest.mark.sized
@ONE_ENGINE
async def test_random_ties_and_gaps_page_through_in_order(loader: Loader, explore: Explore) -> None:
    rng = random.Random(3)
    edges = [NOW - 1, NOW - SECOND, *(NOW // BUCKET * BUCKET - n * BUCKET for n in (0, 1, 2, 6, 30, 130))]
    starts = [max(NOW - 24 * HOUR, rng.choice(edges) - rng.choice([0, 0, 0, 1, 17, SECOND])) for _ in range(300)]
    await loader.spans(*(span(n + 1, trace=rng.randint(1, 3), start=start) for n, start in enumerate(starts)))
    everything = keys([await explore.data(limit=200), []])
    for limit in scaled((5, 50, 150, 200), (1, 3, 50, 150, 200)):
        pages = await explore.pages(limit=limit)
        found = keys(pages)
        assert len(found) == len(set(found)) == 300
        assert found[:200] == everything
        order = [(row["startTime"], row["traceId"], row["spanId"]) for page in pages for row in page]
        assert order == sorted(order, reverse=True)


@ONE_ENGINE
@pytest.mark.sized
@settings(max_examples=scaled(12, 100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_any_window_and_limit_gives_what_lies_in_the_window(data: st.DataObject, preloaded: Explore) -> None:
    start = data.draw(st.integers(0, 3600), "from, seconds ago") + 1
    end = data.draw(st.integers(0, start - 1), "to, seconds ago")
    limit = data.draw(st.integers(1, 60), "limit")
    pages = await preloaded.pages(
        limit=limit, from_=format_timestamp(NOW - start * SECOND), to=format_timestamp(NOW - end * SECOND)
    )
    found = [int(row["name"]) for page in pages for row in page]
    assert found == sorted(ago for ago in SECONDS_AGO if end < ago <= start)


SECONDS_AGO = sorted(random.Random(5).sample(range(1, 3600), 120))


@pytest.fixture
async def preloaded(loader: Loader, explore: Explore) -> Explore:
    await loader.spans(*(span(ago, name=str(ago), start=NOW - ago * SECOND) for ago in SECONDS_AGO))
    return explore


async def test_the_window_is_half_open(loader: Loader, explore: Explore) -> None:
    start = NOW - 600 * SECOND
    await loader.spans(*(span(n + 1, name=str(n), start=start + n) for n in range(4)))
    assert await explore.names(from_=format_timestamp(start + 1), to=format_timestamp(start + 3)) == ["1", "2"]


async def test_rows_that_arrive_between_pages_shift_nothing(loader: Loader, explore: Explore) -> None:
    await loader.spans(*(span(n, name=f"old {n}", start=NOW - n * SECOND) for n in range(10, 20)))
    first = (await explore.get("/spans", limit=5)).json
    await loader.spans(*(span(n, name=f"new {n}", start=NOW - n * SECOND) for n in range(1, 13)))
    second = (await explore.get("/spans", limit=5, cursor=first["nextCursor"])).json
    assert [row["name"] for row in second["data"]] == [f"old {n}" for n in range(15, 20)]


class TestPagesOfFewBytes:
    """With pages of 256 KiB, and answers one at a time."""

    @pytest.fixture
    def query_settings(self) -> QuerySettings:
        return QuerySettings(max_page_bytes=2**18, max_answers=1, max_waiting=0, timeout_s=20)

    async def test_large_rows_come_on_short_pages_and_each_once(self, loader: Loader, explore: Explore) -> None:
        """Ties, several slices of time, a row larger than a page, and small ones between."""
        wide = {f"k{n}": "x" * 16_000 for n in range(5)}
        huge = {f"k{n}": "x" * 16_000 for n in range(40)}
        sent = [span(n, start=NOW - n % 5 * 3600 * SECOND - SECOND, attributes=wide) for n in range(1, 41)]
        sent += [span(n, start=NOW - n * SECOND) for n in range(41, 80)]
        sent += [span(80, start=NOW - 50 * SECOND, attributes=huge)]
        await loader.spans(*sent)
        pages = await explore.pages(limit=200)
        assert sorted(row["spanId"] for page in pages for row in page) == [f"{n:016x}" for n in range(1, 81)]
        starts = [row["startTime"] for page in pages for row in page]
        assert starts == sorted(starts, reverse=True)
        assert all(len(page) == 1 or len(json.dumps(page)) < 1.2 * 2**18 for page in pages)
        assert max(map(len, pages)) > 1

    async def test_large_log_records_likewise(self, loader: Loader, explore: Explore) -> None:
        await loader.logs(*(record(body="x" * 100_000, number=n, trace=1) for n in range(1, 11)))
        pages = await explore.pages("/logs", limit=200)
        assert sorted(row["spanId"] for page in pages for row in page) == [f"{n:016x}" for n in range(1, 11)]
        assert all(len(page) <= 2 for page in pages)

    async def test_a_resource_that_many_rows_share_counts_for_each(self, loader: Loader, explore: Explore) -> None:
        """The tables hold it once for them all; an answer has it in every row."""
        wide = {f"k{n}": "x" * 16_000 for n in range(6)}
        await loader.spans(*(span(n, start=NOW - n * SECOND) for n in range(1, 12)), resource=wide)
        await loader.spans(*(span(12, start=NOW - n * SECOND) for n in range(60, 66)), resource=wide)
        await loader.logs(*(record(number=n, trace=1) for n in range(1, 12)), resource=wide)
        for path in ("/spans", "/logs", f"/traces/{'0' * 31}1/logs"):
            pages = await explore.pages(path, limit=200)
            assert sum(map(len, pages)) == (17 if path == "/spans" else 11)
            assert max(map(len, pages)) == 2
        found = (await explore.get(f"/traces/{'0' * 31}1/spans/{12:016x}")).json
        assert len(found["alternates"]) == 1

    async def test_of_large_spans_with_one_id_the_earliest_is_shown(self, loader: Loader, explore: Explore) -> None:
        wide = {f"k{n}": "x" * 16_000 for n in range(20)}
        await loader.spans(*(span(1, start=NOW - n * SECOND, attributes=wide) for n in range(60, 63)))
        found = (await explore.get(f"/traces/{'0' * 31}1/spans/{'0' * 15}1")).json
        assert found["startTime"] == format_timestamp(NOW - 62 * SECOND)
        assert found["alternates"] == []


async def test_a_trace_without_a_time_is_found_wherever_it_lies(loader: Loader, explore: Explore) -> None:
    old = NOW - 20 * 24 * HOUR
    await loader.spans(span(1, trace=5, start=old), span(2, trace=5, start=old + 3 * HOUR), span(3, trace=6))
    trace = "0" * 31 + "5"
    assert [row["spanId"][-1] for row in await explore.data(traceId=trace)] == ["2", "1"]
    assert [len(page) for page in await explore.pages(traceId=trace, limit=1)] == [1, 1]
    assert await explore.data(traceId=trace, hours=24) == []
    assert [row["spanId"][-1] for row in await explore.data(traceId=trace, from_=old, to=old + HOUR)] == ["1"]
    assert await explore.data(traceId=trace, filters="name:other") == []
    assert await explore.data("/logs", traceId=trace) == []


@ONE_ENGINE
async def test_trace_ids_in_the_query(loader: Loader, explore: Explore) -> None:
    await loader.spans(span(1, trace=171))
    one = ["0" * 30 + "ab", "0" * 30 + "AB", "0" * 14 + "ab", "0" * 14 + "AB"]
    none = ["ab", "0" * 32, "0" * 33, "zz" * 16, "0" * 30 + " b", "x" * 64, "٣" * 32]
    found = {trace: len(await explore.data(traceId=trace)) for trace in one + none}
    assert found == dict.fromkeys(one, 1) | dict.fromkeys(none, 0)
