"""Blocks of batches that are acknowledged already: tried until ClickHouse takes them, within a budget of memory."""

import asyncio
from collections import deque
from typing import Final

import structlog

from chassis.clickhouse import StoreBusy, StoreRejected, StoreUnavailable
from gateway.batches.availability import Availability
from gateway.batches.insert import Inserter, Sealed
from gateway.outcomes import Metrics

RETRY_S: Final = 0.2


class Background:
    """A bounded queue of blocks and the task that inserts them. What is given up is logged as an error, with its
    rows.
    """

    def __init__(
        self,
        inserter: Inserter,
        availability: Availability,
        metrics: Metrics,
        log: structlog.stdlib.BoundLogger,
        max_bytes: int,
    ) -> None:
        self._inserter = inserter
        self._availability = availability
        self._metrics = metrics
        self._log = log
        self._max_bytes = max_bytes
        self._bytes = 0
        self._queue: deque[Sealed] = deque()
        self._filled = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to work on the queue."""
        self._task = asyncio.get_running_loop().create_task(self._work())

    async def insert(self, sealed: Sealed) -> bool:
        """Insert a block once. False: not now; True: it is dealt with, stored or lost."""
        try:
            await self._inserter.insert(sealed)
        except StoreBusy:
            return False
        except StoreUnavailable as error:
            self._availability.failed(error, sealed.block.table)
            return False
        except StoreRejected as error:
            self._part(sealed, error.message)
        except Exception as error:  # noqa: BLE001 (logged below; the queue goes on)
            # A defect of ours: one block is less than all that would wait behind it.
            self._log.exception("insert failed", table=sealed.block.table)
            self._part(sealed, type(error).__name__)
        return True

    def add(self, sealed: Sealed) -> None:
        """Keep a block for another try; over the budget it is lost."""
        if self._bytes + sealed.nbytes > self._max_bytes:
            self.lose(sealed, "the queue of blocks that wait for ClickHouse is full")
            return
        self._queue.append(sealed)
        self._charge(sealed.nbytes)
        self._empty.clear()
        self._filled.set()

    def _part(self, sealed: Sealed, reason: str) -> None:
        """What is refused for good is lost, but not what was merely sent together with it."""
        if not sealed.parts:
            self.lose(sealed, reason)
        for part in sealed.parts:
            self.add(part)

    def lose(self, sealed: Sealed, reason: str) -> None:
        """Give up rows whose request was answered with success."""
        block = sealed.block
        self._metrics.lost_rows.labels(block.table).inc(block.rows)
        self._log.error("rows lost", table=block.table, day=block.day, rows=block.rows, reason=reason)

    async def close(self, timeout_s: float) -> None:
        """Try what waits once more, at most `timeout_s`; give up the rest."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._empty.wait()
        except TimeoutError:
            pass
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        while self._queue:
            self.lose(self._queue.popleft(), "the gateway stopped while ClickHouse was away")

    async def _work(self) -> None:
        while True:
            await self._filled.wait()
            while not await self._availability.wait(60.0):
                pass
            # The block leaves the queue only when it is dealt with: a cancelled task must not take it along.
            if await self.insert(self._queue[0]):
                self._charge(-self._queue.popleft().nbytes)
            else:
                await asyncio.sleep(RETRY_S)
            if not self._queue:
                self._filled.clear()
                self._empty.set()

    def _charge(self, nbytes: int) -> None:
        self._bytes += nbytes
        self._metrics.background_bytes.set(self._bytes)
