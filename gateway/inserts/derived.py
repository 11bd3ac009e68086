"""Inserts blocks that no journal can restore and no request waits for: derived rows of batches that were acknowledged
without a journal, and outcomes of requests that are in no batch.

    OutcomeFlusher     adds the sums of refused requests periodically
    DerivedCoalescer   merges attribute keys, error occurrences and outcomes of several batches into one insert.
                       Inserted batch by batch they would be half of all inserts, each with an fsync and a part to
                       merge. So they wait for the derived rows of the next batches, for a short time and in bounded
                       memory; a block after a pause is inserted at once
    BlockRetryQueue    inserts blocks, and retries until ClickHouse has them, in bounded memory
"""

import asyncio
from collections import deque
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from chassis.clickhouse import StoreBusy, StoreRejected, StoreUnavailable
from chassis.runtime.periodic import PeriodicTask, cancel_tasks
from gateway.inserts.blocks import InsertBlock, Inserter, merge_blocks, new_batch_id
from gateway.inserts.store_state import InsertBreaker
from gateway.metrics import Metrics, OutcomeCounters
from proto.storage.tables import TRACE_INDEX

RETRY_S: Final = 0.2
FULL: Final = "the retry queue is full"


class BlockRetryQueue:
    """A bounded queue of blocks and the task that inserts them. Each block that is given up is logged as an error, with
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
        # ClickHouse is unavailable, or the task was cancelled: the requests are answered, so the blocks are kept.
        finally:
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

        It is unknown whether a merged block is stored while the insert is in flight, and for ever if its response is
        lost or the task is cancelled. Its parts have other tokens, so inserting them alone would duplicate rows.
        Therefore the block forgets its parts before it is sent, and is then stored or lost as a whole.
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
        """Give up a block whose requests were answered with success: count and log its rows."""
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
        await cancel_tasks(self._task)
        while self._queue:
            self.drop(self._queue.popleft(), "the gateway stopped before the rows were stored")

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


MAX_COALESCED_BYTES: Final = 16 * 2**20  # beyond this size blocks are inserted at once, and batches wait
MAX_INDEX_WAIT_S: Final = 1.0
MAX_INDEX_DAYS: Final = 4  # the most that a batch of new items has
MIN_LINGER_FRACTION: Final = 0.02  # of the linger


class DerivedCoalescer:
    """Collects blocks by table and day, and inserts them about every `linger_s`."""

    def __init__(self, retry_queue: BlockRetryQueue, linger_s: float, log: structlog.stdlib.BoundLogger) -> None:
        self._retry_queue = retry_queue
        self._linger_s = linger_s
        self._log = log
        self._groups: dict[tuple[str, int], list[InsertBlock]] = {}
        self._bytes = 0
        self._flushed_at = float("-inf")
        self._filled = asyncio.Event()
        self._due = asyncio.Event()
        self._has_capacity = asyncio.Event()
        self._has_capacity.set()
        self._task: asyncio.Task[None] | None = None
        self._flushing = asyncio.Lock()

    def start(self) -> None:
        """Start the task that inserts."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def add(self, blocks: Sequence[InsertBlock]) -> None:
        """Add blocks of acknowledged requests."""
        for insert_block in blocks:
            self._groups.setdefault((insert_block.block.table, insert_block.block.day), []).append(insert_block)
            self._bytes += insert_block.nbytes
        self._filled.set()
        if self._bytes > MAX_COALESCED_BYTES:
            self._due.set()
            self._has_capacity.clear()

    async def insert_after_batch(
        self, blocks: Sequence[InsertBlock], answer: Callable[[], None], max_wait_s: float
    ) -> None:
        """Insert the derived blocks of a stored batch together with blocks of other batches. The trace index is
        inserted at once, before `answer` is called. If that fails, the request still succeeds because its items are
        stored. A response waits at most `max_wait_s` and MAX_INDEX_WAIT_S for it. The index of more than MAX_INDEX_DAYS
        days is inserted later, with the other blocks.

        Waits until blocks may be added again: back-pressure on batches that are written faster than derived rows.
        """
        timer = asyncio.get_running_loop().call_later(max(0.0, min(max_wait_s, MAX_INDEX_WAIT_S)), answer)
        index = [insert_block for insert_block in blocks if insert_block.block.table == TRACE_INDEX.name]
        if len(index) > MAX_INDEX_DAYS:
            index = []
        try:
            try:
                await self._retry_queue.insert(index)
            finally:
                timer.cancel()
                answer()
                self.add([insert_block for insert_block in blocks if insert_block not in index])
            await self._has_capacity.wait()
        except Exception:  # noqa: BLE001 (the batch is finished and counted: it must not be stored again)
            self._log.exception(
                "derived rows may be lost", tables=[insert_block.block.table for insert_block in blocks]
            )

    def insert_in_background(self, blocks: Sequence[InsertBlock]) -> None:
        """Insert blocks of a batch that is partly stored and in no journal, in bounded memory."""
        for insert_block in blocks:
            self._retry_queue.add(insert_block)

    def give_up(self, insert_block: InsertBlock, reason: str) -> None:
        """Count and log derived rows that are permanently refused: their spans and logs are stored, so that `sluice
        repair` can derive the rows again.
        """
        self._retry_queue.drop(insert_block, reason)

    async def flush(self) -> None:
        """Insert all blocks that were added before this call; returns when each is stored or in the retry queue."""
        async with self._flushing:
            await self._flush()

    async def close(self, timeout_s: float) -> None:
        """Insert the remaining blocks for at most `timeout_s`; the rest stays in the retry queue."""
        await cancel_tasks(self._task)
        try:
            async with asyncio.timeout(timeout_s):
                await self.flush()
        except TimeoutError:
            pass

    async def _run(self) -> None:
        while True:
            await self._filled.wait()
            try:
                async with asyncio.timeout(self._wait_s()):
                    await self._due.wait()
            except TimeoutError:
                pass
            self._filled.clear()
            self._due.clear()
            await self.flush()
            self._flushed_at = asyncio.get_running_loop().time()

    def _wait_s(self) -> float:
        since = asyncio.get_running_loop().time() - self._flushed_at
        return max(self._linger_s * MIN_LINGER_FRACTION, self._linger_s - since)

    async def _flush(self) -> None:
        groups = list(self._groups.values())
        self._groups.clear()
        self._bytes = 0
        try:
            blocks = [merge_blocks(group) for group in groups]
            await self._retry_queue.insert(blocks)
        finally:
            self._has_capacity.set()


class OutcomeFlusher:
    """Drains the pending sums of `OutcomeCounters` every `interval_s`, and on shutdown."""

    def __init__(
        self,
        outcomes: OutcomeCounters,
        coalescer: DerivedCoalescer,
        breaker: InsertBreaker,
        interval_s: float,
        clock: Callable[[], int],
        log: structlog.stdlib.BoundLogger,
    ) -> None:
        self._outcomes = outcomes
        self._coalescer = coalescer
        self._breaker = breaker
        self._clock = clock
        self.task = PeriodicTask(self._flush_if_up, interval_s, log, "flushing outcome counts failed")

    async def close(self) -> None:
        """Stop, and pass the remaining sums to the coalescer."""
        await self.task.close()
        self.flush()

    async def _flush_if_up(self) -> None:
        # While ClickHouse is unavailable the sums are not passed on, so that there is no growing queue of blocks.
        if self._breaker.is_up:
            self.flush()

    def flush(self) -> None:
        """Pass the pending sums to the coalescer."""
        batch_id = new_batch_id()
        block = self._outcomes.drain(batch_id, self._clock() // 10**6)
        if block is not None:
            self._coalescer.add([InsertBlock(batch_id, block)])
