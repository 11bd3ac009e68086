"""Writes batches of requests to ClickHouse: the only way from a request to its rows, in every mode.

    write                       records the boundaries of the batch on disk before anything is sent
      store, _store             builds the blocks; failed work is retried later, or its requests are answered 503
        _insert                 spans and logs, then the derived rows; each under its token until ClickHouse has it
          RetryingInserter      retries, counts what an uncertain attempt has stored
            Inserter, client
        JournalLike.finish      records that the requests are stored

A block that ClickHouse permanently refuses is bisected: the batch is split by project, then into halves, each part with
boundaries and tokens of its own, until the offending request is alone. That request is quarantined with the reason, and
can be requeued. A block that fails repeatedly while other blocks succeed is bisected as well, but no request is
quarantined for that. In the mode `store` there is seldom time to bisect: a failed insert pauses all others, and
requests have a deadline.
"""

import asyncio
import math
from collections.abc import Callable, Collection, Sequence
from functools import partial
from typing import Final

import structlog

from chassis.clickhouse import StoreError, StoreRejected, StoreUnavailable
from chassis.errors import InternalError, ServiceUnavailable
from gateway.inserts.blocks import (
    MAIN_TABLES,
    BlockBuilder,
    Gate,
    InsertBlock,
    bisect_batch,
    main_table_days,
    new_batch_id,
)
from gateway.inserts.derived import DerivedCoalescer
from gateway.inserts.pending_requests import JournalReader, PendingRequest, sequence_ranges
from gateway.inserts.retries import DeferredRetry, JournalRecorder, ResultUnknown, RetryingInserter
from gateway.journal import Batch, Entry, JournalLike, Range, TableDay
from gateway.metrics import ItemAccounting
from proto.otlp.policy import Signal
from proto.storage.tables import INGEST_OUTCOMES

STORE_UNAVAILABLE: Final = "The telemetry store is temporarily unavailable; retry later."
# Retry-After of a request that waited until the deadline. Exporters limit all attempts together to ten seconds and drop
# requests whose retry would be later. Two of the ten seconds are left.
RETRY_AFTER_S: Final = 1


