"""Inserts blocks of acknowledged batches, and retries them until ClickHouse has them, within a memory budget."""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import Final

import structlog

from chassis.clickhouse import StoreBusy, StoreRejected, StoreUnavailable
from gateway.inserts.insert_block import InsertBlock, Inserter, merge_blocks
from gateway.inserts.insert_breaker import InsertBreaker
from gateway.metrics import Metrics

RETRY_S: Final = 0.2
FULL: Final = "the retry queue is full"


class BlockRetryQueue:
    """A bounded queue of blocks and the task that inserts them. A block that is given up is logged as an error, with
    its number of rows.
    """

    def __init__(
        self,
        inserter: Inserter,
        breaker: InsertBreaker,
        metrics: Metrics,
        log: structlog.stdlib.BoundLogger,
        max_bytes: int,
    ) -> None:
        self._inserter = inserter
        self._breaker = breaker
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
        """Start the task that inserts queued blocks."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    async def insert(self, blocks: Sequence[InsertBlock]) -> None:
        """Try to insert each block once, in order. Blocks that cannot be inserted now are queued."""
        waiting = deque(blocks)
        try:
            while waiting and (parts := await self._insert_first(waiting)) is not None:
                waiting.popleft()
                self._requeue(parts)
        finally:  # unavailable, or cancelled: the requests are answered, so the blocks are kept
            for insert_block in waiting:
                self.add(insert_block)

    def add(self, insert_block: InsertBlock) -> None:
        """Queue a block for a retry; drops the part of it that exceeds the budget."""
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
        over_budget: list[InsertBlock] = []
        for part in parts:
            if self._fits(part):
                self.add(part)
            else:
                over_budget.append(part)
        if over_budget:
            self.drop(merge_blocks(over_budget), FULL)  # one log line

    def _fits(self, insert_block: InsertBlock) -> bool:
        return self._bytes + insert_block.nbytes <= self._max_bytes

    async def _insert_first(self, queue: deque[InsertBlock]) -> Sequence[InsertBlock] | None:
        """Insert the first block of a queue once. Returns None if ClickHouse cannot take it now. Otherwise the block is
        stored or dropped, except the parts that are returned to be inserted alone: of a merged block that is
        permanently refused, only the offending parts are lost.

        While the insert is in flight, and for ever if its response is lost or the task is cancelled, it is unknown
        whether a merged block is stored. Its parts have other tokens, so inserting them alone would duplicate rows.
        The block therefore drops its parts before it is sent, and is then stored or lost as a whole.
        """
        insert_block = queue[0]
        queue[0] = insert_block.without_parts()
        try:
            await self._inserter.insert(insert_block)
        except StoreBusy:
            queue[0] = insert_block  # never sent
            return None
        except StoreUnavailable as error:
            self._breaker.failed(error, insert_block.block.table)
            return None
        except StoreRejected as error:
            if insert_block.parts:
                return insert_block.parts
            self.drop(insert_block, error.message)
        except Exception as error:  # noqa: BLE001 (logged below; the queue continues)
            # A bug: dropping one block, which may be stored, is better than blocking the queue behind it.
            self._log.exception("insert failed", table=insert_block.block.table)
            self.drop(insert_block, type(error).__name__)
        return ()

    def drop(self, insert_block: InsertBlock, reason: str) -> None:
        """Give up a block whose requests were answered with success: counts and logs its rows."""
        block = insert_block.block
        self._metrics.lost_rows.labels(block.table).inc(block.rows)
        self._log.error("rows lost", table=block.table, day=block.day, rows=block.rows, reason=reason)

    async def wait_until_empty(self) -> None:
        """Wait until every queued block is stored or given up."""
        await self._empty.wait()

    async def close(self, timeout_s: float) -> None:
        """Wait until the queue is empty, at most `timeout_s`; drop the rest."""
        try:
            async with asyncio.timeout(timeout_s):
                await self._empty.wait()
        except TimeoutError:
            pass
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        while self._queue:
            self.drop(self._queue.popleft(), "the gateway stopped before they were stored")

    async def _run(self) -> None:
        while True:
            await self._filled.wait()
            while not await self._breaker.wait_until_up(60.0):
                pass
            # The block stays in the queue until it is done, so that cancelling the task does not lose it.
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
