"""A batch of acknowledged requests becomes rows, however long that takes.

    write       the boundaries of the batch are on disk before anything is sent
      store     blocks, spans and logs first; each is sent under its token until ClickHouse has it
        finish  the journal learns that its requests are stored

A block that ClickHouse refuses for good is narrowed down: the batch is split by project, then by halves, each part with
boundaries and tokens of its own, until the request that it is about stands alone. That one is set aside, with the
reason, and can be put back.
"""

import asyncio
import random
import secrets
from collections.abc import Awaitable, Callable, Sequence
from typing import Final

from chassis.clickhouse import StoreBusy, StoreError, StoreRejected, StoreUnavailable
from chassis.errors import ApiError
from gateway.batches.blocks import MAIN_TABLES, Place, parts_of, sealed_blocks
from gateway.batches.insert import Sealed, new_batch_id
from gateway.conveyor.presence import COUNTED
from gateway.conveyor.queued import Queued, ranges
from gateway.conveyor.sink import Sink
from gateway.journal import Batch, Entry, Log
from gateway.outcomes import REFUSED
from proto.otlp.policy import Signal
from proto.storage.tables import INGEST_OUTCOMES

MAX_BACKOFF_S: Final = 0.25
PATIENCE_S: Final = 60.0  # between two looks at whether the gateway is still to wait for ClickHouse
RECORD_TRIES: Final = 30
RECORD_RETRY_S: Final = 1.0


