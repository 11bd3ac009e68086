"""A journal that is open, as the one thread that works on it sees it: plain calls that block."""

import errno
import math
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

import structlog

from gateway.journal import quarantine
from gateway.journal.claims import Claim
from gateway.journal.damage import DIRECTORY as DAMAGED
from gateway.journal.damage import Damaged
from gateway.journal.entries import Clean, Skip, Split, begin_of, finish_of
from gateway.journal.files import Files
from gateway.journal.indexing import Steps
from gateway.journal.ledger import Ledger
from gateway.journal.metrics import JournalMetrics
from gateway.journal.quarantine import Quarantine
from gateway.journal.records import Batch, JournalLimits, Place, Request
from gateway.journal.segments import Segment, Writing, room_for
from gateway.journal.shelf import Shelf

SPACE_S: Final = 1.0  # between two looks at how much room the disk has
EXPIRY_S: Final = 3600.0
MIN_AGE_S: Final = 60.0  # of a segment that is sealed though it is not full
MIN_SEGMENT: Final = 64 * 2**10
_SEGMENTS_OF_QUOTA: Final = 8  # at least so many make up the quota


class NoRoom(OSError):
    """The disk has less room than is to be kept free."""


class Surroundings(NamedTuple):
    """What a journal is given. `clock` gives nanoseconds since 1970, `monotonic` seconds."""

    files: Files
    limits: JournalLimits
    metrics: JournalMetrics
    log: structlog.stdlib.BoundLogger
    clock: Callable[[], int]
    monotonic: Callable[[], float]