class BatchWriter:
    """Writes the batches of one journal, several at a time. Its methods raise nothing but CancelledError."""

    def __init__(
        self,
        journal: JournalLike,
        reader: JournalReader,
        builder: BlockBuilder,
        inserter: RetryingInserter,
        derived: DerivedCoalescer,
        accounting: ItemAccounting,
        gate: Gate,
        clock: Callable[[], int],
        log: structlog.stdlib.BoundLogger,
    ) -> None:
        """New batches wait while `gate` is closed. `clock` gives nanoseconds since 1970."""
        self._journal = journal
        self._reader = reader
        self._recorder = JournalRecorder(journal, reader, accounting)
        self._builder = builder
        self._inserter = inserter
        self._derived = derived
        self._accounting = accounting
        self._gate = gate
        self._clock = clock
        self._log = log
        self._deferred_retry = DeferredRetry(log, in_background=journal.durable)

    @property
    def is_idle(self) -> bool:
        """Whether no work is deferred."""
        return not self._deferred_retry.waiting

    async def write(self, requests: Sequence[PendingRequest]) -> None:
        """Form a batch of requests, and store it."""
        requests = sorted(requests, key=lambda request: request.sequence)
        batch = _new_batch(self._clock() // 10**6, sequence_ranges(requests))
        async with self._gate:
            try:
                await self._recorder.begin(batch)
            except Exception as error:  # noqa: BLE001 (whatever it is, the batch is stored)
                # The disk has taken no bytes for half a minute, so its contents may soon be lost. If the process ends
                # before the disk recovers, the rows are stored twice, which is better than losing them. (If there is no
                # memory to note the batch, the rows are stored twice in any case, because the lane still finds the
                # requests in the journal.)
                self._log.exception(
                    "the journal could not record a batch; the batch is stored, after a crash perhaps a second time",
                    error=str(error),
                )
            await self.store(batch, requests)

    async def store(self, batch: Batch, requests: Sequence[PendingRequest], *, retried: bool = False) -> None:
        """Store a batch whose boundaries are on disk, except its blocks in `batch.skip`, which are stored already.

        `retried`: an earlier process may have stored a part of it.
        """
        try:
            await self._store(batch, requests, retried=retried)
        except Exception as error:  # noqa: BLE001 (whatever it is, the requests are stored later, or answered)
            if deadline_of(requests) < math.inf:
                self._give_up(batch, requests, error)
                return
            self._deferred_retry.log_failure(error)
        else:
            return
        # Not in the `except` block: the traceback of the error holds the blocks.
        if self._journal.durable:
            await self._deferred_retry.defer(partial(self._store_from_journal, batch))
        else:
            await self._deferred_retry.defer(partial(self._store, batch, requests))

    async def reinsert(
        self, batch: Batch, requests: Sequence[PendingRequest], table_days: Collection[TableDay]
    ) -> list[TableDay]:
        """Insert the blocks of a finished batch whose rows are still missing again; returns their tables and days."""
        reinserted = []
        for insert_block in await self._builder.build(batch, requests):
            if insert_block.table_day in table_days and await self._inserter.reinsert_if_missing(insert_block):
                reinserted.append(insert_block.table_day)
        return reinserted

    async def quarantine(self, entry: Entry, error: Exception) -> None:
        """Quarantine a request that can no longer be decoded."""
        batch = _new_batch(self._clock() // 10**6, [(entry.sequence, entry.sequence)])

        async def work(*, retried: bool) -> None:  # noqa: ARG001 (both steps may be repeated)
            await self._recorder.begin(batch)
            await self._recorder.quarantine(batch, _reason(error), entry.request.signal, entry.request.accepted)

        await self._deferred_retry.attempt(work)

    async def split_off_undecodable(
        self, batch: Batch, good: Sequence[PendingRequest], bad: Sequence[tuple[Entry, Exception]]
    ) -> None:
        """Quarantine the requests of a batch that cannot be decoded, and store the rest. The rest keeps the id of the
        batch, and so its tokens, because it may be stored already. The quarantined requests may be stored already, too.
        """
        rest = batch._replace(ranges=sequence_ranges(good))
        undecodable = [_new_batch(batch.made_ms, [(entry.sequence, entry.sequence)]) for entry, _ in bad]

        async def work(*, retried: bool) -> None:  # noqa: ARG001 (repeating it with the same parts is the same split)
            await self._recorder.split(batch.batch_id, [*undecodable, *([rest] if good else [])])

        await self._deferred_retry.attempt(work)
        for part, (entry, error) in zip(undecodable, bad, strict=True):
            await self._quarantine_with_retry(part, error, entry.request.signal, entry.request.accepted)
        if good:
            await self.store(rest, good, retried=True)

    async def close(self) -> None:
        """Cancel deferred work; the next start does it from the journal."""
        await self._deferred_retry.close()

    async def _store_from_journal(self, batch: Batch, *, retried: bool) -> None:  # noqa: ARG002 (it is always a retry)
        """Store a batch with its requests as the journal has them."""
        good, bad, _ = await self._reader.read_batch(batch)
        if bad:
            await self.split_off_undecodable(batch, good, bad)
        elif good:
            await self._store(batch, good, retried=True)

    async def _store(self, batch: Batch, requests: Sequence[PendingRequest], *, retried: bool) -> None:
        # All requests were answered 503 while a larger batch was bisected. Requests of a durable journal are never
        # given up.
        abandoned = not self._journal.durable and all(request.is_abandoned for request in requests)
        if abandoned and not self._is_begun(batch, requests):
            self._journal.finish(batch.batch_id, {})
            return
        try:
            blocks = await self._builder.build(batch, requests)
        except (MemoryError, RuntimeError):  # out of memory or threads; the requests are not the cause
            raise
        except Exception as error:  # noqa: BLE001 (decoded requests that cannot be written: find them)
            stored = await self._find_stored(batch, requests, retried=retried)
            await self._bisect(batch, requests, stored, error)
            return
        if abandoned:  # partly stored: completed without an insert slot, because other batches wait for slots
            self._derived.insert_in_background(blocks)
            self._journal.finish(batch.batch_id, {})
            return
        derived: Sequence[InsertBlock] = ()
        if not self._journal.durable:
            derived = [insert_block for insert_block in blocks if insert_block.block.table not in MAIN_TABLES]
            blocks = blocks[: len(blocks) - len(derived)]
        while True:
            losses = self._inserter.breaker.possible_losses
            rows = await self._insert(batch, requests, blocks, derived, retried=retried)
            if rows is None:
                return
            if losses == self._inserter.breaker.possible_losses or deadline_of(requests) < math.inf:
                break
            retried = True  # ClickHouse may have lost blocks that it had acknowledged
        self._journal.finish(batch.batch_id, rows)
        self._accounting.metrics.batches.labels("stored").inc()
        if self._journal.durable:
            self._count_stored(requests)
        else:
            await self._answer_and_derive(requests, derived)

    async def _insert(
        self,
        batch: Batch,
        requests: Sequence[PendingRequest],
        blocks: Sequence[InsertBlock],
        derived: Sequence[InsertBlock],
        *,
        retried: bool,
    ) -> dict[TableDay, int] | None:
        """Insert `blocks`; returns the rows of each table and day, or None if the batch was bisected. A batch that is
        partly stored when it is given up is completed in the background, with its `derived` rows.
        """
        rows: dict[TableDay, int] = {}
        deadline = deadline_of(requests)
        for at, insert_block in enumerate(blocks):
            try:
                await self._inserter.insert(insert_block, retried=retried, deadline=deadline)
            except (StoreRejected, StoreUnavailable) as error:  # permanently refused, or failing repeatedly
                unknown = isinstance(error, ResultUnknown)
                expired = isinstance(error, StoreUnavailable) and asyncio.get_running_loop().time() >= deadline
                if unknown or expired:
                    if deadline < math.inf and (rows or self._is_begun(batch, requests)):
                        self._derived.insert_in_background([*blocks[at:], *derived])
                    raise
                if insert_block.block.table in MAIN_TABLES:
                    stored = await self._find_stored(batch, requests, retried=retried)
                    await self._bisect(batch, requests, stored.union(rows), error)
                    return None
                if isinstance(error, StoreUnavailable):
                    raise  # the retry finds stored blocks by counting
                self._derived.give_up(insert_block, _reason(error))
            else:
                rows[insert_block.table_day] = insert_block.block.rows
        return rows

    async def _answer_and_derive(self, requests: Sequence[PendingRequest], derived: Sequence[InsertBlock]) -> None:
        """Answer the requests of a stored batch, and insert its derived rows together with derived rows of other
        batches."""
        waiting = list(requests)

        def answer() -> None:
            self._count_stored(waiting)
            waiting.clear()

        left_s = min(request.deadline for request in requests) - asyncio.get_running_loop().time()
        await self._derived.insert_after_batch(derived, answer, left_s / 2)

    def _count_stored(self, requests: Sequence[PendingRequest]) -> None:
        """Answer stored requests that wait for their response, and count the others."""
        for request in requests:
            if request.answer is None:
                self._accounting.stored(request.signal, request.items)
            elif request.is_abandoned:  # answered 503 during the insert; its client may send it again
                self._accounting.metrics.late_items.inc(request.items)
            else:
                request.answer.set_result(None)

    def _give_up(self, batch: Batch, requests: Sequence[PendingRequest], error: Exception) -> None:
        """Answer 503: a 500 would make exporters drop the items, and even an unexpected error may be transient."""
        if not isinstance(error, StoreError):
            self._log.error("storing a batch failed; answering 503", requests=len(requests), exc_info=error)
        self._accounting.metrics.batches.labels("refused").inc()
        self._journal.finish(batch.batch_id, {})
        for request in requests:
            request.fail(ServiceUnavailable(STORE_UNAVAILABLE, retry_after=RETRY_AFTER_S))

    async def _find_stored(
        self, batch: Batch, requests: Sequence[PendingRequest], *, retried: bool
    ) -> frozenset[TableDay]:
        """Tables and days of the batch's spans and logs that are already stored; none before the first attempt."""
        return await self._inserter.find_stored(batch.batch_id, main_table_days(requests) if retried else ())

    async def _bisect(
        self, batch: Batch, requests: Sequence[PendingRequest], stored: Collection[TableDay], error: Exception
    ) -> None:
        """Split a failing batch, or quarantine its only request. `stored`: its blocks that are in ClickHouse."""
        skip = batch.skip.union(stored)
        if len(requests) > 1:
            await self._split(batch, skip, bisect_batch(requests))
            return
        (request,) = requests
        acknowledged = request.answer is None
        if isinstance(error, StoreUnavailable):  # the request is valid: it is retried later, or answered 503
            if not acknowledged:
                await self._insert_derived(batch, requests, skip)
            raise error
        self._accounting.metrics.batches.labels("quarantined" if self._journal.durable else "rejected").inc()
        self._log.error(
            "request quarantined" if self._journal.durable else "request refused by clickhouse",
            project_id=request.decoded.project_id,
            signal=request.signal,
            items=request.items,
            error=_reason(error),
            exc_info=None if isinstance(error, StoreRejected) else error,
        )
        request.fail(InternalError())  # a retry of it would fail again
        skip |= await self._insert_derived(batch, requests, skip)
        if not acknowledged:
            self._journal.finish(batch.batch_id, {})
            return
        await self._quarantine_with_retry(batch._replace(skip=skip), error, request.signal, request.items)

    async def _split(self, batch: Batch, skip: frozenset[TableDay], groups: Sequence[Sequence[PendingRequest]]) -> None:
        """Split a batch and store the parts. They are created once, so that a retry records the same split."""
        parts = [_new_batch(batch.made_ms, sequence_ranges(group))._replace(skip=skip) for group in groups]

        async def work(*, retried: bool) -> None:
            await self._recorder.split(batch.batch_id, parts)
            for part, group in zip(parts, groups, strict=True):
                await self.store(part, group, retried=retried)

        await self._deferred_retry.attempt(work)

    async def _insert_derived(
        self, batch: Batch, requests: Sequence[PendingRequest], stored: frozenset[TableDay]
    ) -> set[TableDay]:
        """Insert the derived rows of a request for its stored days, when ClickHouse refuses another of its days: stored
        items are not removed, so queries must find them. The outcome of the request is counted when it is requeued.
        Returns the tables and days inserted.
        """
        days = {day for table, day in stored if table in MAIN_TABLES}
        if not days:
            return set()
        inserted: set[TableDay] = set()
        for insert_block in await self._builder.build(batch._replace(skip=stored), requests):
            block = insert_block.block
            if block.table in MAIN_TABLES or block.table == INGEST_OUTCOMES.name or block.day not in days:
                continue
            if not self._journal.durable:
                self._derived.insert_in_background([insert_block])
                continue
            try:
                await self._inserter.insert(insert_block, retried=False)
                inserted.add(insert_block.table_day)
            except StoreError as error:
                self._derived.give_up(insert_block, _reason(error))
        return inserted

    async def _quarantine_with_retry(self, batch: Batch, error: Exception, signal: Signal, items: int) -> None:
        async def work(*, retried: bool) -> None:  # noqa: ARG001 (it may be repeated)
            await self._recorder.quarantine(batch, _reason(error), signal, items)

        await self._deferred_retry.attempt(work)

    def _is_begun(self, batch: Batch, requests: Sequence[PendingRequest]) -> bool:
        """Whether a larger batch, of which this one is a part, has stored some of these spans or logs."""
        return not batch.skip.isdisjoint(main_table_days(requests))


def deadline_of(requests: Sequence[PendingRequest]) -> float:
    """When the last of the requests is answered 503, by the loop's clock; infinite for acknowledged requests."""
    return max(request.deadline for request in requests)


def _new_batch(made_ms: int, ranges: Sequence[Range]) -> Batch:
    return Batch(new_batch_id(), made_ms, tuple(ranges))


def _reason(error: Exception) -> str:
    return error.message if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"
