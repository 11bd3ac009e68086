"""What an earlier process left half done, and what ClickHouse lost after it had it.

A batch whose boundaries are on disk is made again from its requests: the same blocks under the same tokens (attribute
keys may differ), so whatever of it was stored is not stored twice. Several are made at once, those that were begun last
before the others: they have what people look at. How many are left is told (`Backlog`).

A finished batch is checked as long as its requests are held: after every start, and when ClickHouse comes back or has
started anew, for it may have lost parts that it had acknowledged. Until that is done, to the end, the journal removes
nothing for its age.
"""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import Final

from chassis.clickhouse import StoreError
from gateway.ingest.batch_writer import BatchWriter
from gateway.ingest.journal_reader import JournalReader
from gateway.ingest.recovery_progress import RecoveryProgress
from gateway.inserts.insert_context import InsertContext
from gateway.journal import Batch, JournalLike, RecoveredState, TableDay
from proto.otlp.policy import NANOS_PER_DAY

RETRY_S: Final = 5.0


class Recovery:
    """Of one journal. `retention_days` (0: for ever) tells which rows may be gone for a good reason; `at_once` batches
    are completed at a time.
    """

    def __init__(
        self,
        journal: JournalLike,
        reader: JournalReader,
        writer: BatchWriter,
        context: InsertContext,
        retention_days: int,
        max_concurrent: int,
    ) -> None:
        self._journal = journal
        self._reader = reader
        self._writer = writer
        self._context = context
        self._retention_days = retention_days
        self._max_concurrent = max_concurrent
        self._check_due = asyncio.Event()
        self._needs_check = True  # ClickHouse may have lost something, and that was not looked into to the end yet
        self.is_idle = False  # nothing is half done

    async def run(self, recovered: RecoveredState) -> None:
        """Store batches that were begun; then check finished ones, now and whenever there is a reason."""
        self._check_due.set()
        await self._complete_all(recovered.unfinished)
        while True:
            self.is_idle = not self._check_due.is_set()
            await self._check_due.wait()
            self.is_idle = False
            self._check_due.clear()
            if not await self._check():
                await asyncio.sleep(RETRY_S)
                self._check_due.set()
            if not self._check_due.is_set():
                self._needs_check = False
                self._resume_retention()

    def on_down(self) -> None:
        """ClickHouse does not answer: nothing can be checked."""
        self._journal.pause_retention(on=True)

    def on_up(self, *, lost: bool) -> None:
        """It does again."""
        if lost:
            self._journal.pause_retention(on=True)
            self._needs_check = True
            self._check_due.set()
        self._resume_retention()

    def _resume_retention(self) -> None:
        if not self._needs_check and self._context.availability.is_up:
            self._journal.pause_retention(on=False)

    async def _complete_all(self, batches: Sequence[Batch]) -> None:
        if not batches:
            return
        newest_first = deque(sorted(batches, key=lambda batch: (batch.made_ms, batch.ranges[-1]), reverse=True))
        with RecoveryProgress(self._context, len(newest_first)) as backlog:

            async def work_off() -> None:
                while newest_first:
                    await self._complete(newest_first.popleft())
                    backlog.completed()

            async with asyncio.TaskGroup() as workers:
                for _ in range(min(self._max_concurrent, len(newest_first))):
                    workers.create_task(work_off())

    async def _complete(self, batch: Batch) -> None:
        while True:
            try:
                good, bad, _ = await self._reader.read_batch(batch)
            except Exception:  # no memory, no threads: it is not about the batch
                self._context.log.exception("a batch cannot be made again now", batch=batch.batch_id)
                await asyncio.sleep(RETRY_S)
                continue
            for request in good:
                self._reader.count_recovered(request.sequence, request.signal, request.items)
            for entry, _ in bad:
                self._reader.count_recovered(entry.sequence, entry.request.signal, entry.request.accepted)
            if bad:
                await self._writer.split_off_undecodable(batch, good, bad)
            elif good:
                await self._writer.store(batch, good, again=True)
            return

    async def _check(self) -> bool:
        """Store what of finished batches is gone; whether all of it is there."""
        held = self._journal.retained_batches()
        complete, missing = True, await self._find_missing(held)
        for batch in held:
            places = missing.get(batch.batch_id)
            if places:
                try:
                    await self._reinsert_missing(batch, places)
                except Exception:  # the others are not to wait for it
                    self._context.log.exception("rows are gone and cannot be stored anew", batch=batch.batch_id)
                    complete = False
        return complete

    async def _reinsert_missing(self, batch: Batch, places: set[TableDay]) -> None:
        good = (await self._reader.read_batch(batch)).good
        anew = await self._writer.reinsert(batch, good, places)
        if anew:
            self._context.log.error(
                "rows were gone and are stored anew; `sluice repair` makes what is derived from them",
                places=sorted(anew),
            )

    async def _find_missing(self, held: Sequence[Batch]) -> Mapping[int, set[TableDay]]:
        while True:
            try:
                return await self._context.block_checker.find_missing(held, self._oldest_day())
            except Exception as error:  # noqa: BLE001 (whatever it is, nothing is removed before they are)
                reason = error.message if isinstance(error, StoreError) else repr(error)
                self._context.log.warning("the rows of batches cannot be counted", error=reason)
                await asyncio.sleep(RETRY_S)

    def _oldest_day(self) -> int:
        if not self._retention_days:
            return 0
        return self._context.clock() // NANOS_PER_DAY - self._retention_days + 1
