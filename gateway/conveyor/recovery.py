"""What an earlier process left half done, and what ClickHouse lost after it had it.

A batch whose boundaries are on disk is made again from its requests: the same blocks under the same tokens, so whatever
of it was stored is not stored twice. A finished batch is checked as long as its requests are held: after a start that
no orderly end went before, and when ClickHouse comes back, for it may have lost parts that it had acknowledged.
"""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Final

from chassis.clickhouse import StoreError
from gateway.conveyor.queued import Read, all_queued
from gateway.conveyor.sink import Sink
from gateway.conveyor.writer import Writer
from gateway.journal import Batch, Log, Place
from proto.otlp.policy import NANOS_PER_DAY

RETRY_S: Final = 5.0


class Recovery:
    """Of one journal. `retention_days` (0: for ever) tells which rows may be gone for a good reason."""

    def __init__(self, journal: Log, writer: Writer, sink: Sink, retention_days: int) -> None:
        self._journal = journal
        self._writer = writer
        self._sink = sink
        self._retention_days = retention_days

    async def complete(self, unfinished: Sequence[Batch]) -> None:
        """Store batches that were begun."""
        for batch in unfinished:
            try:
                await self._complete(batch)
            except Exception:  # (the next batch is not to wait for it; the next start tries it again)
                self._sink.log.exception("a batch of an earlier process could not be stored", batch=batch.batch_id)

    async def _complete(self, batch: Batch) -> None:
        good, bad = await self._requests(batch)
        for request in good:
            self._sink.tally.recovered(request.signal, request.items)
            self._sink.tally.redecoded(request.items, request.decoded.accepted)
        for entry, _ in bad:
            self._sink.tally.recovered(entry.request.signal, entry.request.accepted)
        if bad:
            batch = await self._writer.part_with(batch, good, bad)
        if good:
            await self._writer.store(batch, good, again=True)

    async def check(self, held: Sequence[Batch]) -> None:
        """Store what of finished batches is gone."""
        missing = await self._missing(held)
        for batch in held:
            places = missing.get(batch.batch_id)
            if places:
                good, _ = await self._requests(batch)
                await self._writer.refill(batch, good, places)
                self._sink.log.error(
                    "rows were gone and are stored anew; `sluice repair` makes what is derived from them",
                    places=sorted(places),
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
        entries = await self._journal.members(batch)
        return await asyncio.get_running_loop().run_in_executor(self._sink.threads, all_queued, entries)
