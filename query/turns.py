"""Whose read is next: the few handles of the engine go round among the principals that wait for one."""

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from chassis.clickhouse import StoreBusy


class Turns:
    """`places` reads run at a time, `per_principal` of them for one principal (0: no limit of its own), and
    `max_waiting` wait.

    Principals take turns, whatever the number of reads that each has waiting; those of one go in the order in which
    they came.
    """

    def __init__(self, places: int, per_principal: int, max_waiting: int) -> None:
        self._free = places
        self._per_principal = per_principal or places
        self._held = Counter[str]()
        self._max_waiting = max_waiting
        # The principal that is next first. None of these reads could start: whenever one can, it is taken out.
        self._waiting: dict[str, deque[asyncio.Future[None]]] = {}

    @asynccontextmanager
    async def turn(self, principal: str) -> AsyncIterator[None]:
        """A place while inside. StoreBusy when too many reads wait already."""
        if self._may_start(principal):
            self._start(principal)
        else:
            await self._wait(principal)
        try:
            yield
        finally:
            self._release(principal)

    def _may_start(self, principal: str) -> bool:
        return self._free > 0 and self._held[principal] < self._per_principal

    def _start(self, principal: str) -> None:
        self._free -= 1
        self._held[principal] += 1

    def _release(self, principal: str) -> None:
        self._free += 1
        self._held[principal] -= 1
        if not self._held[principal]:
            del self._held[principal]
        self._to_the_end(principal)
        self._call_next()

    def _call_next(self) -> None:
        """Give the place to the first principal that may have it."""
        for principal, reads in self._waiting.items():
            # A read that is being cancelled leaves by itself.
            read = next((each for each in reads if not each.done()), None)
            if read is not None and self._may_start(principal):
                self._forget(principal, read)
                self._to_the_end(principal)
                self._start(principal)
                read.set_result(None)
                return

    def _to_the_end(self, principal: str) -> None:
        """All others that wait are before who has just had a place."""
        if principal in self._waiting:
            self._waiting[principal] = self._waiting.pop(principal)

    async def _wait(self, principal: str) -> None:
        waiting = sum(map(len, self._waiting.values()))
        if waiting >= self._max_waiting:
            raise StoreBusy(f"{waiting} reads already wait for ClickHouse.")
        read: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.setdefault(principal, deque()).append(read)
        try:
            await read
        except asyncio.CancelledError:
            if read.cancelled():
                self._forget(principal, read)
            else:  # its turn came in the moment of the cancellation
                self._release(principal)
            raise

    def _forget(self, principal: str, read: asyncio.Future[None]) -> None:
        self._waiting[principal].remove(read)
        if not self._waiting[principal]:
            del self._waiting[principal]
