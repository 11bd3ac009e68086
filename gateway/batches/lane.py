"""Requests become batches: one is sent when it is full, or when it has waited, and an insert slot is free.

While all slots are busy what waits goes on growing, so that a slow store gets larger blocks instead of more.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Final, Generic, NamedTuple

from gateway.batches.waiting import R, Waiting

SHORTEST: Final = 0.05  # of the linger


class LaneLimits(NamedTuple):
    """When a batch is full, how long it waits for more, and how many are inserted at once."""

    items: int
    nbytes: int
    days: int
    linger_s: float
    slots: int


class Lane(Generic[R]):
    """Collects requests, and writes them in batches with insert slots of its own. `write` raises nothing."""

    def __init__(self, write: Callable[[list[R]], Awaitable[None]], limits: LaneLimits) -> None:
        self._write = write
        self._limits = limits
        self._waiting = Waiting[R]()
        self._linger: asyncio.TimerHandle | None = None
        self._ripe = False  # what waits has waited long enough
        self._closed_at = float("-inf")  # when the last batch was taken, by the loop's clock
        self._took_s = 0.0  # the last batch, until it was written
        self._writing: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def writing(self) -> int:
        """Batches being inserted."""
        return len(self._writing)

    def expected_s(self) -> float:
        """How long a request that comes now is likely to wait for its answer, by what the last batch took. Nothing, as
        long as nobody else is here: the next one may go better.
        """
        if not self._writing and not self._waiting:
            return 0.0
        turn_s = self._limits.linger_s
        if len(self._writing) >= self._limits.slots:
            turn_s = max(0.0, self._closed_at + self._took_s - asyncio.get_running_loop().time())
        return turn_s + self._took_s

    def add(self, request: R) -> None:
        """Let a request wait for its batch."""
        self._waiting.add(request)
        self._pump()

    def forget(self, request: R) -> None:
        """Take out a request that is answered: its memory is no longer charged to anyone, and who was answered 503
        sends it again.
        """
        self._waiting.discard(request)
        if not self._waiting:
            self._ripe = False  # the next request begins a new batch

    async def drain(self) -> None:
        """Write what waits."""
        while self._waiting or self._writing:
            self._ripen()
            if self._writing:  # not when all that waited had given up
                await asyncio.wait(self._writing)

    async def close(self) -> None:
        """Leave alone what is being written, and what waits."""
        self._closed = True
        self._stop_linger()
        for task in self._writing:
            task.cancel()
        await asyncio.gather(*self._writing, return_exceptions=True)

    def _is_full(self) -> bool:
        return self._waiting.items >= self._limits.items or self._waiting.nbytes >= self._limits.nbytes

    def _wait_s(self) -> float:
        """How long a new batch waits: one linger after the last one was taken, so that blocks stay few; but after a
        pause only long enough for what was sent together.
        """
        linger = self._limits.linger_s
        return max(linger * SHORTEST, linger - (asyncio.get_running_loop().time() - self._closed_at))

    def _ripen(self) -> None:
        self._stop_linger()
        self._ripe = True
        self._pump()

    def _pump(self) -> None:
        """Start writing while there is a slot and something to write; see to it that what is left is written."""
        if self._closed:
            return
        loop = asyncio.get_running_loop()
        while len(self._writing) < self._limits.slots and self._waiting and (self._ripe or self._is_full()):
            batch = self._waiting.take(self._limits.items, self._limits.nbytes, self._limits.days)
            self._closed_at = loop.time()
            waiting = [request for request in batch if not request.abandoned]
            if waiting:
                task = loop.create_task(
                    self._timed(waiting), context=Context()
                )  # it is not about the request that happens to be here
                self._writing.add(task)
                task.add_done_callback(self._written)
        if not self._waiting:
            self._ripe = False  # the next request begins a new batch
            self._stop_linger()
        elif not self._ripe and self._linger is None:
            self._linger = loop.call_later(self._wait_s(), self._ripen)

    def _stop_linger(self) -> None:
        if self._linger is not None:
            self._linger.cancel()
            self._linger = None

    async def _timed(self, batch: list[R]) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self._write(batch)
        self._took_s = loop.time() - began

    def _written(self, task: "asyncio.Task[None]") -> None:
        self._writing.discard(task)
        self._pump()
