"""Bounds the requests of one sender that are worked on at once: connections of the database and its writes are shared
by all organizations, and one that sends hundreds of expensive requests at once would have all of them.
"""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Final

from chassis.errors import RateLimited

MAX_RUNNING: Final = 3  # requests of one sender in this process, each with one connection to the database
MAX_WAITING: Final = 64
RETRY_AFTER_S: Final = 1


@dataclass(slots=True)
class _Queue:
    running: asyncio.Semaphore
    requests: int = 0


class RequestSlots:
    """Slots by whose requests they are; these wait for one in the order in which they have come. `refusal`: the message
    to those beyond MAX_WAITING.
    """

    def __init__(self, refusal: str, max_running: int = MAX_RUNNING) -> None:
        self._refusal = refusal
        self._max_running = max_running
        self._queues: dict[Hashable, _Queue] = {}

    @asynccontextmanager
    async def taken(self, whose: Hashable) -> AsyncIterator[None]:
        """For the time of a request. Raises RateLimited if too many wait."""
        queue = self._queues.setdefault(whose, _Queue(asyncio.Semaphore(self._max_running)))
        if queue.requests >= self._max_running + MAX_WAITING:
            raise RateLimited(self._refusal, RETRY_AFTER_S)
        queue.requests += 1
        try:
            async with queue.running:
                yield
        finally:
            queue.requests -= 1
            if not queue.requests:
                del self._queues[whose]
