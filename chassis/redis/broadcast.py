"""Short messages from one process to all others, over Redis. One that is not heard is lost: what they say must hold
anyway a little later.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from typing import Final

import structlog
from aiohttp import web

from chassis.redis.scripts import RedisAway, RedisFailure, Script
from chassis.redis.shared import Redis

AGAIN_S: Final = 0.5  # from the end of a subscription to the next attempt
MAX_UNDER_WAY: Final = 64  # messages being sent; one more is not
MAX_LENGTH: Final = 200  # characters; a longer message is not ours

_PUBLISH: Final = Script("return redis.call('PUBLISH', KEYS[1], ARGV[1])")

log = structlog.get_logger(__name__)


class Broadcast:
    """One channel. `heard` is called with what other processes say; `missed` when something may not have been heard."""

    def __init__(self, redis: Redis, channel: str, heard: Callable[[str], None], missed: Callable[[], None]) -> None:
        self._redis = redis
        self._channel = channel
        self._heard = heard
        self._missed = missed
        self._self = secrets.token_hex(8)
        self._listening: asyncio.Task[None] | None = None
        self._sending: set[asyncio.Task[None]] = set()

    def tell(self, message: str) -> None:
        """Send it aside: nobody waits for it, and nobody learns whether it got through."""
        if self._redis.up and len(self._sending) < MAX_UNDER_WAY:
            task = asyncio.get_running_loop().create_task(self._send(message))
            self._sending.add(task)
            task.add_done_callback(self._sending.discard)

    async def running(self, _app: web.Application) -> AsyncIterator[None]:
        """Listen, from when Redis is there on; at the end let what is being said be said."""
        self._listening = asyncio.get_running_loop().create_task(self._listen())
        yield
        self._listening.cancel()
        await asyncio.gather(self._listening, *self._sending, return_exceptions=True)

    async def _send(self, message: str) -> None:
        try:
            await self._redis.run(_PUBLISH, (self._channel,), (f"{self._self} {message}",))
        except RedisAway:
            pass  # said where it was found out

    async def _listen(self) -> None:
        while True:
            try:
                async for message in self._redis.messages(self._channel):
                    self._take(message)
            except RedisFailure as failure:
                log.debug("subscription ended", channel=self._channel, reason=str(failure))
            await asyncio.sleep(AGAIN_S)

    def _take(self, message: str | None) -> None:
        if message is None:  # subscribed just now
            self._missed()
            return
        sender, _, said = message[:MAX_LENGTH].partition(" ")
        if sender != self._self:
            self._heard(said)
