"""A batch of acknowledged requests becomes rows, however long that takes.

    write       the boundaries of the batch are on disk before anything is sent
      store     blocks, spans and logs first; each is sent under its token until ClickHouse has it
        finish  the journal learns that its requests are stored

A block that ClickHouse refuses for good is narrowed down: the batch is split by project, then by halves, each part with
boundaries and tokens of its own, until the request that it is about stands alone. That one is set aside, with the
reason, and can be put back. A block that fails again and again while others get in is narrowed down as well; but a
request is not set aside for that. What cannot be done now, for want of memory, descriptors or disk, or because an
insert may still come in, is done `Later`, from the journal, so that what waits for it takes no memory.
"""

import asyncio
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Final, TypeVar

from chassis.clickhouse import StoreError, StoreRejected, StoreUnavailable
from chassis.errors import ApiError
from gateway.ingest.journal_reader import JournalReader
from gateway.ingest.pending_requests import PendingRequest, sequence_ranges
from gateway.inserts.blocks import MAIN_TABLES, TableDay, bisect_batch, build_insert_blocks, is_light
from gateway.inserts.deferred_retry import DeferredRetry
from gateway.inserts.insert_block import InsertBlock, new_batch_id
from gateway.inserts.insert_context import InsertContext
from gateway.inserts.insert_retry import OutcomeUnknown, RetryingInserter
from gateway.journal import Batch, Entry, JournalLike
from gateway.outcomes import REFUSED
from proto.otlp.policy import Signal
from proto.storage.tables import INGEST_OUTCOMES, LOGS, SPANS

T = TypeVar("T")

RECORD_TRIES: Final = 30
RECORD_RETRY_S: Final = 1.0


