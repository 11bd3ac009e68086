"""What an earlier process left half done, and what ClickHouse lost after it had it.

A batch whose boundaries are on disk is made again from its requests: the same blocks under the same tokens, so whatever
of it was stored is not stored twice. A finished batch is checked as long as its requests are held: after a start that
no orderly end went before, and when ClickHouse comes back or has started anew, for it may have lost parts that it had
acknowledged. Until that is done the journal removes nothing for its age.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from chassis.clickhouse import StoreError
from gateway.conveyor.queued import Read, all_queued
from gateway.conveyor.sink import Sink
from gateway.conveyor.writer import Writer
from gateway.journal import Batch, Entry, Log, Place, Recovered
from proto.otlp.policy import NANOS_PER_DAY

RETRY_S: Final = 5.0


class Recovery:
    """Of one journal. `retention_days` (0: for ever) tells which rows may be gone for a good reason."""

    def __init__(self, journal: Log, writer: Writer, sink: Sink, retention_days: int) -> None:
        self._journal = journal
        self._writer = writer
        self._sink = sink
        self._retention_days = retention_days
        self._due = asyncio.Event()
        self.idle = False  # nothing is half done

    async def work(self, recovered: Recovered) -> None:
        """Store batches that were begun; then check finished ones whenever there is a reason."""
        if recovered.clean:
            self._journal.hold(on=False)
        else:
            self._due.set()
        for batch in recovered.unfinished:
            await self._complete(batch)
        while True:
            self.idle = not self._due.is_set()
            await self._due.wait()
            self.idle = False
            self._due.clear()
            await self._check(self._journal.held())
            if not self._due.is_set() and self._sink.availability.up:
                self._journal.hold(on=False)

    def away(self) -> None:
        """ClickHouse does not answer: nothing can be checked."""
        self._journal.hold(on=True)

    def back(self, *, lost: bool) -> None:
        """It does again."""
        if lost:
            self._journal.hold(on=True)
            self._due.set()
        elif not self._due.is_set():
            self._journal.hold(on=False)

    async def _complete(self, batch: Batch) -> None:
        good, bad = await self._requests(batch)
        for request in good:
            self._sink.tally.recovered(request.signal, request.items)
            self._sink.tally.redecoded(request.items, request.decoded.accepted)
        for entry, _ in bad:
            self._sink.tally.recovered(entry.request.signal, entry.request.accepted)
        if bad:
            await self._writer.part_with(batch, good, bad)
        elif good:
            await self._writer.store(batch, good, again=True)

    async def _check(self, held: Sequence[Batch]) -> None:
        """Store what of finished batches is gone."""
        missing = await self._missing(held)
        for batch in held:
            places = missing.get(batch.batch_id)
            if places:
                try:
                    await self._refill(batch, places)
                except Exception:  # the others are not to wait for it
                    self._sink.log.exception("rows are gone and cannot be stored anew", batch=batch.batch_id)

    async def _refill(self, batch: Batch, places: set[Place]) -> None:
        good, _ = await self._requests(batch)
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
            except StoreError as error:
                self._sink.log.warning("the rows of batches cannot be counted", error=error.message)
                await asyncio.sleep(RETRY_S)

    def _oldest_day(self) -> int:
        if not self._retention_days:
            return 0
        return self._sink.clock() // NANOS_PER_DAY - self._retention_days + 1

    async def _requests(self, batch: Batch) -> Read:
        entries = await self._members(batch)
        return await asyncio.get_running_loop().run_in_executor(self._sink.threads, all_queued, entries)

    async def _members(self, batch: Batch) -> list[Entry]:
        while True:
            try:
                entries = await self._journal.members(batch)
                self._writer.count_damaged()
                return entries
            except OSError as error:
                self._sink.log.warning("a batch of the journal cannot be read", batch=batch.batch_id, error=str(error))
                await asyncio.sleep(RETRY_S)
