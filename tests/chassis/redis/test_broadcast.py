"""What one process tells the others over a real Redis, also after that was away."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path

import pytest
from aiohttp import web

from chassis.redis import Broadcast, client, open_redis
from tests.chassis.conftest import until
from tests.redis_server import RedisServer, running


class Listener:
    """A process with its broadcast, and what it has heard."""

    def __init__(self, broadcast: Broadcast, heard: list[str], missed: list[None]) -> None:
        self.broadcast = broadcast
        self.heard = heard
        self.missed = missed


@asynccontextmanager
async def listener(url: str) -> AsyncIterator[Listener]:
    redis = open_redis(url, 10.0)
    heard: list[str] = []
    missed: list[None] = []
    broadcast = Broadcast(redis, "test", heard.append, lambda: missed.append(None))
    app = web.Application()
    app.cleanup_ctx.extend([redis.running, broadcast.running])
    runner = web.AppRunner(app)
    await runner.setup()
    yield Listener(broadcast, heard, missed)
    await runner.cleanup()


async def test_all_others_hear_what_one_tells(redis_server: RedisServer) -> None:
    async with AsyncExitStack() as stack:
        one, two, three = [await stack.enter_async_context(listener(redis_server.url)) for _ in range(3)]
        await until(lambda: all(each.missed for each in (one, two, three)))
        one.broadcast.publish("bearers")
        two.broadcast.publish("key 00ff")
        await until(lambda: (len(one.heard), len(two.heard), len(three.heard)) == (1, 1, 2))
        assert (one.heard, two.heard, sorted(three.heard)) == (["key 00ff"], ["bearers"], ["bearers", "key 00ff"])


async def test_a_redis_that_was_away_is_heard_again(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        async with listener(server.url) as one, listener(server.url) as two:
            await until(lambda: bool(one.missed and two.missed))
            server.stop()
            one.broadcast.publish("lost")
            server.start()
            await until(lambda: len(two.missed) >= 2)
            await until(lambda: one.broadcast._redis.is_up)
            one.broadcast.publish("heard")
            await until(lambda: two.heard == ["heard"])


async def test_one_that_says_nothing_is_tried_out_and_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "SUBSCRIPTION_PING_S", 0.2)
    with running(tmp_path) as server:
        async with listener(server.url) as one:
            await until(lambda: len(one.missed) == 1)
            await asyncio.sleep(1.0)  # several pings
            assert len(one.missed) == 1
            server.pause()
            await asyncio.sleep(0.6)
            server.resume()
            await until(lambda: len(one.missed) >= 2)


async def test_without_redis_telling_is_nothing(tmp_path: Path) -> None:
    with running(tmp_path) as server:
        url = server.url
    async with listener(url) as one:
        one.broadcast.publish("x")
        await asyncio.sleep(0.05)
        assert (one.heard, one.missed) == ([], [])
