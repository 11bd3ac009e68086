"""Reads requests back from the journal, and counts the recovered and the damaged ones.

A request that an earlier process accepted counts as recovered when any read first finds it, readable or not. A damaged
request counts as lost, unless it is in memory and will be stored from there.
"""

import asyncio
import math
from collections.abc import Callable, Container, Sequence
from typing import Final

from gateway.ingest.pending_requests import DecodeResult, PendingRequest, decode_entries, decode_large_entry
from gateway.inserts.insert_context import InsertContext
from gateway.journal import Batch, Entry, JournalLike, RangeSet
from gateway.metrics import DAMAGED
from proto.otlp.policy import Signal

RETRY_S: Final = 5.0


class JournalReader:
    """Reads and decodes the requests of one journal. Shared by its lanes, its batch writer and its recovery."""

    def __init__(self, journal: JournalLike, context: InsertContext) -> None:
        self._journal = journal
        self._context = context
        self._recovered = RangeSet()
        self.last_earlier_sequence = 0  # the last sequence of earlier processes
        self.in_memory: list[Container[int]] = []  # sequences of requests in memory, one container per lane

    async def read_after(self, after: int, max_bytes: int, *, slow: bool) -> list[Entry]:
        """Requests of a lane after the sequence `after` that are in no batch. Raises OSError."""
        entries = await self._journal.read(after, max_bytes, slow=slow)
        self.count_damaged()
        for entry in entries:
            self.count_recovered(entry.sequence, entry.request.signal, entry.request.accepted)
        return entries

    async def read_batch(self, batch: Batch) -> DecodeResult:
        """The requests of a batch, decoded. Waits while the disk cannot be read. Raises MemoryError, RuntimeError."""
        return await self.decode(await self._read_entries(batch))

    async def decode(self, entries: Sequence[Entry], max_bytes: float = math.inf) -> DecodeResult:
        """Decode in a thread, until the columns take `max_bytes`. Raises MemoryError, RuntimeError."""
        good: list[PendingRequest] = []
        bad: list[tuple[Entry, Exception]] = []
        nbytes = 0
        while entries and nbytes < max_bytes:
            read = await self._decode_some(entries, max_bytes - nbytes)
            good += read.good
            bad += read.bad
            entries = read.remaining
            nbytes += sum(request.decoded.nbytes for request in read.good)
        for request in good:
            self._context.accounting.redecoded(request.items, request.decoded.accepted)
        return DecodeResult(good, bad, entries)

    async def _decode_some(self, entries: Sequence[Entry], max_bytes: float) -> DecodeResult:
        """Decode at least one entry. A body that raises LargeJsonBody is decoded alone, one at a time per process."""
        read = await self._in_thread(decode_entries, entries, max_bytes)
        if len(read.remaining) < len(entries):
            return read
        async with self._context.large_json_lock:
            read = await self._in_thread(decode_large_entry, entries[0])
        return read._replace(remaining=entries[1:])

    async def _in_thread(self, decode: Callable[..., DecodeResult], *arguments: object) -> DecodeResult:
        return await asyncio.get_running_loop().run_in_executor(self._context.threads, decode, *arguments)

    def count_damaged(self) -> None:
        """Count the requests as lost that the journal has found damaged since the last call."""
        for damaged in self._journal.take_damaged():
            if damaged.first == damaged.last and any(damaged.first in sequences for sequences in self.in_memory):
                continue
            signal = damaged.signal or "traces"
            self.count_recovered(damaged.first, signal, damaged.items, damaged.last)
            self._context.accounting.lost(signal, damaged.items, DAMAGED)

    def count_recovered(self, first: int, signal: Signal, items: int, last: int | None = None) -> None:
        """Count one or several requests that were found and are not stored, once, if an earlier process accepted them;
        those of this process were counted when they were accepted.
        """
        if first <= self.last_earlier_sequence and first not in self._recovered:
            self._recovered.add(first, first if last is None else last)
            self._context.accounting.recovered(signal, items)

    async def _read_entries(self, batch: Batch) -> list[Entry]:
        while True:
            try:
                entries = await self._journal.read_batch(batch)
            except OSError as error:
                self._context.log.warning(
                    "a batch cannot be read from the journal", batch=batch.batch_id, error=str(error)
                )
                await asyncio.sleep(RETRY_S)
            else:
                self.count_damaged()
                return entries