class Writer:
    """Writes batches of one journal. One instance serves all of them, several at a time."""

    def __init__(self, journal: Log, sink: Sink) -> None:
        self._journal = journal
        self._sink = sink

    async def write(self, requests: Sequence[Queued]) -> None:
        """Make a batch of requests, in the order of their sequences, and store it."""
        batch = self._batch(requests, self._sink.clock() // 10**6)
        try:
            await self._recorded(lambda: self._journal.begin(batch))
        except (ApiError, OSError) as error:
            # The disk does not take a few bytes for half a minute: what it holds may be lost soon, so better the rows
            # twice, should the process end before it is back, than not at all.
            self._sink.log.exception("a batch is stored without a record of its boundaries", error=str(error))
        await self.store(batch, requests)

    async def store(self, batch: Batch, requests: Sequence[Queued], *, again: bool = False) -> None:
        """Store a batch whose boundaries are on disk, but for its places that are `skip`ped: they are stored already.

        `again`: an earlier process may have stored some of it. What ClickHouse then takes for a repetition is counted.
        """
        try:
            blocks = await self._blocks(batch, requests)
        except Exception as error:  # noqa: BLE001 (requests that were decoded and cannot be written: find them)
            await self._narrow(batch, requests, {}, error)
            return
        rows: dict[Place, int] = {}
        for sealed in blocks:
            place = sealed.block.table, sealed.block.day
            try:
                await self._insert(sealed, again=again)
            except Exception as error:  # noqa: BLE001 (refused for good, or a defect: narrowed down either way)
                if sealed.block.table in MAIN_TABLES:
                    await self._narrow(batch, requests, rows, error)
                    return
                self._lose(sealed, error)
            rows[place] = sealed.block.rows
        self._journal.finish(batch.batch_id, rows)
        self._sink.metrics.batches.labels("stored").inc()
        for request in requests:
            self._sink.tally.stored(request.signal, request.items)

    async def refill(self, batch: Batch, requests: Sequence[Queued], places: set[Place]) -> None:
        """Store places of a finished batch once more: their rows are gone, their tokens are not."""
        for sealed in await self._blocks(batch, requests):
            if (sealed.block.table, sealed.block.day) in places:
                await self._until_in(sealed.again(secrets.token_hex(4)))

    async def set_aside(self, entry: Entry, error: Exception) -> None:
        """A request that cannot even be decoded any more."""
        batch = self._single(entry, self._sink.clock() // 10**6)
        await self._recorded(lambda: self._journal.begin(batch))
        await self._quarantine(batch, _reason(error))
        self._set_aside(entry.request.signal, entry.request.accepted)

    async def part_with(self, batch: Batch, good: Sequence[Queued], bad: Sequence[tuple[Entry, Exception]]) -> Batch:
        """Set aside those requests of a batch that cannot be decoded. What is left of it keeps its id, and so its
        tokens: it may be stored already.
        """
        rest = batch._replace(ranges=ranges(good))
        parts = {self._single(entry, batch.made_ms): (entry, error) for entry, error in bad}
        await self._recorded(lambda: self._journal.split(batch.batch_id, [*parts, *([rest] if good else [])]))
        for part, (entry, error) in parts.items():
            await self._quarantine(part, _reason(error))
            self._set_aside(entry.request.signal, entry.request.accepted)
        return rest

    async def _blocks(self, batch: Batch, requests: Sequence[Queued]) -> list[Sealed]:
        loop = asyncio.get_running_loop()
        blocks = await loop.run_in_executor(self._sink.threads, sealed_blocks, requests, batch.batch_id, batch.made_ms)
        return [sealed for sealed in blocks if (sealed.block.table, sealed.block.day) not in batch.skip]

    async def _insert(self, sealed: Sealed, *, again: bool) -> None:
        await self._until_in(sealed)
        if again and sealed.block.table in COUNTED and not await self._is_there(sealed):
            self._sink.log.warning(
                "a part was lost, and is stored anew", table=sealed.block.table, day=sealed.block.day
            )
            await self._until_in(sealed.again(secrets.token_hex(4)))

    async def _is_there(self, sealed: Sealed) -> bool:
        while True:
            try:
                place = sealed.block.table, sealed.block.day
                return bool(await self._sink.presence.present(place, [sealed.batch_id]))
            except StoreError as error:
                self._sink.log.warning("rows cannot be counted", table=sealed.block.table, error=error.message)
                await asyncio.sleep(RECORD_RETRY_S)

    async def _until_in(self, sealed: Sealed) -> None:
        """Insert, again with the same token after a transient failure. Raises what is final."""
        while True:
            if not await self._sink.availability.wait(PATIENCE_S):
                continue
            try:
                return await self._sink.inserter.insert(sealed)
            except StoreUnavailable as error:
                if not isinstance(error, StoreBusy):
                    self._sink.availability.failed(error, sealed.block.table)
            await asyncio.sleep(random.uniform(0.0, MAX_BACKOFF_S))  # noqa: S311 (jitter)

    async def _narrow(
        self, batch: Batch, requests: Sequence[Queued], stored: dict[Place, int], error: Exception
    ) -> None:
        """`stored` are the places of the batch that are in."""
        skip = batch.skip | stored.keys()
        if len(requests) > 1:
            groups = parts_of(requests)
            parts = [self._batch(group, batch.made_ms)._replace(skip=skip) for group in groups]
            await self._recorded(lambda: self._journal.split(batch.batch_id, parts))
            for part, group in zip(parts, groups, strict=True):
                await self.store(part, group)
            return
        (request,) = requests
        self._sink.metrics.batches.labels("quarantined").inc()
        self._sink.log.error(
            "request set aside",
            project_id=request.decoded.project_id,
            signal=request.signal,
            items=request.items,
            error=_reason(error),
            exc_info=None if isinstance(error, StoreRejected) else error,
        )
        skip |= await self._derive(batch, requests, skip)
        await self._quarantine(batch._replace(skip=skip), _reason(error))
        self._set_aside(request.signal, request.items)

    async def _derive(self, batch: Batch, requests: Sequence[Queued], stored: frozenset[Place]) -> set[Place]:
        """Store what belongs to the stored days of a request of which another day is refused: they stay, so they are
        to be found. Its outcome is counted when it is put back. The places that are in.
        """
        days = {day for table, day in stored if table in MAIN_TABLES}
        if not days:
            return set()
        places: set[Place] = set()
        for sealed in await self._blocks(batch._replace(skip=stored), requests):
            block = sealed.block
            if block.table in MAIN_TABLES or block.table == INGEST_OUTCOMES.name or block.day not in days:
                continue
            try:
                await self._until_in(sealed)
                places.add((block.table, block.day))
            except StoreRejected as error:
                self._lose(sealed, error)
        return places

    def _set_aside(self, signal: Signal, items: int) -> None:
        if self._journal.durable:
            self._sink.tally.quarantined(signal, items)
        else:
            self._sink.tally.lost(signal, items, REFUSED)

    async def _quarantine(self, batch: Batch, reason: str) -> None:
        await self._recorded(lambda: self._journal.set_aside(batch, reason))

    async def _recorded(self, record: Callable[[], Awaitable[None]]) -> None:
        """Tried for half a minute: a full disk may have room again."""
        for _ in range(RECORD_TRIES):
            try:
                await record()
                return
            except (ApiError, OSError):
                await asyncio.sleep(RECORD_RETRY_S)
        await record()

    def _batch(self, requests: Sequence[Queued], made_ms: int) -> Batch:
        return Batch(new_batch_id(), made_ms, ranges(requests))

    def _single(self, entry: Entry, made_ms: int) -> Batch:
        return Batch(new_batch_id(), made_ms, ((entry.sequence, entry.sequence),))

    def _lose(self, sealed: Sealed, error: Exception) -> None:
        """Derived rows that are refused for good: their spans and logs are there, `sluice repair` derives them anew."""
        block = sealed.block
        self._sink.metrics.lost_rows.labels(block.table).inc(block.rows)
        self._sink.log.error("rows lost", table=block.table, day=block.day, rows=block.rows, reason=_reason(error))


def _reason(error: Exception) -> str:
    return error.message if isinstance(error, StoreError) else f"{type(error).__name__}: {error}"
