"""Spans, longest first: pages together are the sorted whole, whatever the ties; cursors that fit nothing else."""

import json
import random
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from query.settings import QuerySettings
from query.values import format_timestamp
from tests.query.conftest import (
    HOUR,
    MS,
    NOW,
    ONE_ENGINE,
    OTHER_PROJECT,
    SECOND,
    Explore,
    Loader,
    span,
)
from tests.selection import scaled

BY_DURATION: dict[str, Any] = {"sort": "duration"}
DURATIONS = [-5 * SECOND, -1, 0, 1, 2, MS, MS + 1, 7 * SECOND, 9 * HOUR]  # some spans end before they start


class Stored:
    """Spans with ties in every part of the order, in several batches, over a day."""

    def __init__(self, seed: int, count: int) -> None:
        drawn = random.Random(seed)
        starts = [NOW - drawn.randrange(1, 23 * 3600) * SECOND for _ in range(7)]
        self.spans: list[dict[str, Any]] = [
            {
                "number": number,
                "id": drawn.randrange(1, 20),
                "trace": drawn.randrange(1, 4),
                "start": drawn.choice(starts),
                "duration": drawn.choice(DURATIONS),
                "name": f"n{drawn.randrange(3)}",
                "tier": drawn.choice(["gold", "tin"]),
            }
            for number in range(count)
        ]

    async def load(self, loader: Loader) -> None:
        for at in range(0, len(self.spans), 31):
            await loader.spans(
                *(
                    span(
                        one["id"],
                        trace=one["trace"],
                        start=one["start"],
                        duration=one["duration"],
                        name=one["name"],
                        attributes={"tier": one["tier"], "number": one["number"]},
                    )
                    for one in self.spans[at : at + 31]
                )
            )

    def expected(self, from_ns: int, **matching: Any) -> list[tuple[float, str, str, str]]:
        """The order, without batch and row: a client does not see them."""
        found = [
            one
            for one in self.spans
            if one["start"] >= from_ns and all(one[key] == value for key, value in matching.items())
        ]
        keys = ((max(one["duration"], 0), one["start"], one["trace"], one["id"]) for one in found)
        return [
            (duration / MS, format_timestamp(start), f"{trace:032x}", f"{number:016x}")
            for duration, start, trace, number in sorted(keys, reverse=True)
        ]


def shown(pages: list[list[Any]]) -> list[tuple[float, str, str, str]]:
    return [(row["durationMs"], row["startTime"], row["traceId"], row["spanId"]) for page in pages for row in page]


def assert_each_once(pages: list[list[Any]]) -> None:
    numbers = [row["attributes"]["number"] for page in pages for row in page]
    assert len(numbers) == len(set(numbers))


STORED = Stored(11, 230)


@pytest.fixture
async def preloaded(loader: Loader, explore: Explore) -> Explore:
    await STORED.load(loader)
    await loader.spans(span(1, duration=99 * HOUR), project=OTHER_PROJECT)
    return explore


@pytest.mark.both_stores
async def test_pages_together_are_the_sorted_whole(preloaded: Explore) -> None:
    by_time = [json.dumps(row) for page in await preloaded.pages(limit=200) for row in page]
    for limit in (7, 200):
        pages = await preloaded.pages(limit=limit, **BY_DURATION)
        assert shown(pages) == STORED.expected(0)
        assert {len(page) for page in pages[:-1]} == {limit}
        assert sorted(json.dumps(row) for page in pages for row in page) == sorted(by_time)


@ONE_ENGINE
@pytest.mark.sized
@settings(max_examples=scaled(12, 100), deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data())
async def test_any_window_filter_and_limit(data: st.DataObject, preloaded: Explore) -> None:
    hours = data.draw(st.integers(1, 24), "hours")
    limit = data.draw(st.integers(1, 60), "limit")
    matching = data.draw(
        st.sampled_from([{}, {"name": "n1"}, {"tier": "gold"}, {"tier": "tin", "name": "n0"}, {"tier": "lead"}]), "by"
    )
    filters = " ".join(f"{key}:{value}" for key, value in matching.items())
    pages = await preloaded.pages(hours=hours, limit=limit, filters=filters, **BY_DURATION)
    assert shown(pages) == STORED.expected(NOW - hours * HOUR, **matching)
    assert_each_once(pages)


async def test_of_one_trace(preloaded: Explore) -> None:
    pages = await preloaded.pages(limit=9, traceId=f"{2:032x}", **BY_DURATION)
    assert shown(pages) == STORED.expected(0, trace=2)
    assert await preloaded.data(traceId=f"{77:032x}", **BY_DURATION) == []
    assert await preloaded.data(traceId="none", **BY_DURATION) == []


@pytest.mark.sized
@ONE_ENGINE
async def test_equal_spans_come_once_each(loader: Loader, explore: Explore) -> None:
    """Only batch and row tell them apart."""
    for batch in range(4):
        await loader.spans(*(span(1, attributes={"number": 50 * batch + n}) for n in range(50)))
    pages = await explore.pages(limit=scaled(33, 7), **BY_DURATION)
    assert sum(map(len, pages)) == 200
    assert_each_once(pages)


async def test_by_time_is_the_default(preloaded: Explore) -> None:
    assert await preloaded.pages(limit=50, sort="time") == await preloaded.pages(limit=50)


class TestPagesOfFewBytes:
    """With pages of 256 KiB."""

    @pytest.fixture
    def query_settings(self) -> QuerySettings:
        return QuerySettings(max_page_bytes=2**18)

    async def test_large_rows_come_on_short_pages_and_each_once(self, loader: Loader, explore: Explore) -> None:
        wide = {f"k{n}": "x" * 16_000 for n in range(5)}
        huge = {f"k{n}": "x" * 16_000 for n in range(40)}
        sent = [span(n, start=NOW - n % 5 * HOUR - SECOND, duration=n % 7, attributes=wide) for n in range(1, 41)]
        sent += [span(n, duration=n % 7) for n in range(41, 80)]
        sent += [span(80, duration=3, attributes=huge)]
        await loader.spans(*sent)
        pages = await explore.pages(limit=200, **BY_DURATION)
        assert sorted(row["spanId"] for page in pages for row in page) == [f"{n:016x}" for n in range(1, 81)]
        durations = [row["durationMs"] for page in pages for row in page]
        assert durations == sorted(durations, reverse=True)
        assert all(len(page) == 1 or len(json.dumps(page)) < 1.2 * 2**18 for page in pages)
        assert max(map(len, pages)) > 1
