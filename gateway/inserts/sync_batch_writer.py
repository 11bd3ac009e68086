"""A batch becomes blocks, and blocks become rows: spans and logs first, then what is derived from them.

    write(requests, deadline)
        build               a thread: assemble, error occurrences, outcomes; every block gets its token
        _insert_until       spans and logs, one block after the other; a transient failure is retried until the deadline
        stored              the requests are answered: success means that their spans and logs are in ClickHouse
        Background.insert   the trace index, before the answer where it can; what fails for now is tried again
    Gatherer            attribute keys, errors, outcomes: with those of the next batches

A block that ClickHouse refuses for good is narrowed down: the batch is written again in parts, by project, then by
halves, until the request that it is about stands alone. Only that one fails, with 500: sent again it would fail again.
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
# Told to whoever waited until the deadline. Exporters keep to ten seconds for all their attempts and drop what they are
# told to send again later than that; of the ten, two are left.
RETRY_AFTER_S: Final = 1


class PendingAck:
    """A request that waits for its batch: `done` gets its result, or the error that it is answered with."""

    __slots__ = ("deadline", "decoded", "done", "wire_bytes")

    def __init__(self, decoded: DecodedPayload, wire_bytes: int, deadline: float, done: "asyncio.Future[None]") -> None:
        self.decoded = decoded
        self.wire_bytes = wire_bytes
        self.deadline = deadline  # of the loop's clock
        self.done = done

    @property
    def is_abandoned(self) -> bool:
        """Whether it gave up waiting: it was answered 503 and is sent again, so its items stay out."""
        return self.done.done()

    def fail(self, error: ApiError) -> None:
        """Answer with `error` unless it is answered already."""
        if not self.done.done():
            self.done.set_exception(error)


class _OnceCallback:
    """Calls a function the first time that it is called itself."""

    def __init__(self, function: Callable[[], None]) -> None:
        self._function: Callable[[], None] | None = function

    def __call__(self) -> None:
        function, self._function = self._function, None
        if function is not None:
            function()


class SyncBatchWriter:
    """Writes batches. One instance serves all of them, several at a time."""

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
        """Write a batch and answer its requests. `stored` names the blocks that a larger batch has brought in
        already.
        """
        try:
            main, derived = await self._build(requests)
        except Exception as error:  # noqa: BLE001 (a request that was decoded and cannot be written: find it)
            await self._bisect(requests, deadline, stored, error)
            return
        waiting = [sealed for sealed in main if (sealed.block.table, sealed.block.day) not in stored]
        try:
            while waiting:
                await self._insert_until(waiting[0], deadline)
                done = waiting.pop(0).block
                stored |= {(done.table, done.day)}
        except StoreRejected as error:
            await self._bisect(requests, deadline, stored, error)
            if len(requests) == 1:
                self._insert_derived(derived, days={day for _, day in stored})
            return
        except StoreUnavailable:
            self._give_up(requests, waiting, derived, begun=len(waiting) < len(main))
            return
        await self._finish(requests, derived)

    async def _finish(self, requests: Sequence[PendingAck], derived: Sequence[InsertBlock]) -> None:
        """Answer 200, and write the derived rows. The trace index goes before the answer, so that a trace is found as
        soon as it is acknowledged; but what is stored is not refused for it, and it may not take long: that of many
        days follows with the rest.
        """
        loop = asyncio.get_running_loop()
        answer = _OnceCallback(lambda: self._acknowledge(requests))
        longest = (min(request.deadline for request in requests) - loop.time()) / 2
        early = loop.call_later(max(0.0, min(longest, MAX_INDEX_WAIT_S)), answer)
        index = [sealed for sealed in derived if sealed.block.table == TRACE_INDEX.name]
        if len(index) > MAX_INDEX_DAYS:
            index = []
        try:
            await self._retry_queue.insert(index)
        finally:
            early.cancel()
            answer()
            self._coalescer.add([sealed for sealed in derived if sealed not in index])
        await self._coalescer.wait_for_capacity()

    async def _build(self, requests: Sequence[PendingAck]) -> tuple[list[InsertBlock], list[InsertBlock]]:
        batch_id = new_batch_id()
        loop = asyncio.get_running_loop()
        now_ms = self._clock() // 10**6
        threads = self._block_executor if is_light(requests) else self._threads
        blocks = await loop.run_in_executor(threads, build_insert_blocks, requests, batch_id, now_ms, self._named_keys)
        main = [sealed for sealed in blocks if sealed.block.table in MAIN_TABLES]
        return main, [sealed for sealed in blocks if sealed.block.table not in MAIN_TABLES]

    async def _insert_until(self, sealed: InsertBlock, deadline: float) -> None:
        """Insert, again with the same token after a transient failure; StoreUnavailable once `deadline` has passed."""
        loop = asyncio.get_running_loop()
        while True:
            if not await self._availability.wait_until_up(max(0.0, deadline - loop.time())):
                raise StoreUnavailable(STORE_UNAVAILABLE)
            try:
                return await self._inserter.insert(sealed)
            except StoreUnavailable as error:
                if not isinstance(error, StoreBusy):
                    self._availability.failed(error, sealed.block.table)
                if loop.time() >= deadline:
                    raise
            await asyncio.sleep(random.uniform(0.0, MAX_BACKOFF_S))  # noqa: S311 (jitter)

    def _acknowledge(self, requests: Sequence[PendingAck]) -> None:
        self._metrics.batches.labels("stored").inc()
        for request in requests:
            if request.done.done():  # answered 503 while the insert was under way; its sender may send it again
                self._metrics.late_items.inc(request.decoded.accepted)
            else:
                request.done.set_result(None)

    def _give_up(
        self,
        requests: Sequence[PendingAck],
        waiting: Sequence[InsertBlock],
        derived: Sequence[InsertBlock],
        *,
        begun: bool,
    ) -> None:
        """Answer 503. A batch that is partly in is completed in the background, so that its rows are never half
        there.
        """
        self._metrics.batches.labels("refused").inc()
        for request in requests:
            request.fail(ServiceUnavailable(STORE_UNAVAILABLE, retry_after=RETRY_AFTER_S))
        if begun:
            for sealed in (*waiting, *derived):
                self._retry_queue.add(sealed)

    def _insert_derived(self, derived: Sequence[InsertBlock], days: Collection[int]) -> None:
        """What belongs to the stored days of a request of which another day was refused: they stay, so they are to be
        found. Its outcome is counted where it is answered.
        """
        for sealed in derived:
            if sealed.block.table != INGEST_OUTCOMES.name and sealed.block.day in days:
                self._retry_queue.add(sealed)

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
