"""Requests become batches: one is sent when it is full, or when it has waited, and an insert slot is free.

While all slots are busy what waits goes on growing, so that a slow store gets larger blocks instead of more.
"""

import asyncio
from collections.abc import Awaitable, Callable
from contextvars import Context
from typing import Final, Generic, NamedTuple

from gateway.inserts.fair_queue import FairQueue, R

MIN_LINGER_FRACTION: Final = 0.05  # of the linger


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
        self._queue = FairQueue[R]()
        self._linger_timer: asyncio.TimerHandle | None = None
        self._due = False  # what waits has waited long enough
        self._dispatched_at = float("-inf")  # when the last batch was taken, by the loop's clock
        self._last_duration_s = 0.0  # the last batch, until it was written
        self._writing: set[asyncio.Task[None]] = set()
        self._closed = False

    @property
    def writing(self) -> int:
        """Batches being inserted."""
        return len(self._writing)

    def expected_wait_s(self) -> float:
        """How long a request that comes now is likely to wait for its answer, by what the last batch took. Nothing, as
        long as nobody else is here: the next one may go better.
        """
        if not self._writing and not self._queue:
            return 0.0
        turn_s = self._limits.linger_s
        if len(self._writing) >= self._limits.slots:
            turn_s = max(0.0, self._dispatched_at + self._last_duration_s - asyncio.get_running_loop().time())
        return turn_s + self._last_duration_s

    def add(self, request: R) -> None:
        """Let a request wait for its batch."""
        self._queue.add(request)
        self._dispatch()

    def discard(self, request: R) -> None:
        """Take out a request that is answered: its memory is no longer charged to anyone, and who was answered 503
        sends it again.
        """
        self._queue.discard(request)
        if not self._queue:
            self._due = False  # the next request begins a new batch

    async def drain(self) -> None:
        """Write what waits."""
        while self._queue or self._writing:
            self._flush_due()
            if self._writing:  # not when all that waited had given up
                await asyncio.wait(self._writing)

    async def close(self) -> None:
        """Leave alone what is being written, and what waits."""
        self._closed = True
        self._cancel_linger()
        for task in self._writing:
            task.cancel()
        await asyncio.gather(*self._writing, return_exceptions=True)

    def _is_full(self) -> bool:
        return self._queue.items >= self._limits.items or self._queue.nbytes >= self._limits.nbytes

    def _wait_s(self) -> float:
        """How long a new batch waits: one linger after the last one was taken, so that blocks stay few; but after a
        pause only long enough for what was sent together.
        """
        linger = self._limits.linger_s
        return max(linger * MIN_LINGER_FRACTION, linger - (asyncio.get_running_loop().time() - self._dispatched_at))

    def _flush_due(self) -> None:
        self._cancel_linger()
        self._due = True
        self._dispatch()

    def _dispatch(self) -> None:
        """Start writing while there is a slot and something to write; see to it that what is left is written."""
        if self._closed:
            return
        loop = asyncio.get_running_loop()
        while len(self._writing) < self._limits.slots and self._queue and (self._due or self._is_full()):
            batch = self._queue.take(self._limits.items, self._limits.nbytes, self._limits.days)
            self._dispatched_at = loop.time()
            waiting = [request for request in batch if not request.is_abandoned]
            if waiting:
                task = loop.create_task(
                    self._write_timed(waiting), context=Context()
                )  # it is not about the request that happens to be here
                self._writing.add(task)
                task.add_done_callback(self._on_written)
        if not self._queue:
            self._due = False  # the next request begins a new batch
            self._cancel_linger()
        elif not self._due and self._linger_timer is None:
            self._linger_timer = loop.call_later(self._wait_s(), self._flush_due)

    def _cancel_linger(self) -> None:
        if self._linger_timer is not None:
            self._linger_timer.cancel()
            self._linger_timer = None

    async def _write_timed(self, batch: list[R]) -> None:
        loop = asyncio.get_running_loop()
        began = loop.time()
        await self._write(batch)
        self._last_duration_s = loop.time() - began

    def _on_written(self, task: "asyncio.Task[None]") -> None:
        self._writing.discard(task)
        self._dispatch()
