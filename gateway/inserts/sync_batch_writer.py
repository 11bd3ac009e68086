"""Writes batches in the mode `store`: spans and logs first, then the derived rows.

    write(requests, deadline)
        build_insert_blocks         in a thread: items, error occurrences, outcomes; every block gets its token
        _insert_until               spans and logs, one block after the other; retries transient failures until the
                                    deadline
        _finish
            BlockRetryQueue.insert  the trace index, before the response if there is time; failures are retried later
            _acknowledge            answers the requests: success means that their spans and logs are in ClickHouse
            DerivedCoalescer.add    attribute keys, errors, outcomes: inserted with those of the next batches

A block that ClickHouse permanently refuses is bisected: the batch is written again in parts, by project, then by
halves, until the offending request is alone. Only that request fails, with 500: a retry of it would fail again.
"""

import asyncio
import random
from collections.abc import Callable, Collection, Sequence
from concurrent.futures import Executor
from typing import Final

import structlog

from chassis.clickhouse import StoreBusy, StoreRejected, StoreUnavailable
from chassis.errors import ApiError, InternalError, ServiceUnavailable
from gateway.inserts.blocks import MAIN_TABLES, TableDay, bisect_batch, build_insert_blocks, is_light
from gateway.inserts.clickhouse_health import Availability
from gateway.inserts.derived_coalescer import DerivedCoalescer
from gateway.inserts.derived_retry_queue import BlockRetryQueue
from gateway.inserts.insert_block import InsertBlock, Inserter, new_batch_id
from gateway.outcomes import Metrics
from proto.otlp.codec import NamedKeySet
from proto.otlp.policy import DecodedPayload
from proto.storage.tables import INGEST_OUTCOMES, TRACE_INDEX

MAX_BACKOFF_S: Final = 0.25
MAX_INDEX_WAIT_S: Final = 1.0
MAX_INDEX_DAYS: Final = 4  # as many as a batch of new items has at most
STORE_UNAVAILABLE: Final = "The store is not available; send the request again later."
# Retry-After of a request that waited until the deadline. Exporters limit all attempts to ten seconds and drop requests
# whose retry would be later; of the ten seconds, two are left.
RETRY_AFTER_S: Final = 1


class PendingAck:
    """A request that waits for its batch: `done` is resolved when it is stored, or gets the error of its response."""

    __slots__ = ("deadline", "decoded", "done", "wire_bytes")

    def __init__(self, decoded: DecodedPayload, wire_bytes: int, deadline: float, done: "asyncio.Future[None]") -> None:
        self.decoded = decoded
        self.wire_bytes = wire_bytes
        self.deadline = deadline  # of the loop's clock
        self.done = done

    @property
    def is_abandoned(self) -> bool:
        """Whether it is answered already, with 503 at its deadline: its client sends it again, so it is not written."""
        return self.done.done()

    def fail(self, error: ApiError) -> None:
        """Answer with `error`, unless it is answered already."""
        if not self.done.done():
            self.done.set_exception(error)


