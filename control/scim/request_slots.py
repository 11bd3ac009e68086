"""Bounds the requests of a directory that are worked on at once: writes take turns, also those of other organizations,
and a directory that sends hundreds at once would have all turns.
"""

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import Final

from chassis.errors import RateLimited

MAX_RUNNING: Final = 3  # requests of one of them in this process, each with one connection to the database
MAX_WAITING: Final = 64
RETRY_AFTER_S: Final = 1


@dataclass(slots=True)
class _Queue:
    running: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(MAX_RUNNING))
    requests: int = 0


class RequestSlots:
    """Slots by whose requests they are; these wait for one in the order in which they have come."""

    def __init__(self) -> None:
        self._queues: dict[Hashable, _Queue] = {}

    @asynccontextmanager
    async def taken(self, whose: Hashable) -> AsyncIterator[None]:
        """For the time of a request. Raises RateLimited if too many wait."""
        queue = self._queues.setdefault(whose, _Queue())
        if queue.requests >= MAX_RUNNING + MAX_WAITING:
            raise RateLimited("Too many requests of this directory wait. Try again.", RETRY_AFTER_S)
        queue.requests += 1
        try:
            async with queue.running:
                yield
        finally:
            queue.requests -= 1
            if not queue.requests:
                del self._queues[whose]
