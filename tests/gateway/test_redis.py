"""Exports while Redis is in trouble (fault 20), and beside a noisy key (fault 23, as far as limits go)."""

import asyncio
from collections import Counter
from collections.abc import AsyncIterator

import pytest

from chassis.redis import Redis, open_redis
from tests.gateway.conftest import Gateway, RecordingStore, StartGateway, eventually
from tests.gateway.otlp import span, traces
from tests.redis_server import RedisServer, Slow, slow

IN_TIME_S = 0.25
LATE_S = 0.5


@pytest.fixture
async def way(own_redis: RedisServer) -> AsyncIterator[Slow]:
    async with slow(own_redis) as way:
        yield way


@pytest.fixture
async def redis(own_redis: RedisServer, way: Slow) -> AsyncIterator[Redis]:
    redis = open_redis(own_redis.url_at(way.port), IN_TIME_S)
    await redis.start()
    yield redis
    await redis.close()


async def export(gateway: Gateway, count: int, project: int = 0) -> Counter[int]:
    """So many at once; answers by status."""
    answers = await asyncio.gather(*(gateway.post("/v1/traces", traces(span()), project=project) for _ in range(count)))
    assert all("x-ratelimit-remaining" in answer.headers for answer in answers)
    return Counter(answer.status for answer in answers)


async def test_exports_go_on_whatever_becomes_of_redis(
    start_gateway: StartGateway, redis: Redis, way: Slow, own_redis: RedisServer
) -> None:
    gateway = await start_gateway(RecordingStore(), redis=redis, quota_sync_s=0.05)
    assert await export(gateway, 20) == {200: 20}
    own_redis.stop()
    assert await export(gateway, 20) == {200: 20}
    assert gateway.metric("requests_total", outcome="refused") == 0
    await eventually(lambda: not redis.is_up)
    own_redis.start()
    await eventually(lambda: redis.is_up)
    assert await export(gateway, 20) == {200: 20}
    way.delay_s = LATE_S
    async with asyncio.timeout(20):
        while redis.is_up:
            assert await export(gateway, 5) == {200: 5}
    assert await export(gateway, 20) == {200: 20}
    way.delay_s = 0.0
    await eventually(lambda: redis.is_up)
    own_redis.flush()
    assert await export(gateway, 20) == {200: 20}
    accepted = gateway.metric("items_total", outcome="accepted")
    assert gateway.metric("requests_total", outcome="refused") == 0
    assert accepted >= 100


async def test_a_noisy_key_is_refused_and_nobody_else(start_gateway: StartGateway, redis: Redis) -> None:
    gateway = await start_gateway(RecordingStore(), redis=redis, otlp_rate=1, otlp_burst=5)
    noisy, quiet = await asyncio.gather(export(gateway, 250), export(gateway, 5, project=1))
    assert quiet == {200: 5}
    assert set(noisy) == {200, 429}
    assert noisy[429] >= 200
    assert gateway.metric("requests_total", outcome="refused", reason="rate_limited") == noisy[429]