class _OnceCallback:
    """Calls a function on its first call only."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function: Callable[[], None] | None = function

    def __call__(self) -> None:
        function, self._function = self._function, None
        if function is not None:
            function()


class SyncBatchWriter:
    """Writes batches, several at a time."""

    def __init__(
        self,
        inserter: Inserter,
        availability: Availability,
        retry_queue: BlockRetryQueue,
        coalescer: DerivedCoalescer,
        metrics: Metrics,
        log: structlog.stdlib.BoundLogger,
        threads: Executor,
        clock: Callable[[], int],
        named_keys: NamedKeySet,
        block_executor: Executor,
    ) -> None:
        self._inserter = inserter
        self._availability = availability
        self._retry_queue = retry_queue
        self._coalescer = coalescer
        self._metrics = metrics
        self._log = log
        self._threads = threads
        self._clock = clock
        self._named_keys = named_keys
        self._block_executor = block_executor

    async def write(
        self, requests: Sequence[PendingAck], deadline: float, stored: frozenset[TableDay] = frozenset()
    ) -> None:
        """Write a batch and answer its requests. `stored`: tables and days of blocks that a larger batch, which this
        one is a part of, has inserted already.
        """
        try:
            main, derived = await self._build(requests)
        except Exception as error:  # noqa: BLE001 (a decoded request that cannot be written: find it)
            await self._bisect(requests, deadline, stored, error)
            return
        remaining = [
            insert_block for insert_block in main if (insert_block.block.table, insert_block.block.day) not in stored
        ]
        try:
            while remaining:
                await self._insert_until(remaining[0], deadline)
                done = remaining.pop(0).block
                stored |= {(done.table, done.day)}
        except StoreRejected as error:
            await self._bisect(requests, deadline, stored, error)
            if len(requests) == 1:
                self._insert_derived(derived, days={day for _, day in stored})
            return
        except StoreUnavailable:
            self._give_up(requests, remaining, derived, begun=len(remaining) < len(main))
            return
        await self._finish(requests, derived)

    async def _finish(self, requests: Sequence[PendingAck], derived: Sequence[InsertBlock]) -> None:
        """Answer 200, and write the derived rows. The trace index is inserted before the response, so that a trace is
        found as soon as it is acknowledged. But its failure does not fail a stored request, and the response waits for
        it only half of the remaining time and MAX_INDEX_WAIT_S at most; an index of many days follows with the rest.
        """
        loop = asyncio.get_running_loop()
        acknowledge = _OnceCallback(lambda: self._acknowledge(requests))
        max_wait_s = (min(request.deadline for request in requests) - loop.time()) / 2
        timer = loop.call_later(max(0.0, min(max_wait_s, MAX_INDEX_WAIT_S)), acknowledge)
        index = [insert_block for insert_block in derived if insert_block.block.table == TRACE_INDEX.name]
        if len(index) > MAX_INDEX_DAYS:
            index = []
        try:
            await self._retry_queue.insert(index)
        finally:
            timer.cancel()
            acknowledge()
            self._coalescer.add([insert_block for insert_block in derived if insert_block not in index])
        await self._coalescer.wait_for_capacity()

    async def _build(self, requests: Sequence[PendingAck]) -> tuple[list[InsertBlock], list[InsertBlock]]:
        batch_id = new_batch_id()
        loop = asyncio.get_running_loop()
        now_ms = self._clock() // 10**6
        threads = self._block_executor if is_light(requests) else self._threads
        blocks = await loop.run_in_executor(threads, build_insert_blocks, requests, batch_id, now_ms, self._named_keys)
        main = [insert_block for insert_block in blocks if insert_block.block.table in MAIN_TABLES]
        return main, [insert_block for insert_block in blocks if insert_block.block.table not in MAIN_TABLES]

    async def _insert_until(self, insert_block: InsertBlock, deadline: float) -> None:
        """Insert, and retry with the same token after transient failures; StoreUnavailable at the `deadline`."""
        loop = asyncio.get_running_loop()
        while True:
            if not await self._availability.wait_until_up(max(0.0, deadline - loop.time())):
                raise StoreUnavailable(STORE_UNAVAILABLE)
            try:
                return await self._inserter.insert(insert_block)
            except StoreUnavailable as error:
                if not isinstance(error, StoreBusy):
                    self._availability.failed(error, insert_block.block.table)
                if loop.time() >= deadline:
                    raise
            await asyncio.sleep(random.uniform(0.0, MAX_BACKOFF_S))  # noqa: S311 (jitter)

    def _acknowledge(self, requests: Sequence[PendingAck]) -> None:
        self._metrics.batches.labels("stored").inc()
        for request in requests:
            if request.done.done():  # answered 503 during the insert; its client may send it again
                self._metrics.late_items.inc(request.decoded.accepted)
            else:
                request.done.set_result(None)

    def _give_up(
        self,
        requests: Sequence[PendingAck],
        remaining: Sequence[InsertBlock],
        derived: Sequence[InsertBlock],
        *,
        begun: bool,
    ) -> None:
        """Answer 503. A partly stored batch (`begun`) is completed in the background, so that no rows stay missing."""
        self._metrics.batches.labels("refused").inc()
        for request in requests:
            request.fail(ServiceUnavailable(STORE_UNAVAILABLE, retry_after=RETRY_AFTER_S))
        if begun:
            for insert_block in (*remaining, *derived):
                self._retry_queue.add(insert_block)

    def _insert_derived(self, derived: Sequence[InsertBlock], days: Collection[int]) -> None:
        """Insert the derived rows for the stored days of a request of which another day was refused: its stored items
        stay, so queries must find them. Its outcome is counted with its response.
        """
        for insert_block in derived:
            if insert_block.block.table != INGEST_OUTCOMES.name and insert_block.block.day in days:
                self._retry_queue.add(insert_block)

    async def _bisect(
        self, requests: Sequence[PendingAck], deadline: float, stored: frozenset[TableDay], error: Exception
    ) -> None:
        if len(requests) > 1:
            for part in bisect_batch(requests):
                await self.write(part, deadline, stored)
            return
        (request,) = requests
        self._metrics.batches.labels("rejected").inc()
        self._log.error(
            "request refused by clickhouse",
            project_id=request.decoded.project_id,
            signal=request.decoded.signal,
            items=request.decoded.accepted,
            error=str(error),
            exc_info=None if isinstance(error, StoreRejected) else error,
        )
        request.fail(InternalError())
