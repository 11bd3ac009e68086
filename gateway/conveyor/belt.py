"""One lane from the journal to ClickHouse, in bounded memory.

put         a request that is on disk: its columns wait here for a batch while there is room
leave       beyond that it is in the journal alone
_catch_up   once there is room again, what was left is read and decoded anew, in order, until nothing is left

While something is left, what comes has FRESH_SHARE of the memory, and what was left has the rest: a gateway that had to
read everything again from the first request without room on would decode everything twice until its load ends.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from gateway.batches.lane import Lane, LaneLimits
from gateway.conveyor.queued import Queued
from gateway.conveyor.reading import Reading
from gateway.conveyor.sink import Sink
from gateway.conveyor.writer import Writer
from gateway.journal import Entry, Log
from proto.otlp.policy import Decoded

READ_BYTES: Final = 2**20  # of the journal at once
DECODED_BYTES: Final = 16 * 2**20  # of columns made of them in one go: a busy event loop is slow to ask for the next
FRESH_SHARE: Final = 0.75  # of the memory, for what comes while something is left
RETRY_S: Final = 1.0


class Belt:
    """Requests of one lane. `max_bytes` is what their columns may take until they are stored."""

    def __init__(
        self,
        journal: Log,
        reading: Reading,
        writer: Writer,
        sink: Sink,
        limits: LaneLimits,
        max_bytes: int,
        *,
        slow: bool,
    ) -> None:
        self._journal = journal
        self._reading = reading
        self._writer = writer
        self._sink = sink
        self._lane = Lane(self._write, limits)
        self._max_bytes = max_bytes
        self._slow = slow
        self._held = 0  # bytes
        self._inside: set[int] = set()  # sequences that are in memory, until they are stored
        self._behind: int | None = None  # what was left is after this sequence
        self._last_left = 0  # and this is the last of it
        self._came_out: set[int] = set()  # sequences that were in memory when it was read last, and are stored since
        reading.inside.append(self._inside)
        self._left = asyncio.Event()
        self._room = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def full(self) -> bool:
        """Whether the next request would not be kept in memory."""
        return self._held >= self._max_bytes

    @property
    def idle(self) -> bool:
        """Nothing waits, is being written or is left to be read."""
        return self._behind is None and not self._inside

    def start(self, recover_to: int) -> None:
        """Begin, with what an earlier process left in the journal up to the sequence `recover_to`."""
        if recover_to:
            self.leave(recover_to)
            self._behind = 0
        self._task = asyncio.get_running_loop().create_task(self._catch_up())

    def put(self, sequence: int, decoded: Decoded, wire_bytes: int, received_ns: int) -> None:
        """A request is on disk, and to be stored."""
        most = self._max_bytes if self._behind is None else self._max_bytes * FRESH_SHARE
        if not self._journal.durable or not self._held or self._held + decoded.nbytes <= most:
            self._add(Queued(sequence, decoded, decoded.accepted, wire_bytes, received_ns))
        else:
            self.leave(sequence)

    def leave(self, sequence: int) -> None:
        """Read it from the journal when its turn comes. Sequences come in order."""
        if self._behind is None:
            self._behind = sequence - 1
        self._last_left = sequence
        self._left.set()

    async def drain(self) -> None:
        """Write what is in memory, and read no more."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._lane.drain()

    async def close(self) -> None:
        """Leave alone what is left and what is being written; the journal has it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        await self._lane.close()

    def _add(self, request: Queued) -> None:
        self._inside.add(request.sequence)
        self._held += request.decoded.nbytes
        self._lane.add(request)

    async def _write(self, batch: list[Queued]) -> None:
        batch.sort(key=lambda request: request.sequence)
        try:
            await self._writer.write(batch)
        finally:
            for request in batch:
                self._inside.discard(request.sequence)
                self._held -= request.decoded.nbytes
            if self._behind is not None:
                self._came_out.update(request.sequence for request in batch)
            self._room.set()

    async def _catch_up(self) -> None:
        while True:
            await self._left.wait()
            self._left.clear()
            while self._behind is not None:
                try:
                    await self._has_room()
                    await self._read_on(self._behind)
                except Exception:  # a disk that does not read now may do so later; what is left stays
                    self._sink.log.exception("the journal cannot be read")
                    await asyncio.sleep(RETRY_S)

    @property
    def _room_bytes(self) -> int:
        return self._max_bytes - self._held

    async def _has_room(self) -> None:
        while self._room_bytes <= 0:
            self._room.clear()
            await self._room.wait()

    async def _read_on(self, after: int) -> None:
        left_before = self._last_left
        self._came_out.clear()
        entries = await self._reading.behind(after, READ_BYTES, slow=self._slow)
        last = self._last_left  # what comes after it is in memory, or not known here yet
        await self._take_up([entry for entry in entries if self._is_left(entry.sequence)])
        read_to = min(entries[-1].sequence, last) if entries else left_before
        self._behind = read_to if read_to < self._last_left else None

    def _is_left(self, sequence: int) -> bool:
        return sequence <= self._last_left and sequence not in self._inside and sequence not in self._came_out

    async def _take_up(self, entries: Sequence[Entry]) -> None:
        while entries:
            await self._has_room()
            good, bad, entries = await self._reading.decoded(entries, min(DECODED_BYTES, self._room_bytes))
            for entry, error in bad:
                await self._writer.set_aside(entry, error)
            for request in good:
                self._add(request)
