"""Short messages from one process to all others, over Redis. One that is not heard is lost: what they say must hold
anyway a little later.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from typing import Final

import structlog
from aiohttp import web

from chassis.redis.breaker import Redis
from chassis.redis.scripts import RedisFailure, RedisUnavailable, Script

RESUBSCRIBE_S: Final = 0.5  # from the end of a subscription to the next attempt
MAX_IN_FLIGHT: Final = 64  # messages being sent; one more is not
MAX_LENGTH: Final = 200  # characters; a longer message is not ours

_PUBLISH: Final = Script("return redis.call('PUBLISH', KEYS[1], ARGV[1])")

log = structlog.get_logger(__name__)


class Broadcast:
    """One channel. `heard` is called with what other processes say; `missed` when something may not have been heard."""

    def __init__(
        self, redis: Redis, channel: str, on_message: Callable[[str], None], on_gap: Callable[[], None]
    ) -> None:
        self._redis = redis
        self._channel = channel
        self._on_message = on_message
        self._on_gap = on_gap
        self._sender_id = secrets.token_hex(8)
        self._listener: asyncio.Task[None] | None = None
        self._in_flight: set[asyncio.Task[None]] = set()

    def publish(self, message: str) -> None:
        """Send it aside: nobody waits for it, and nobody learns whether it got through."""
        if self._redis.is_up and len(self._in_flight) < MAX_IN_FLIGHT:
            task = asyncio.get_running_loop().create_task(self._send(message))
            self._in_flight.add(task)
            task.add_done_callback(self._in_flight.discard)

    async def running(self, _app: web.Application) -> AsyncIterator[None]:
        """Listen, from when Redis is there on; at the end let what is being said be said."""
        self._listener = asyncio.get_running_loop().create_task(self._listen())
        yield
        self._listener.cancel()
        await asyncio.gather(self._listener, *self._in_flight, return_exceptions=True)

    async def _send(self, message: str) -> None:
        try:
            await self._redis.run(_PUBLISH, (self._channel,), (f"{self._sender_id} {message}",))
        except RedisUnavailable:
            pass  # said where it was found out

    async def _listen(self) -> None:
        while True:
            try:
                async for message in self._redis.messages(self._channel):
                    self._dispatch(message)
            except RedisFailure as failure:
                log.debug("subscription ended", channel=self._channel, reason=str(failure))
            await asyncio.sleep(RESUBSCRIBE_S)

    def _dispatch(self, message: str | None) -> None:
        if message is None:  # subscribed just now
            self._on_gap()
            return
        sender, _, said = message[:MAX_LENGTH].partition(" ")
        if sender != self._sender_id:
            self._on_message(said)
