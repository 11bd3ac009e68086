"""Places for uploads: each upload may hold the memory of the largest body. A slow client keeps its place only while no
other client waits for one.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

# While an upload waits for a place, the bodies that are being received must arrive at this rate, in bytes per second,
# and may pause for so many seconds.
WANTED_RATE: Final = 2**20
MAX_PAUSE_S: Final = 10.0


class UploadPlaces:
    """`limit` places, taken in the order of arrival."""

    def __init__(self, limit: int) -> None:
        self._free = asyncio.Semaphore(limit)
        self._waiting = 0
        self._bodies: set[_Body] = set()

    @asynccontextmanager
    async def taken(self) -> AsyncIterator[None]:
        """One of the places, for the time of an upload."""
        self._waiting += 1
        try:
            if self._free.locked():
                for body in self._bodies:
                    body.hurry()
            await self._free.acquire()
        finally:
            self._waiting -= 1
        try:
            yield
        finally:
            self._free.release()

    @asynccontextmanager
    async def receiving(self, max_s: float) -> AsyncIterator[Callable[[int], None]]:
        """The time in which the body of an upload with a place is received; to be called with the bytes received so
        far. Raises TimeoutError after `max_s` seconds, and for a slow body whose place another upload waits for.
        """
        async with asyncio.timeout(max_s) as limit:
            body = _Body(limit)
            self._bodies.add(body)
            try:
                if self._waiting:
                    body.hurry()
                yield body.grow
            finally:
                self._bodies.remove(body)


class _Body:
    """A body that is being received. `limit` has begun."""

    def __init__(self, limit: asyncio.Timeout) -> None:
        self._limit = limit
        self._end = limit.when() or 0.0
        self._size = 0
        self._deadline: float | None = None  # by the clock of the loop; None: no upload has waited yet

    def hurry(self) -> None:
        """Another upload waits for the place."""
        if self._deadline is None:
            self._set_deadline(asyncio.get_running_loop().time() + MAX_PAUSE_S)

    def grow(self, size: int) -> None:
        """So many bytes are received."""
        more, self._size = size - self._size, size
        if self._deadline is not None:
            latest = asyncio.get_running_loop().time() + MAX_PAUSE_S
            self._set_deadline(min(latest, self._deadline + more / WANTED_RATE))

    def _set_deadline(self, deadline: float) -> None:
        self._deadline = deadline
        if not self._limit.expired():
            self._limit.reschedule(min(self._end, deadline))
