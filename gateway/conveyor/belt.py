"""One lane from the journal to ClickHouse, in bounded memory.

put         a request that is on disk: its columns wait here for a batch while its project has room (`Shares`)
left        beyond that it is in the journal alone, and so is everything of its project after it
_catch_up   once there is room again, what was left is read and decoded anew, in order, until nothing is left
_look_over  now and then, whether the journal has something that is in none of these places

What is caught up with leaves memory free: who has nothing left behind does not wait for it, be it the backlog of
another project or of an earlier process.
"""

import asyncio
import contextlib
from collections.abc import Sequence
from typing import Final

from gateway.batches.lane import Lane, LaneLimits
from gateway.conveyor.queued import Queued
from gateway.conveyor.reading import Reading
from gateway.conveyor.sink import Sink
from gateway.conveyor.writer import Writer
from gateway.journal import Entry, Log
from gateway.shares import Shares
from proto.otlp.policy import Decoded

READ_BYTES: Final = 2**20  # of the journal at once
DECODED_BYTES: Final = 16 * 2**20  # of columns made of them in one go: a busy event loop is slow to ask for the next
RETRY_S: Final = 1.0
LOOK_S: Final = 10.0  # between two looks for what was overlooked


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
        self._slow = slow
        self._memory: Shares[int] = Shares(max_bytes)  # by project
        self._caught_up: dict[int, int] = {}  # of what is in memory, that was read: bytes by sequence
        self._caught_up_bytes = 0
        self._inside: set[int] = set()  # sequences that are in memory, until they are stored
        self._ended: set[int] = set()  # of them, what is not since the read that is under way began
        self._behind: int | None = None  # what is after this sequence, and not in memory, is read from the journal
        self._deferred = 0  # the last sequence that was left to be read
        self._left_of: dict[int, int] = {}  # the same by project, while something is left
        self._is_reading = False
        self._look_at = 0.0  # by the loop's clock
        self._looked_to = 0  # nothing up to this sequence was overlooked, or it is read again
        reading.inside.append(self._inside)
        self._left = asyncio.Event()
        self._room = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def full(self) -> bool:
        """Whether the next request would not be kept in memory."""
        return self._memory.taken >= self._memory.most

    @property
    def idle(self) -> bool:
        """Nothing waits, is being written or is left to be read."""
        return self._behind is None and not self._inside

    def start(self, recover_to: int) -> None:
        """Begin, with what an earlier process left in the journal up to the sequence `recover_to`."""
        if recover_to:
            self.leave(recover_to)
            self._behind = 0
        loop = asyncio.get_running_loop()
        self._look_at = loop.time() + LOOK_S
        self._task = loop.create_task(self._catch_up())

    def put(self, sequence: int, decoded: Decoded, wire_bytes: int, received_ns: int) -> None:
        """A request is on disk, and to be stored."""
        project = decoded.project_id
        room = not self._is_behind(project) and self._memory.permits(project, decoded.nbytes)
        if room or not self._journal.durable:
            self._add(Queued(sequence, decoded, decoded.accepted, wire_bytes, received_ns))
        else:
            self._left_of[project] = sequence
            self.leave(sequence)

    def leave(self, sequence: int) -> None:
        """Read it from the journal when its turn comes."""
        self._behind = sequence - 1 if self._behind is None else min(self._behind, sequence - 1)
        self._deferred = max(self._deferred, sequence)
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

    def _is_behind(self, project: int) -> bool:
        """Whether a project has requests that are left to be read: the next ones follow them."""
        last = self._left_of.get(project)
        if last is not None and (self._behind is None or last <= self._behind):
            del self._left_of[project]
            last = None
        return last is not None

    def _add(self, request: Queued, *, caught_up: bool = False) -> None:
        nbytes = request.decoded.nbytes
        self._inside.add(request.sequence)
        self._memory.change(request.decoded.project_id, nbytes)
        if caught_up:
            self._caught_up[request.sequence] = nbytes
            self._caught_up_bytes += nbytes
        self._lane.add(request)

    async def _write(self, batch: list[Queued]) -> None:
        batch.sort(key=lambda request: request.sequence)
        try:
            await self._writer.write(batch)
        finally:
            for request in batch:
                self._inside.discard(request.sequence)
                self._ended.add(request.sequence)
                self._memory.change(request.decoded.project_id, -request.decoded.nbytes)
                self._caught_up_bytes -= self._caught_up.pop(request.sequence, 0)
            if not self._is_reading:
                self._ended.clear()
            self._room.set()

    async def _catch_up(self) -> None:
        while True:
            await self._is_left()
            try:
                if self._behind is None:
                    await self._look_over()
                else:
                    await self._has_room()
                    await self._read_on(self._behind)
            except Exception:  # a disk that does not read now may do so later; what is left stays
                self._sink.log.exception("the journal cannot be read")
                await asyncio.sleep(RETRY_S)

    async def _is_left(self) -> None:
        """Wait until something is left, or until it is time for the next look."""
        if self._behind is None:
            self._left.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._look_at):
                    await self._left.wait()

    async def _look_over(self) -> None:
        """The oldest request that the journal offers is in memory, or left to be read. If it is in neither, by a defect
        of ours, it would wait for the next process: it is read again, with what is behind it. Once: what is stored and
        could not be recorded (`Writer.write`) looks the same.
        """
        self._look_at = asyncio.get_running_loop().time() + LOOK_S
        entries = await self._read(self._looked_to, 1)
        known = self._inside | self._ended
        for sequence in (entry.sequence for entry in entries if entry.sequence not in known):
            if self._behind is None or sequence <= self._behind:
                self._looked_to = self._journal.last
                self._sink.metrics.overlooked_requests.inc()
                self._sink.log.error("a request of the journal was overlooked and is read again", sequence=sequence)
                self.leave(sequence)

    @property
    def _room_bytes(self) -> int:
        """For what is caught up with: a quarter stays free of it. A quarter it may always take, and one request,
        however large.
        """
        most = self._memory.most
        room = max(most - most // 4 - self._memory.taken, most // 4 - self._caught_up_bytes)
        return room if self._caught_up else max(room, 1)

    async def _has_room(self) -> None:
        while self._room_bytes <= 0:
            self._room.clear()
            await self._room.wait()

    async def _read_on(self, after: int) -> None:
        deferred = self._deferred
        entries = await self._read(after, READ_BYTES)
        if entries:
            known = self._inside | self._ended
            await self._take_up([entry for entry in entries if entry.sequence not in known])
            if self._behind is not None and self._behind >= after:  # not set back meanwhile
                self._behind = entries[-1].sequence
        elif self._behind == after and self._deferred == deferred:
            self._behind = None  # nothing was left while it was read: from here on requests wait in memory again
            self._left_of.clear()

    async def _read(self, after: int, max_bytes: int) -> list[Entry]:
        """What is read may have been in memory when the read began, and be stored when it ends."""
        self._ended.clear()
        self._is_reading = True
        try:
            return await self._reading.behind(after, max_bytes, slow=self._slow)
        finally:
            self._is_reading = False

    async def _take_up(self, entries: Sequence[Entry]) -> None:
        while entries:
            await self._has_room()
            good, bad, entries = await self._reading.decoded(entries, min(DECODED_BYTES, self._room_bytes))
            for entry, error in bad:
                await self._writer.set_aside(entry, error)
            for request in good:
                self._add(request, caught_up=True)
