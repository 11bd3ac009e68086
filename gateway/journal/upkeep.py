"""What becomes of segments: counted, held for a while after they are finished, removed; and how much room there is."""

import contextlib
import math
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final

from gateway.journal.damage import Damaged
from gateway.journal.expiry import Expiry
from gateway.journal.ledger import Ledger
from gateway.journal.records import Surroundings
from gateway.journal.segments import Segment
from gateway.journal.shelf import Shelf

SPACE_S: Final = 1.0  # between two looks at how much room the disk has
MIN_SEGMENT: Final = 64 * 2**10
_SEGMENTS_OF_QUOTA: Final = 8  # at least so many make up the quota


class Upkeep:
    """Of one journal, in `directory`."""

    def __init__(self, directory: Path, around: Surroundings, ledger: Ledger, shelf: Shelf, damaged: Damaged) -> None:
        self.holding = True  # nothing that is finished is removed for its age
        self.low = False  # the disk is nearly full: nothing is to be taken
        self.nbytes = 0  # of segments
        self.charged = 0  # of segments that are not finished
        self.unfinished_bytes = 0  # about
        self.oldest_ns: int | None = None  # receive time of the first request that is not finished, if there is one
        self._directory = directory
        self._around = around
        self._files, self._limits, self._log = around.files, around.limits, around.log
        self._ledger = ledger
        self._shelf = shelf
        self._damaged = damaged
        self._released: dict[int, int] = {}
        self._stuck: dict[int, int | None] = {}  # segments that cannot be removed, by first sequence, and why
        self._looked = -math.inf
        self._expiry = Expiry(
            around.files, directory.parent, around.limits.quarantine_days, around.clock, around.monotonic
        )
        self.free = math.inf  # bytes of the disk, beyond what is to be kept free; less than 0 if it has less
        self.measure()

    @property
    def segment_bytes(self) -> int:
        """How large a segment is: so small that those of a small quota can be removed one by one."""
        size, quota = self._limits.segment_bytes, self._limits.max_bytes
        return min(size, max(quota // _SEGMENTS_OF_QUOTA, MIN_SEGMENT)) if quota else size

    def charges(self) -> Mapping[int, int]:
        """Bytes by project of what is not finished."""
        charges: dict[int, int] = {}
        for segment in self._shelf.segments:
            for project, size in segment.projects.items() if segment.finished_at is None else ():
                charges[project] = charges.get(project, 0) + size
        return charges

    def take_released(self) -> Mapping[int, int]:
        """Bytes by project of what is finished since this was last asked."""
        released, self._released = self._released, {}
        return released

    def tick(self, *, writing: bool) -> None:
        """Once a second or so. `writing`: a segment takes the next group; else that needs room for one."""
        now = self._around.monotonic()
        if now - self._looked >= SPACE_S:
            self._look(0, 0 if writing else self.segment_bytes)
        self._note_finished(now)
        if not self.holding:
            self._remove(lambda segment: _age(segment, now) >= self._limits.hold_s)
            self._ledger.progress.expire(self._around.clock() // 10**6 - int(self._limits.hold_s * 1000))
        self._expire()
        self.measure()

    def has_room(self, room: int) -> bool:
        """Whether so much may be taken of the disk."""
        has_room = self._look(room, room)
        self.measure()
        return has_room

    def grown(self, size: int) -> None:
        """The segment that is being written to is so much larger."""
        self.nbytes += size
        self.charged += size

    def measure(self) -> None:
        """Count everything."""
        self.nbytes = self._bytes()
        unfinished = [segment for segment in self._shelf.segments if segment.finished_at is None]
        self.charged = sum(segment.length for segment in unfinished)
        self.unfinished_bytes, self.oldest_ns = 0, None
        for segment in unfinished:
            holes = list(self._ledger.progress.finished.holes(segment.first, segment.last))
            missing = sum(last - first + 1 for first, last in holes)
            self.unfinished_bytes += segment.length * missing // max(segment.requests, missing, 1)
            if holes and self.oldest_ns is None:
                self.oldest_ns = segment.received_ns(holes[0][0])

    def _note_finished(self, now: float) -> None:
        finished = self._ledger.progress.finished
        for segment in self._shelf.segments:
            if segment.finished_at is None and segment.sealed and finished.covers(segment.first, segment.last):
                segment.finished_at = now
                for project, size in segment.projects.items():
                    self._released[project] = self._released.get(project, 0) + size

    def _look(self, of_quota: int, of_disk: int) -> bool:
        """Whether the disk has so much left, when that is to be taken of it. What is finished is removed before its
        time rather than that requests are refused. A group that is larger than a segment may have no room though the
        disk is not full.
        """
        self._looked = self._around.monotonic()
        self._note_finished(self._looked)
        quota = self._limits.max_bytes
        self._remove(lambda _: bool(quota) and self._bytes() + of_quota > quota)
        if self._is_low(of_disk):
            self._remove(lambda _: self._is_low(of_disk))
        low = self._is_low(min(of_disk, self.segment_bytes))
        if low != self.low:
            self._log.warning("the disk of the journal is nearly full" if low else "the journal's disk has room again")
        self.low = low
        return not self._is_low(of_disk)

    def _is_low(self, room: int) -> bool:
        try:
            self.free = self._files.free_bytes(self._directory) - self._limits.min_free_bytes
        except OSError as error:
            self._log.error("the room of the journal's disk is not known", error=str(error))
            self.free = math.inf
        return bool(self._limits.min_free_bytes) and self.free < room

    def _remove(self, due: Callable[[Segment], bool]) -> None:
        """Remove finished segments, the oldest first, while they are due. That they are finished is on disk before. One
        that cannot be removed does not keep the others there.
        """
        stuck = False
        for segment in [segment for segment in self._shelf.segments if segment.finished_at is not None]:
            if not due(segment):
                continue
            if not self._recorded():
                break
            try:
                self._take_away(segment)
            except OSError as error:
                stuck = True
                self._say_stuck(segment, error)
            else:
                self._stuck.pop(segment.first, None)
                self._shelf.remove(segment)
        if stuck:
            self._around.metrics.failures.labels("remove").inc()

    def _recorded(self) -> bool:
        with contextlib.suppress(OSError):  # the ledger has said so
            if not self._ledger.settled:
                self._ledger.flush()
        return self._ledger.settled

    def _take_away(self, segment: Segment) -> None:
        if segment.keep:
            self._damaged.move(segment)
        else:
            self._files.unlink(segment.path)

    def _say_stuck(self, segment: Segment, error: OSError) -> None:
        """Once, though it is tried again every second; and when the reason is another one."""
        if self._stuck.get(segment.first) != error.errno:
            self._stuck[segment.first] = error.errno
            self._log.error("a segment of the journal cannot be removed", segment=str(segment.path), error=str(error))

    def _expire(self) -> None:
        try:
            self._expiry.tick()
        except OSError as error:
            self._log.error("old files of the journal cannot be removed", error=str(error))

    def _bytes(self) -> int:
        return sum(segment.length for segment in self._shelf.segments)


def _age(segment: Segment, now: float) -> float:
    """Seconds since it was finished; less than 0 when it is not."""
    return -1.0 if segment.finished_at is None else now - segment.finished_at
