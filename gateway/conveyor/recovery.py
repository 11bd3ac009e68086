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
from gateway.conveyor.backlog import Backlog
from gateway.conveyor.reading import Reading
from gateway.conveyor.sink import Sink
from gateway.conveyor.writer import Writer
from gateway.journal import Batch, Log, Place, Recovered
from proto.otlp.policy import NANOS_PER_DAY

RETRY_S: Final = 5.0


class Recovery:
    """Of one journal. `retention_days` (0: for ever) tells which rows may be gone for a good reason; `at_once` batches
    are completed at a time.
    """

    def __init__(
        self, journal: Log, reading: Reading, writer: Writer, sink: Sink, retention_days: int, at_once: int
    ) -> None:
        self._journal = journal
        self._reading = reading
        self._writer = writer
        self._sink = sink
        self._retention_days = retention_days
        self._at_once = at_once
        self._due = asyncio.Event()
        self._unchecked = True  # ClickHouse may have lost something, and that was not looked into to the end yet
        self.idle = False  # nothing is half done

    async def work(self, recovered: Recovered) -> None:
        """Store batches that were begun; then check finished ones, now and whenever there is a reason."""
        self._due.set()
        await self._complete_all(recovered.unfinished)
        while True:
            self.idle = not self._due.is_set()
            await self._due.wait()
            self.idle = False
            self._due.clear()
            if not await self._check():
                await asyncio.sleep(RETRY_S)
                self._due.set()
            if not self._due.is_set():
                self._unchecked = False
                self._release()

    def away(self) -> None:
        """ClickHouse does not answer: nothing can be checked."""
        self._journal.hold(on=True)

    def back(self, *, lost: bool) -> None:
        """It does again."""
        if lost:
            self._journal.hold(on=True)
            self._unchecked = True
            self._due.set()
        self._release()

    def _release(self) -> None:
        if not self._unchecked and self._sink.availability.up:
            self._journal.hold(on=False)

    async def _complete_all(self, batches: Sequence[Batch]) -> None:
        if not batches:
            return
        newest_first = deque(sorted(batches, key=lambda batch: (batch.made_ms, batch.ranges[-1]), reverse=True))
        with Backlog(self._sink, len(newest_first)) as backlog:

            async def work_off() -> None:
                while newest_first:
                    await self._complete(newest_first.popleft())
                    backlog.completed()

            async with asyncio.TaskGroup() as workers:
                for _ in range(min(self._at_once, len(newest_first))):
                    workers.create_task(work_off())

    async def _complete(self, batch: Batch) -> None:
        while True:
            try:
                good, bad, _ = await self._reading.members(batch)
            except Exception:  # no memory, no threads: it is not about the batch
                self._sink.log.exception("a batch cannot be made again now", batch=batch.batch_id)
                await asyncio.sleep(RETRY_S)
                continue
            for request in good:
                self._reading.recovered(request.sequence, request.signal, request.items)
            for entry, _ in bad:
                self._reading.recovered(entry.sequence, entry.request.signal, entry.request.accepted)
            if bad:
                await self._writer.part_with(batch, good, bad)
            elif good:
                await self._writer.store(batch, good, again=True)
            return

    async def _check(self) -> bool:
        """Store what of finished batches is gone; whether all of it is there."""
        held = self._journal.held()
        complete, missing = True, await self._missing(held)
        for batch in held:
            places = missing.get(batch.batch_id)
            if places:
                try:
                    await self._refill(batch, places)
                except Exception:  # the others are not to wait for it
                    self._sink.log.exception("rows are gone and cannot be stored anew", batch=batch.batch_id)
                    complete = False
        return complete

    async def _refill(self, batch: Batch, places: set[Place]) -> None:
        good = (await self._reading.members(batch)).good
        anew = await self._writer.refill(batch, good, places)
        if anew:
            self._sink.log.error(
                "rows were gone and are stored anew; `sluice repair` makes what is derived from them",
                places=sorted(anew),
            )

    async def _missing(self, held: Sequence[Batch]) -> Mapping[int, set[Place]]:
        while True:
            try:
                return await self._sink.presence.missing(held, self._oldest_day())
            except Exception as error:  # noqa: BLE001 (whatever it is, nothing is removed before they are)
                reason = error.message if isinstance(error, StoreError) else repr(error)
                self._sink.log.warning("the rows of batches cannot be counted", error=reason)
                await asyncio.sleep(RETRY_S)

    def _oldest_day(self) -> int:
        if not self._retention_days:
            return 0
        return self._sink.clock() // NANOS_PER_DAY - self._retention_days + 1
