"""Which part of a window is looked at when the whole has too many spans."""

import asyncio
import random
from collections.abc import Sequence
from typing import Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.clickhouse import ClickHouse, QueryLimits
from query import sql
from query.analysis.windows import ScanWindow, newest_within_limit
from query.settings import QuerySettings
from query.statements import BUCKET, SpanCount, Window
from query.values import HOUR, SECOND, format_timestamp
from tests.query.conftest import NOW, OTHER_PROJECT, PROJECT, Loader, served, span

BEGIN: Final = NOW // BUCKET * BUCKET - 6 * BUCKET
STEPS: Final = (BUCKET, 10**9, 10**6, 10**3, 1)


class Counter:
    """Answers counts of spans from the times of their starts."""

    def __init__(self, starts: Sequence[int]) -> None:
        self._starts = starts

    async def rows(self, statement: SpanCount) -> list[tuple[int]]:
        windows = [each for each in (statement.whole_buckets, *statement.partial_buckets) if each is not None]
        return [(sum(held(self._starts, window) for window in windows),)]


class Engine:
    """Answers them from the tables."""

    def __init__(self, clickhouse: ClickHouse) -> None:
        self._clickhouse = clickhouse

    async def rows(self, statement: SpanCount) -> list[tuple[object, ...]]:
        query = sql.emit(statement)
        return await self._clickhouse.query(query.sql, query.parameters, limits=QueryLimits())


def held(starts: Sequence[int], window: Window) -> int:
    return sum(window.from_ns <= start < window.to_ns for start in starts)


def expected(starts: Sequence[int], window: Window, ceiling: int) -> ScanWindow:
    """Every beginning that is worth a look is tried: the window's, and the first multiple of each step after a span."""
    kept = sorted(start for start in starts if window.from_ns <= start < window.to_ns)
    if len(kept) <= ceiling:
        return ScanWindow(window, len(kept), truncated=False)
    last = ScanWindow(Window(kept[-1], window.to_ns), kept.count(kept[-1]), truncated=True)
    for step in STEPS:
        # From the multiple up to the (ceiling + 1)-th newest span on there are too many, from the next one on not.
        begin = kept[-ceiling - 1] // step * step + step
        spans = held(kept, Window(begin, window.to_ns)) if begin < window.to_ns else 0
        if spans:
            last = ScanWindow(Window(begin, window.to_ns), spans, truncated=True)
        if 2 * spans >= ceiling:
            break
    return last


offsets = st.one_of(
    st.integers(0, 4 * BUCKET),
    st.integers(0, 12).map(lambda n: n * BUCKET // 3),
    st.integers(BUCKET, BUCKET + 3 * 10**6),
    st.integers(BUCKET, BUCKET + 5),
)


@given(
    starts=st.lists(offsets, max_size=60),
    ends=st.tuples(offsets, offsets).filter(lambda pair: pair[0] != pair[1]),
    ceiling=st.integers(1, 20),
)
def test_the_newest_part_is_never_empty_nor_needlessly_small(
    starts: list[int], ends: tuple[int, int], ceiling: int
) -> None:
    starts, window = [BEGIN + start for start in starts], Window(BEGIN + min(ends), BEGIN + max(ends))
    store: Any = Counter(starts)
    part = asyncio.run(newest_within_limit(store, PROJECT, window, ceiling))
    assert part == expected(starts, window, ceiling)
    assert part.spans == held(starts, part.window)
    assert part.window.to_ns == window.to_ns
    if part.truncated:
        newest_start = max(start for start in starts if start < window.to_ns)
        assert 0 < part.spans <= max(ceiling, starts.count(newest_start))


async def test_random_times_in_the_store(clickhouse: ClickHouse, loader: Loader) -> None:
    rng = random.Random(7)
    starts = [
        BEGIN + rng.choice((rng.randrange(BUCKET), rng.randrange(4 * BUCKET), rng.randrange(9))) for _ in range(80)
    ]
    await loader.spans(*(span(n + 1, start=start) for n, start in enumerate(starts)))
    await loader.spans(span(1, start=BEGIN + BUCKET), project=OTHER_PROJECT)
    store: Any = Engine(clickhouse)
    window = Window(BEGIN - HOUR + 1, NOW)
    for ceiling in (1, 9, 55):
        assert await newest_within_limit(store, PROJECT, window, ceiling) == expected(starts, window, ceiling)


@pytest.mark.parametrize(
    ("ceiling", "step", "scanned"),
    [(100, SECOND, 100), (100, 1, 100), (10, 0, 50), (1, 10 * SECOND, 1)],
)
async def test_spans_may_end_long_before_the_window(
    ceiling: int, step: int, scanned: int, explore_store: ClickHouse, moving_clock: list[int], loader: Loader
) -> None:
    """All are of one bucket, and nothing is newer."""
    number = 50 if step == 0 else 150 if ceiling > 1 else 20
    starts = [BEGIN - 6 * BUCKET + 10**9 + n * step for n in range(number)]
    await loader.spans(*(span(n + 1, start=start) for n, start in enumerate(starts)))
    async with served(explore_store, QuerySettings(max_scan_rows=ceiling), moving_clock) as explore:
        answer = (await explore.post("/spans/aggregate", {"fn": "count", "hours": 2})).json
    assert (answer["scanned"], answer["scanTruncated"]) == (scanned, True)
    assert answer["groups"] == [{"group": None, "value": scanned, "count": scanned}]
    oldest = starts[-1] if step == 0 else starts[-scanned]
    assert format_timestamp(oldest - max(step, 1)) < answer["range"]["from"] <= format_timestamp(oldest)