class OpenJournal:
    """See `startup.start` for how one comes to be."""

    def __init__(
        self, claim: Claim, around: Surroundings, ledger: Ledger, shelf: Shelf, damaged: Damaged, salt: bytes
    ) -> None:
        self.claim = claim
        self.ledger = ledger
        self.shelf = shelf
        self.low = False  # the disk is nearly full: nothing is to be taken
        self.nbytes = 0  # of segments
        self.charged = 0  # of segments that are not finished
        self.room_bytes = 0.0  # how much it may still take, of its quota and of the disk
        self._files, self._limits, self._metrics, self._log, self._clock, self._monotonic = around
        self._damaged = damaged
        self._salt = salt
        self._quarantine = Quarantine(self._files, claim.root / quarantine.DIRECTORY, self._clock)
        self._writing: Writing | None = None
        self._since = 0.0  # when it was begun
        self.unfinished_bytes = 0  # about
        self.oldest_ns: int | None = (
            None  # when the first request that is not finished was received; None: there is none
        )
        self._released: dict[int, int] = {}
        self._looked = self._expired = float("-inf")
        self._measure()

    @property
    def last(self) -> int:
        """The last sequence that was used."""
        return self.ledger.progress.next - 1

    def commit(self, requests: Sequence[Request]) -> int:
        """Write requests, all or none; on disk when this returns, and the sequence of the first. Raises OSError; then
        none is on disk, nor will be found there.
        """
        first = self.last + 1
        writing = self._writing_for(room_for(requests))
        before = writing.segment.length
        try:
            with self._metrics.sync_seconds.time():
                writing.append(requests, first)
        except OSError:
            self._abandon(writing, first, self.last + len(requests))
            raise
        self._metrics.group_requests.observe(len(requests))
        self.ledger.progress.mention(first + len(requests) - 1)
        self.nbytes += writing.segment.length - before
        self.charged += writing.segment.length - before
        return first

    def begin(self, batch: Batch) -> None:
        """Record a batch; on disk when this returns. Raises OSError; it is begun all the same."""
        self.ledger.note(begin_of(batch))
        self.ledger.flush()

    def finish(self, batch_id: int, rows: Mapping[Place, int]) -> None:
        """Record its end, on disk with the next flush."""
        batch = self.ledger.progress.begun.get(batch_id)
        if batch is None:
            self._log.error("a batch is finished that was never begun", batch=batch_id)
        else:
            self.ledger.note(finish_of(batch, rows, self._now_ms()))

    def split(self, batch_id: int, parts: Sequence[Batch]) -> None:
        """Record that a batch is now these. Raises OSError; it is split all the same."""
        self.ledger.note(Split(batch_id, tuple(begin_of(part) for part in parts)))
        self.ledger.flush()

    def set_aside(self, batch: Batch, reason: str) -> Steps[None]:
        """Keep the requests of a batch in quarantine, and finish it. Raises OSError; then it is as before."""
        for entry in (yield from self.shelf.members(batch)):
            self._quarantine.put(batch, entry, reason, self.claim.directory.name)
            yield
        self.ledger.note(finish_of(batch, None, self._now_ms()))
        self.ledger.flush()

    def tick(self) -> None:
        """Once a second or so: what was noted is written, what is finished is removed in time."""
        now = self._monotonic()
        if not self.ledger.settled:
            self._flush()
        if self._writing is not None and now - self._since >= max(self._limits.hold_s, MIN_AGE_S):
            self._seal(self._writing)
        if now - self._looked >= SPACE_S:
            self._look(0)
        self._note_finished(now)
        self._remove(
            lambda segment: segment.finished_at is not None and now - segment.finished_at >= self._limits.hold_s
        )
        if now - self._expired >= EXPIRY_S:
            self._expire(now)
        self._measure()

    def charges(self) -> dict[int, int]:
        """Bytes by project of what is not finished, at the start."""
        charges: dict[int, int] = {}
        for segment in self.shelf.segments:
            for project, size in segment.projects.items() if segment.finished_at is None else ():
                charges[project] = charges.get(project, 0) + size
        return charges

    def take_released(self) -> dict[int, int]:
        """Bytes by project of what is finished since this was last asked."""
        released, self._released = self._released, {}
        return released

    def close(self) -> None:
        """End in order, as far as the disk lets us."""
        if self._writing is not None:
            self._seal(self._writing)
        self.ledger.note(Clean(self.ledger.progress.next))
        self._flush()
        self.ledger.close()

    def _writing_for(self, size: int) -> Writing:
        """A segment with room for a group of so many bytes."""
        if self._writing is not None and self._writing.fits(size):
            return self._writing
        if self._writing is not None:
            self._seal(self._writing)
        room = max(self._segment_bytes, size + size // 8)
        self._look(room)
        self._measure()
        if self.low:
            raise NoRoom(errno.ENOSPC, "less room is left on the disk than is to be kept free")
        next_ = self.ledger.progress.next
        self._writing = Writing(self._files, self.claim.directory, next_, self._salt, room, self._clock)
        self._since = self._monotonic()
        self.shelf.add(self._writing.segment)
        return self._writing

    @property
    def _segment_bytes(self) -> int:
        """So small that segments of a small quota can be removed one by one."""
        size, quota = self._limits.segment_bytes, self._limits.max_bytes
        return min(size, max(quota // _SEGMENTS_OF_QUOTA, MIN_SEGMENT)) if quota else size

    def _seal(self, writing: Writing) -> None:
        self._writing = None
        self._note_sealed(writing.seal())

    def _note_sealed(self, segment: Segment) -> None:
        if segment.last >= segment.first:  # else another segment may have its name one day
            self.ledger.note(segment.facts())

    def _abandon(self, writing: Writing, first: int, last: int) -> None:
        """A group could not be written. Its requests are refused when this returns, so they must not be found later:
        they are cut off, and their sequences are skipped for ever; one of the two is enough.
        """
        self._writing = None
        self._metrics.failures.labels("write").inc()
        is_cut = writing.abandon()
        self.ledger.note(Skip(((first, last),), "refused"))
        self._note_sealed(writing.segment)
        if not self._flush() and not is_cut:
            self._log.error("requests that are refused may be stored after a crash", first=first, last=last)

    def _flush(self) -> bool:
        """Whether everything that was noted is on disk."""
        try:
            self.ledger.flush()
        except OSError as error:
            self._metrics.failures.labels("ledger").inc()
            self._log.error("the ledger of the journal cannot be written", error=str(error))
        return self.ledger.settled

    def _note_finished(self, now: float) -> None:
        finished = self.ledger.progress.finished
        for segment in self.shelf.segments:
            if segment.finished_at is not None or self._is_written(segment):
                continue
            if finished.covers(segment.first, segment.last):
                segment.finished_at = now
                for project, size in segment.projects.items():
                    self._released[project] = self._released.get(project, 0) + size
        self.ledger.progress.expire(self._now_ms() - int(self._limits.hold_s * 1000))

    def _look(self, room: int) -> None:
        """How much the disk has left, when `room` is to be taken of it. What is finished is removed before its time
        rather than that requests are refused.
        """
        self._looked = self._monotonic()
        self._note_finished(self._looked)
        quota = self._limits.max_bytes
        self._remove(lambda _: bool(quota) and self._bytes() + room > quota)
        self._remove(lambda _: self._is_low(room))
        low = self._is_low(room)
        if low != self.low:
            self._log.warning(
                "the disk of the journal is nearly full" if low else "the disk of the journal has room again"
            )
        self.low = low

    def _is_low(self, room: int) -> bool:
        return bool(self._limits.min_free_bytes) and self._free_bytes() < room

    def _free_bytes(self) -> float:
        """Of the disk, beyond what is to be kept free; without end where that is not known."""
        try:
            return self._files.free_bytes(self.claim.directory) - self._limits.min_free_bytes
        except OSError as error:
            self._log.error("the room of the journal's disk is not known", error=str(error))
            return math.inf

    def _remove(self, due: Callable[[Segment], bool]) -> None:
        """Remove finished segments, the oldest first, while they are due. That they are finished is on disk before."""
        for segment in [segment for segment in self.shelf.segments if segment.finished_at is not None]:
            if not due(segment):
                continue
            if not self.ledger.settled and not self._flush():
                return
            try:
                if segment.keep:
                    self._damaged.move(segment)
                else:
                    self._files.unlink(segment.path)
            except OSError as error:
                self._metrics.failures.labels("remove").inc()
                self._log.error("a segment of the journal cannot be removed", error=str(error))
                return
            self.shelf.remove(segment)

    def _held_for(self, segment: Segment, now: float) -> float:
        """Seconds since it was finished; less than 0 when it is not."""
        return -1.0 if segment.finished_at is None else now - segment.finished_at

    def _expire(self, now: float) -> None:
        self._expired = now
        for name in (quarantine.DIRECTORY, DAMAGED):
            try:
                quarantine.expire(self._files, self.claim.root / name, self._limits.quarantine_days, self._clock())
            except OSError as error:
                self._log.error("old files of the journal cannot be removed", directory=name, error=str(error))

    def _is_written(self, segment: Segment) -> bool:
        return self._writing is not None and self._writing.segment is segment

    def _bytes(self) -> int:
        return sum(segment.length for segment in self.shelf.segments)

    def _measure(self) -> None:
        self.nbytes = self._bytes()
        open_ = [segment for segment in self.shelf.segments if segment.finished_at is None]
        self.charged = sum(segment.length for segment in open_)
        quota = self._limits.max_bytes
        self.room_bytes = max(min(quota - self.charged if quota else math.inf, self._free_bytes()), 0.0)
        self.unfinished_bytes, self.oldest_ns = 0, None
        for segment in open_:
            holes = list(self.ledger.progress.finished.holes(segment.first, segment.last))
            missing = sum(last - first + 1 for first, last in holes)
            self.unfinished_bytes += segment.length * missing // max(segment.requests, missing, 1)
            if holes and self.oldest_ns is None:
                self.oldest_ns = segment.received_ns(holes[0][0])

    def _now_ms(self) -> int:
        return self._clock() // 10**6
