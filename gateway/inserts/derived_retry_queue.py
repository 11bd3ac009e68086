"""Blocks of batches that are acknowledged already: tried until ClickHouse takes them, within a budget of memory."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

import structlog

from chassis.clickhouse import StoreBusy, StoreRejected, StoreUnavailable
from gateway.inserts.clickhouse_health import Availability
from gateway.inserts.insert_block import InsertBlock, Inserter, merge_blocks
from gateway.outcomes import Metrics

RETRY_S: Final = 0.2
FULL: Final = "the queue of blocks that wait for ClickHouse is full"


class BlockRetryQueue:
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
        self._queue: deque[InsertBlock] = deque()
        self._filled = asyncio.Event()
        self._empty = asyncio.Event()
        self._empty.set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to work on the queue."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def insert(self, blocks: Sequence[InsertBlock]) -> None:
        """Insert blocks, each once, one after the other. What cannot be inserted now is kept for later."""
        waiting = deque(blocks)
        try:
            while waiting and (parts := await self._insert_first(waiting)) is not None:
                waiting.popleft()
                self._requeue(parts)
        finally:  # not now, or the gateway stops: their requests are answered, so they are not to be forgotten
            for sealed in waiting:
                self.add(sealed)

    def add(self, insert_block: InsertBlock) -> None:
        """Keep a block for another try; what of it is over the budget is lost."""
        if self._fits(insert_block):
            self._queue.append(insert_block)
            self._charge(insert_block.nbytes)
            self._empty.clear()
            self._filled.set()
        elif insert_block.parts:
            self._requeue(insert_block.parts)
        else:
            self.drop(insert_block, FULL)

    def _requeue(self, parts: Sequence[InsertBlock]) -> None:
        over: list[InsertBlock] = []
        for part in parts:
            if self._fits(part):
                self.add(part)
            else:
                over.append(part)
        if over:
            self.drop(merge_blocks(over), FULL)  # one line in the log

    def _fits(self, sealed: InsertBlock) -> bool:
        return self._bytes + sealed.nbytes <= self._max_bytes

    async def _insert_first(self, queue: deque[InsertBlock]) -> Sequence[InsertBlock] | None:
        """Insert the first block of a queue once. None: not now. Else it is stored or lost, but for the parts that are
        returned: what is refused for good is lost, not what was merely sent together with it.

        From when it is sent until its answer, and for ever if the answer is lost (or nobody waits for it any more),
        nobody knows whether a joined block is stored. Its parts have other tokens: inserted alone they would be stored
        twice if it was. So it forgets them, and is then stored or lost as a whole.
        """
        sealed = queue[0]
        queue[0] = sealed.without_parts()
        try:
            await self._inserter.insert(sealed)
        except StoreBusy:
            queue[0] = sealed  # it was never sent
            return None
        except StoreUnavailable as error:
            self._availability.failed(error, sealed.block.table)
            return None
        except StoreRejected as error:
            if sealed.parts:
                return sealed.parts
            self.drop(sealed, error.message)
        except Exception as error:  # noqa: BLE001 (logged below; the queue goes on)
            # A defect of ours: one block is less than all that would wait behind it. It may be stored.
            self._log.exception("insert failed", table=sealed.block.table)
            self.drop(sealed, type(error).__name__)
        return ()

    def drop(self, insert_block: InsertBlock, reason: str) -> None:
        """Give up rows whose request was answered with success."""
        block = insert_block.block
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
            self.drop(self._queue.popleft(), "the gateway stopped before ClickHouse had taken them")

    async def _run(self) -> None:
        while True:
            await self._filled.wait()
            while not await self._availability.wait_until_up(60.0):
                pass
            # The block leaves the queue only when it is dealt with: a cancelled task must not take it along.
            parts = await self._insert_first(self._queue)
            if parts is None:
                await asyncio.sleep(RETRY_S)
            else:
                self._charge(-self._queue.popleft().nbytes)
                self._requeue(parts)
            if not self._queue:
                self._filled.clear()
                self._empty.set()

    def _charge(self, nbytes: int) -> None:
        self._bytes += nbytes
        self._metrics.background_bytes.set(self._bytes)
