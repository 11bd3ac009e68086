"""Short messages from one process to all others, over Redis. Best effort: receivers converge a little later without
them.
"""

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from typing import Final

import structlog
from aiohttp import web

from chassis.redis.breaker import Redis
from chassis.redis.client import RedisFailure, RedisUnavailable, Script

RESUBSCRIBE_S: Final = 0.5  # from the end of a subscription to the next attempt
MAX_IN_FLIGHT: Final = 64  # messages being sent; beyond that a message is dropped
MAX_LENGTH: Final = 200  # characters; longer messages, which are not ours, are cut

_PUBLISH: Final = Script("return redis.call('PUBLISH', KEYS[1], ARGV[1])")

log = structlog.get_logger(__name__)


class Broadcast:
    """One channel. Calls `on_message` with messages of other processes; `on_gap` when messages may have been missed."""

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
        """Send in the background: the caller does not wait, and is not notified of the outcome."""
        if self._redis.is_up and len(self._in_flight) < MAX_IN_FLIGHT:
            task = asyncio.get_running_loop().create_task(self._send(message))
            self._in_flight.add(task)
            task.add_done_callback(self._in_flight.discard)

    async def running(self, _app: web.Application) -> AsyncIterator[None]:
        """Subscribe, as soon as Redis is available; at shutdown wait for messages in flight."""
        self._listener = asyncio.get_running_loop().create_task(self._listen())
        yield
        self._listener.cancel()
        await asyncio.gather(self._listener, *self._in_flight, return_exceptions=True)

    async def _send(self, message: str) -> None:
        try:
            await self._redis.run(_PUBLISH, (self._channel,), (f"{self._sender_id} {message}",))
        except RedisUnavailable:
            pass  # logged by the breaker

    async def _listen(self) -> None:
        while True:
            try:
                async for message in self._redis.messages(self._channel):
                    self._dispatch(message)
            except RedisFailure as failure:
                log.debug("subscription ended", channel=self._channel, reason=str(failure))
            await asyncio.sleep(RESUBSCRIBE_S)

    def _dispatch(self, message: str | None) -> None:
        if message is None:  # the subscription has just become active
            self._on_gap()
            return
        sender, _, text = message[:MAX_LENGTH].partition(" ")
        if sender != self._sender_id:
            self._on_message(text)
