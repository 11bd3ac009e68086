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
    to those beyond `max_waiting`, who may come again after `retry_after_s`.
    """

    def __init__(
        self,
        refusal: str,
        max_running: int = MAX_RUNNING,
        *,
        max_waiting: int = MAX_WAITING,
        retry_after_s: int = RETRY_AFTER_S,
    ) -> None:
        self._refusal = (refusal, retry_after_s)
        self._max_running = max_running
        self._max_requests = max_running + max_waiting
        self._queues: dict[Hashable, _Queue] = {}

    @asynccontextmanager
    async def taken(self, whose: Hashable) -> AsyncIterator[None]:
        """For the time of a request. Raises RateLimited if too many wait."""
        queue = self._queues.setdefault(whose, _Queue(asyncio.Semaphore(self._max_running)))
        if queue.requests >= self._max_requests:
            raise RateLimited(*self._refusal)
        queue.requests += 1
        try:
            async with queue.running:
                yield
        finally:
            queue.requests -= 1
            if not queue.requests:
                del self._queues[whose]
