"""The cache of look-ups over a source that goes away and comes back."""

import asyncio
from collections.abc import AsyncIterator

import pytest

from chassis.auth.cache import MAX_FETCHES, MAX_UNKNOWN_FETCHES, RETRY_S, CacheLimits, CacheMetrics, LookupCache
from chassis.errors import ServiceUnavailable


class Source:
    """Knows every key by its upper case, or is away; answers when it is let."""

    def __init__(self) -> None:
        self.away = False
        self.now = 1000.0
        self.asked: list[str] = []
        self.most = 0  # that were asked at once
        self.let = asyncio.Event()
        self.let.set()
        self._under_way = 0

    async def fetch(self, key: str) -> str | None:
        self.asked.append(key)
        self._under_way += 1
        self.most = max(self.most, self._under_way)
        try:
            await self.let.wait()
        finally:
            self._under_way -= 1
        if self.away:
            raise OSError("refused")
        return None if key.startswith("no") else key.upper()

    def clock(self) -> float:
        return self.now


Cache = LookupCache[str, str]


def cache_over(source: Source, **limits: float) -> Cache:
    return LookupCache("test", source.fetch, CacheLimits()._replace(**limits), source.clock, CacheMetrics(None))  # type: ignore[arg-type]


@pytest.fixture
def source() -> Source:
    return Source()


@pytest.fixture
async def cache(source: Source) -> AsyncIterator[Cache]:
    cache = cache_over(source)
    yield cache
    await cache.close()


async def test_a_key_never_seen_is_found_as_soon_as_the_source_is_tried_again(source: Source, cache: Cache) -> None:
    source.away = True
    with pytest.raises(ServiceUnavailable):
        await cache.get("a")
    source.away = False
    with pytest.raises(ServiceUnavailable):
        await cache.get("b")  # not asked again so soon
    source.now += RETRY_S
    assert await cache.get("b") == "B"
    assert await cache.get("a") == "A"


async def test_what_was_changed_is_asked_for_again_and_the_rest_is_not(source: Source, cache: Cache) -> None:
    for key in ("a1", "a2", "b1", "no1"):
        await cache.get(key)
    source.asked.clear()
    cache.invalidate_where(lambda _, value: value is not None and value.startswith("A"))
    assert [cache.peek(key) for key in ("a1", "a2", "b1")] == [None, None, "B1"]
    assert all(cache.contains(key) for key in ("a1", "a2", "b1"))
    assert [await cache.get(key) for key in ("a1", "a2", "b1", "no1")] == ["A1", "A2", "B1", None]
    assert source.asked == ["a1", "a2"]
    cache.invalidate_where(lambda _, value: value is None)
    await cache.get("no1")
    assert source.asked == ["a1", "a2", "no1"]


async def test_everything_may_be_changed_at_once_while_all_that_is_known_is_in_use(
    source: Source, cache: Cache
) -> None:
    """Nobody is refused who was known before, and the source is not asked by all at once."""
    keys = [f"k{number}" for number in range(10 * MAX_FETCHES)]
    for key in keys:
        await cache.get(key)
    cache.invalidate_all()
    source.most = 0
    found = await asyncio.gather(*map(cache.get, keys))
    assert found == [key.upper() for key in keys]
    assert source.most <= MAX_FETCHES


async def test_what_was_changed_while_the_source_is_away_is_served_as_it_was_where_that_is_allowed() -> None:
    source = Source()
    lenient, strict = cache_over(source, stale_s=100.0), cache_over(source)
    for cache in (lenient, strict):
        await cache.get("a")
    source.away = True
    for cache in (lenient, strict):
        cache.invalidate_all()
    assert await lenient.get("a") == "A"
    with pytest.raises(ServiceUnavailable):
        await strict.get("a")
    lenient.invalidate("a")
    with pytest.raises(ServiceUnavailable):
        await lenient.get("a")  # this one was ended
    source.away = False
    source.now += RETRY_S
    assert await strict.get("a") == "A"
    await lenient.close()
    await strict.close()


async def test_a_look_up_that_a_change_has_overtaken_is_neither_joined_nor_kept(source: Source, cache: Cache) -> None:
    source.let.clear()
    before = asyncio.ensure_future(cache.get("a"))
    await asyncio.sleep(0.01)
    cache.invalidate_where(lambda _, value: value is None)
    after = asyncio.ensure_future(cache.get("a"))
    await asyncio.sleep(0.01)
    assert source.asked == ["a", "a"]
    source.let.set()
    assert (await before, await after) == ("A", "A")
    assert cache.peek("a") == "A"


async def test_one_of_another_goes_on_and_is_kept(source: Source, cache: Cache) -> None:
    await cache.get("b")
    source.now += 5.0
    source.let.clear()
    refreshed = asyncio.ensure_future(cache.get("b"))
    await asyncio.sleep(0.01)
    cache.invalidate_where(lambda _, value: value is None or value.startswith("A"))
    source.let.set()
    await refreshed
    assert cache.peek("b") == "B"


async def test_changes_do_not_let_more_made_up_keys_in(source: Source, cache: Cache) -> None:
    source.let.clear()
    strangers = []
    for number in range(MAX_UNKNOWN_FETCHES):
        strangers.append(asyncio.ensure_future(cache.get(f"no{number}")))
        await asyncio.sleep(0)
        cache.invalidate_all()
    with pytest.raises(ServiceUnavailable):
        await cache.get("one too many")
    source.let.set()
    assert set(await asyncio.gather(*strangers)) == {None}
    assert await cache.get("room again") == "ROOM AGAIN"
