"""What is read from the journal again, and what of it is counted.

A request that an earlier process accepted counts as recovered when it is first seen, whoever sees it and whether it can
be read or not; one that is damaged counts as lost, unless it is in memory and will be stored from there.
"""

import asyncio
import math
from collections.abc import Callable, Container, Sequence
from typing import Final

from gateway.conveyor.queued import Queued, Read, all_queued, large_queued
from gateway.conveyor.sink import Sink
from gateway.journal import Batch, Entry, Log, Ranges
from gateway.outcomes import DAMAGED
from proto.otlp.policy import Signal

RETRY_S: Final = 5.0


class Reading:
    """Of one journal."""

    def __init__(self, journal: Log, sink: Sink) -> None:
        self._journal = journal
        self._sink = sink
        self._recovered = Ranges()
        self.earlier = 0  # the last sequence of earlier processes
        self.inside: list[Container[int]] = []  # sequences of requests that are in memory

    async def behind(self, after: int, max_bytes: int, *, slow: bool) -> list[Entry]:
        """Requests of a lane that are in no batch. Raises OSError."""
        entries = await self._journal.read(after, max_bytes, slow=slow)
        self.count_damaged()
        for entry in entries:
            self.recovered(entry.sequence, entry.request.signal, entry.request.accepted)
        return entries

    async def members(self, batch: Batch) -> Read:
        """The requests of a batch, decoded. Waits for a disk that cannot be read. Raises MemoryError, RuntimeError."""
        return await self.decoded(await self._entries(batch))

    async def decoded(self, entries: Sequence[Entry], most_bytes: float = math.inf) -> Read:
        """They are decoded in a thread, until their columns take `most_bytes`. Raises MemoryError, RuntimeError."""
        good: list[Queued] = []
        bad: list[tuple[Entry, Exception]] = []
        nbytes = 0
        while entries and nbytes < most_bytes:
            read = await self._decoded_on(entries, most_bytes - nbytes)
            good += read.good
            bad += read.bad
            entries = read.left
            nbytes += sum(request.decoded.nbytes for request in read.good)
        for request in good:
            self._sink.tally.redecoded(request.items, request.decoded.accepted)
        return Read(good, bad, entries)

    async def _decoded_on(self, entries: Sequence[Entry], most_bytes: float) -> Read:
        """At least one of them; a body that is LargeJson alone, and one of these at a time of all journals."""
        read = await self._in_thread(all_queued, entries, most_bytes)
        if len(read.left) < len(entries):
            return read
        async with self._sink.large_json:
            read = await self._in_thread(large_queued, entries[0])
        return read._replace(left=entries[1:])

    async def _in_thread(self, decode: Callable[..., Read], *arguments: object) -> Read:
        return await asyncio.get_running_loop().run_in_executor(self._sink.threads, decode, *arguments)

    def count_damaged(self) -> None:
        """Requests were found that cannot be read any more: nobody waits for them."""
        for lost in self._journal.damaged():
            if lost.first == lost.last and any(lost.first in inside for inside in self.inside):
                continue
            signal = lost.signal or "traces"
            self.recovered(lost.first, signal, lost.items, lost.last)
            self._sink.tally.lost(signal, lost.items, DAMAGED)

    def recovered(self, first: int, signal: Signal, items: int, last: int | None = None) -> None:
        """A request that is not stored was found, or several; ours were counted when they were accepted."""
        if first <= self.earlier and first not in self._recovered:
            self._recovered.add(first, first if last is None else last)
            self._sink.tally.recovered(signal, items)

    async def _entries(self, batch: Batch) -> list[Entry]:
        while True:
            try:
                entries = await self._journal.members(batch)
            except OSError as error:
                self._sink.log.warning("a batch of the journal cannot be read", batch=batch.batch_id, error=str(error))
                await asyncio.sleep(RETRY_S)
            else:
                self.count_damaged()
                return entries
