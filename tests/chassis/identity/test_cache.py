"""The cache of look-ups over a source that goes away and comes back."""

import pytest

from chassis.errors import ServiceUnavailable
from chassis.identity.cache import RETRY_S, CacheMetrics, Limits, LookupCache


class Source:
    """Knows every key by its upper case, or is away."""

    def __init__(self) -> None:
        self.away = False
        self.now = 1000.0

    async def fetch(self, key: str) -> str | None:
        if self.away:
            raise OSError("refused")
        return key.upper()

    def clock(self) -> float:
        return self.now


async def test_a_key_never_seen_is_found_as_soon_as_the_source_is_tried_again() -> None:
    source = Source()
    cache: LookupCache[str, str] = LookupCache("test", source.fetch, Limits(), source.clock, CacheMetrics(None))
    source.away = True
    with pytest.raises(ServiceUnavailable):
        await cache.get("a")
    source.away = False
    with pytest.raises(ServiceUnavailable):
        await cache.get("b")  # not asked again so soon
    source.now += RETRY_S
    assert await cache.get("b") == "B"
    assert await cache.get("a") == "A"
    await cache.close()