class BatchWriter:
    """Writes batches of one journal. One instance serves all of them, several at a time. Its methods raise nothing."""

    def __init__(self, journal: JournalLike, reader: JournalReader, context: InsertContext) -> None:
        self._journal = journal
        self._reader = reader
        self._context = context
        self._inserter = RetryingInserter(context)
        self._deferred_retry = DeferredRetry(context.log, in_background=journal.durable)

    @property
    def is_idle(self) -> bool:
        """Nothing is put off."""
        return not self._deferred_retry.waiting

    async def write(self, requests: Sequence[PendingRequest]) -> None:
        """Make a batch of requests, in the order of their sequences, and store it."""
        batch = self._new_batch(requests, self._context.clock() // 10**6)
        try:
            await self._record_with_retry(lambda: self._journal.begin(batch))
        except Exception as error:
            # The disk does not take a few bytes for half a minute: what it holds may be lost soon, so better the rows
            # twice, should the process end before it is back, than not at all. (Twice in any case without the memory
            # to note them: the lane finds them in the journal still.)
            self._context.log.exception("a batch is stored without a record of its boundaries", error=str(error))
        await self.store(batch, requests)

    async def store(self, batch: Batch, requests: Sequence[PendingRequest], *, again: bool = False) -> None:
        """Store a batch whose boundaries are on disk, but for its places that are `skip`ped: they are stored already.

        `again`: an earlier process may have stored some of it.
        """
        before, kept = again, list(requests)

        async def work(*, again: bool) -> None:
            if again and self._journal.durable:
                await self._store_from_journal(batch)
                return
            try:
                await self._store(batch, kept, again=again or before)
            finally:
                if self._journal.durable:
                    kept.clear()  # should it fail: the journal has them

        await self._deferred_retry.attempt(work)

    async def reinsert(
        self, batch: Batch, requests: Sequence[PendingRequest], table_days: Collection[TableDay]
    ) -> list[TableDay]:
        """Store places of a finished batch once more, as far as their rows are still gone; which were."""
        anew = []
        for sealed in await self._build_blocks(batch, requests):
            place = sealed.block.table, sealed.block.day
            if place in table_days and await self._inserter.reinsert_if_missing(sealed):
                anew.append(place)
        return anew

    async def quarantine(self, entry: Entry, error: Exception) -> None:
        """A request that cannot even be decoded any more."""
        batch = self._single_entry_batch(entry, self._context.clock() // 10**6)

        async def work(*, again: bool) -> None:  # noqa: ARG001 (both may be repeated)
            await self._record_with_retry(lambda: self._journal.begin(batch))
            await self._quarantine(batch, error, entry.request.signal, entry.request.accepted)

        await self._deferred_retry.attempt(work)

    async def split_off_undecodable(
        self, batch: Batch, good: Sequence[PendingRequest], bad: Sequence[tuple[Entry, Exception]]
    ) -> None:
        """Set aside those requests of a batch that cannot be decoded, and store the rest. That keeps its id, and so its
        tokens: it may be stored already. So may they.
        """
        rest = batch._replace(ranges=sequence_ranges(good))
        aside = [self._single_entry_batch(entry, batch.made_ms) for entry, _ in bad]

        async def work(*, again: bool) -> None:  # noqa: ARG001 (the same parts again are the same split)
            await self._record_with_retry(
                lambda: self._journal.split(batch.batch_id, [*aside, *([rest] if good else [])])
            )

        await self._deferred_retry.attempt(work)
        for part, (entry, error) in zip(aside, bad, strict=True):
            await self._quarantine_with_retry(part, error, entry.request.signal, entry.request.accepted)
        if good:
            await self.store(rest, good, again=True)

    async def close(self) -> None:
        """Leave to the next start what is put off."""
        await self._deferred_retry.close()

    async def _store_from_journal(self, batch: Batch) -> None:
        """A batch as the journal has it."""
        good, bad, _ = await self._reader.read_batch(batch)
        if bad:
            await self.split_off_undecodable(batch, good, bad)
        elif good:
            await self._store(batch, good, again=True)

    async def _store(self, batch: Batch, requests: Sequence[PendingRequest], *, again: bool) -> None:
        try:
            blocks = await self._build_blocks(batch, requests)
        except (MemoryError, RuntimeError):  # no room, or no threads any more: not about the requests
            raise
        except Exception as error:  # noqa: BLE001 (requests that were decoded and cannot be written: find them)
            stored = await self._find_stored(batch, requests) if again else frozenset()
            await self._bisect(batch, requests, stored, error)
            return
        while True:
            losses = self._context.availability.possible_losses
            rows = await self._insert(batch, requests, blocks, again=again)
            if rows is None:
                return
            if losses == self._context.availability.possible_losses:
                break
            again = True  # ClickHouse may have lost what it had taken before
        self._journal.finish(batch.batch_id, rows)
        self._context.metrics.batches.labels("stored").inc()
        for request in requests:
            self._context.accounting.stored(request.signal, request.items)

    async def _insert(
        self, batch: Batch, requests: Sequence[PendingRequest], blocks: Sequence[InsertBlock], *, again: bool
    ) -> dict[TableDay, int] | None:
        """Insert all of them; how many rows each place got. None: the batch went another way."""
        rows: dict[TableDay, int] = {}
        for sealed in blocks:
            try:
                await self._inserter.insert(sealed, again=again)
            except OutcomeUnknown:
                raise
            except (StoreRejected, StoreUnavailable) as error:  # refused for good, or stubborn
                if sealed.block.table in MAIN_TABLES:
                    there = await self._find_stored(batch, requests) if again else frozenset()
                    await self._bisect(batch, requests, there.union(rows), error)
                    return None
                if isinstance(error, StoreUnavailable):
                    raise  # what is in is counted then
                self._drop(sealed, error)
            else:
                rows[sealed.block.table, sealed.block.day] = sealed.block.rows
        return rows

    async def _build_blocks(self, batch: Batch, requests: Sequence[PendingRequest]) -> list[InsertBlock]:
        loop = asyncio.get_running_loop()
        # Of the oldest: a batch of one month may be made in the next, and counts for the quota of the first.
        accepted_ms = min(request.received_ns for request in requests) // 10**6
        sink = self._context
        threads = sink.block_executor if is_light(requests) else sink.threads
        blocks = await loop.run_in_executor(
            threads, build_insert_blocks, requests, batch.batch_id, accepted_ms, sink.named_keys
        )
        return [sealed for sealed in blocks if (sealed.block.table, sealed.block.day) not in batch.skip]

    async def _find_stored(self, batch: Batch, requests: Sequence[PendingRequest]) -> frozenset[TableDay]:
        """Where spans and logs of a batch are stored already."""
        tables = {"traces": SPANS.name, "logs": LOGS.name}
        places = {(tables[request.signal], day) for request in requests for day in request.decoded.days}
        return frozenset(
            [place for place in places if await self._context.block_checker.find_stored(place, [batch.batch_id])]
        )

    async def _bisect(
        self, batch: Batch, requests: Sequence[PendingRequest], stored: Collection[TableDay], error: Exception
    ) -> None:
        """`stored` are the places of the batch that are in."""
        skip = batch.skip.union(stored)
        if len(requests) > 1:
            await self._split(batch, skip, bisect_batch(requests))
            return
        if isinstance(error, StoreUnavailable):
            raise error  # for another time: nothing is wrong with the request
        (request,) = requests
        self._context.metrics.batches.labels("quarantined").inc()
        self._context.log.error(
            "request set aside",
            project_id=request.decoded.project_id,
            signal=request.signal,
            items=request.items,
            error=_reason(error),
            exc_info=None if isinstance(error, StoreRejected) else error,
        )
        skip |= await self._insert_derived(batch, requests, skip)
        await self._quarantine_with_retry(batch._replace(skip=skip), error, request.signal, request.items)

    async def _split(self, batch: Batch, skip: frozenset[TableDay], groups: Sequence[Sequence[PendingRequest]]) -> None:
        """The parts are made once: the same again are the same split."""
        parts = [self._new_batch(group, batch.made_ms)._replace(skip=skip) for group in groups]

        async def work(*, again: bool) -> None:
            await self._record_with_retry(lambda: self._journal.split(batch.batch_id, parts))
            for part, group in zip(parts, groups, strict=True):
                await self.store(part, group, again=again)

        await self._deferred_retry.attempt(work)

    async def _insert_derived(
        self, batch: Batch, requests: Sequence[PendingRequest], stored: frozenset[TableDay]
    ) -> set[TableDay]:
        """Store what belongs to the stored days of a request of which another day is refused: they stay, so they are
        to be found. Its outcome is counted when it is put back. The places that are in.
        """
        days = {day for table, day in stored if table in MAIN_TABLES}
        if not days:
            return set()
        places: set[TableDay] = set()
        for sealed in await self._build_blocks(batch._replace(skip=stored), requests):
            block = sealed.block
            if block.table in MAIN_TABLES or block.table == INGEST_OUTCOMES.name or block.day not in days:
                continue
            try:
                await self._inserter.insert(sealed, again=False)
                places.add((block.table, block.day))
            except StoreError as error:
                self._drop(sealed, error)
        return places

    async def _quarantine_with_retry(self, batch: Batch, error: Exception, signal: Signal, items: int) -> None:
        async def work(*, again: bool) -> None:  # noqa: ARG001 (it may be repeated)
            await self._quarantine(batch, error, signal, items)

        await self._deferred_retry.attempt(work)

    async def _quarantine(self, batch: Batch, error: Exception, signal: Signal, items: int) -> None:
        there = await self._record_with_retry(lambda: self._journal.quarantine(batch, _reason(error)))
        if not self._journal.durable:
            self._context.accounting.lost(signal, items, REFUSED)
        elif there:
            self._context.accounting.quarantined(signal, items)
        else:  # it cannot be read any more either
            self._reader.count_damaged()

    async def _record_with_retry(self, record: Callable[[], Awaitable[T]]) -> T:
        """Tried for half a minute: a full disk may have room again, and so may memory."""
        for _ in range(RECORD_TRIES):
            try:
                return await record()
            except (ApiError, OSError, MemoryError):
                await asyncio.sleep(RECORD_RETRY_S)
        return await record()

    def _new_batch(self, requests: Sequence[PendingRequest], made_ms: int) -> Batch:
        return Batch(new_batch_id(), made_ms, sequence_ranges(requests))

    def _single_entry_batch(self, entry: Entry, made_ms: int) -> Batch:
        return Batch(new_batch_id(), made_ms, ((entry.sequence, entry.sequence),))

    def _drop(self, sealed: InsertBlock, error: Exception) -> None:
        """Derived rows that are refused for good: their spans and logs are there, `sluice repair` derives them anew."""
        block = sealed.block
        self._context.metrics.lost_rows.labels(block.table).inc(block.rows)
        self._context.log.error("rows lost", table=block.table, day=block.day, rows=block.rows, reason=_reason(error))


def _reason(error: Exception) -> str:
    return error.message if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"
