"""The space of a journal.

    SpaceQuota   admits requests: by the quota, the share of each project, the free space of the disk
    Retention    accounts for segments, removes finished ones after a hold period, checks quota and disk space
    Expiry       deletes old files of `quarantine/` and `damaged/`

The age of a file depends on the wall clock, which may be wrong: a start with a clock in the year 2100 must not delete
everything. So a file is deleted only if two consecutive checks, an hour apart by the monotonic clock, find that it is
old. A file that is dated before 2020 is kept.
"""

import contextlib
import math
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Final

from chassis.errors import ServiceUnavailable
from chassis.limits.fairness import fair_share
from gateway.journal.storage import quarantine
from gateway.journal.storage.files import Files, JournalContext
from gateway.journal.storage.ledger import Ledger
from gateway.journal.storage.scanning import read_header
from gateway.journal.storage.segment_set import SegmentSet
from gateway.journal.storage.segments import Segment

CHECK_INTERVAL_S: Final = 3600.0
_MS_PER_DAY: Final = 86_400_000
_EARLIEST_MS: Final = 1_577_836_800_000  # 2020


class Expiry:
    """Expires files in the directories that the journals in `root` share. `days` 0: no file expires."""

    def __init__(
        self, files: Files, root: Path, days: int, clock: Callable[[], int], monotonic: Callable[[], float]
    ) -> None:
        self._files = files
        self._directories = [root / quarantine.QUARANTINE_DIRECTORY, root / quarantine.DAMAGED_DIRECTORY]
        self._days = days
        self._clock = clock
        self._monotonic = monotonic
        self._last_check = monotonic()
        self._old_at_last_check: frozenset[Path] = frozenset()  # the last check was at least an hour ago

    def tick(self) -> None:
        """Called about once a second; checks once an hour. Raises OSError; the next attempt is an hour later."""
        now = self._monotonic()
        if not self._days or now - self._last_check < CHECK_INTERVAL_S:
            return
        self._last_check = now
        old = frozenset(path for directory in self._directories for path in self._list_old(directory))
        due, self._old_at_last_check = sorted(old & self._old_at_last_check), old
        for path in due:
            self._files.unlink(path)

    def _list_old(self, directory: Path) -> Sequence[Path]:
        cutoff_ms = self._clock() // 10**6 - self._days * _MS_PER_DAY
        paths = [
            directory / name
            for name in self._files.list_existing(directory)
            if _name_timestamp_ms(name, cutoff_ms) < cutoff_ms
        ]
        return [path for path in paths if _EARLIEST_MS <= self._stored_at_ms(path) < cutoff_ms]

    def _stored_at_ms(self, path: Path) -> int:
        """When a file was stored. The name of a file in quarantine has the time of its batch, which may be much older
        if the request was requeued and quarantined again, so the time in the header of its segment is used. Raises
        OSError.
        """
        name_ms = _name_timestamp_ms(path.name, 0)
        if path.parent.name != quarantine.QUARANTINE_DIRECTORY:
            return name_ms
        try:
            header = read_header(self._files, path.with_name(path.name.removesuffix(quarantine.NOTE_SUFFIX)))
        except FileNotFoundError:
            return name_ms
        return name_ms if header is None else header.created_ns // 10**6


def _name_timestamp_ms(name: str, unknown: int) -> int:
    digits = name.partition("-")[0]
    return int(digits) if digits.isdigit() else unknown


SPACE_CHECK_INTERVAL_S: Final = 1.0  # between two checks of the free disk space
MIN_SEGMENT_BYTES: Final = 64 * 2**10
_MIN_SEGMENTS_PER_QUOTA: Final = 8  # the quota has room for at least this many segments


class Retention:
    """Retention of one journal, in `directory`."""

    def __init__(
        self,
        directory: Path,
        context: JournalContext,
        ledger: Ledger,
        segment_set: SegmentSet,
        corruption_store: quarantine.CorruptionStore,
    ) -> None:
        self.is_paused = True  # finished segments are not removed because of their age
        self.is_disk_low = False  # the disk is nearly full: all requests are refused
        self.nbytes = 0  # of all segments
        self.charged_bytes = 0  # of unfinished segments
        self.unfinished_bytes = 0  # approximate: of requests that are not finished
        self.oldest_ns: int | None = None  # receive time of the first unfinished request; None if there is none
        self._directory = directory
        self._context = context
        self._files, self._limits, self._log = context.files, context.limits, context.log
        self._ledger = ledger
        self._segment_set = segment_set
        self._corruption_store = corruption_store
        self._released: dict[int, int] = {}
        self._unremovable: dict[int, int | None] = {}  # segments that cannot be removed: first sequence to errno
        self._last_space_check = -math.inf
        self._expiry = Expiry(
            context.files, directory.parent, context.limits.quarantine_days, context.clock, context.monotonic
        )
        self.free_bytes = math.inf  # of the disk, beyond `min_free_bytes`; negative if it has less
        self.measure()

    @property
    def segment_bytes(self) -> int:
        """The size of a new segment: the configured size, or an eighth of the quota (at least `MIN_SEGMENT_BYTES`) if
        it is less, so that space is freed in small steps.
        """
        size, quota = self._limits.segment_bytes, self._limits.max_bytes
        return min(size, max(quota // _MIN_SEGMENTS_PER_QUOTA, MIN_SEGMENT_BYTES)) if quota else size

    def charged_by_project(self) -> Mapping[int, int]:
        """Bytes by project in unfinished segments."""
        charged: dict[int, int] = {}
        for segment in self._segment_set.segments:
            for project, size in segment.projects.items() if segment.finished_at is None else ():
                charged[project] = charged.get(project, 0) + size
        return charged

    def take_released(self) -> Mapping[int, int]:
        """Bytes by project in segments that were finished since the last call."""
        released, self._released = self._released, {}
        return released

    def tick(self, *, writing: bool) -> None:
        """Called about once a second. `writing`: a segment is open for the next group; otherwise a new segment needs
        space."""
        now = self._context.monotonic()
        if now - self._last_space_check >= SPACE_CHECK_INTERVAL_S:
            self._check_space(0, 0 if writing else self.segment_bytes)
        self._mark_finished(now)
        if not self.is_paused:
            self._remove(lambda segment: _age(segment, now) >= self._limits.hold_s)
            self._ledger.state.expire(self._context.clock() // 10**6 - int(self._limits.hold_s * 1000))
        self._expire()
        self.measure()

    def has_space(self, room: int) -> bool:
        """Whether `room` more bytes may be allocated on disk; may remove finished segments."""
        has_space = self._check_space(room, room)
        self.measure()
        return has_space

    def record_growth(self, size: int) -> None:
        """Account for `size` bytes that were appended to the open segment."""
        self.nbytes += size
        self.charged_bytes += size

    def measure(self) -> None:
        """Recompute all sizes and the oldest receive time."""
        self.nbytes = self._total_bytes()
        unfinished = [segment for segment in self._segment_set.segments if segment.finished_at is None]
        self.charged_bytes = sum(segment.length for segment in unfinished)
        self.unfinished_bytes, self.oldest_ns = 0, None
        for segment in unfinished:
            holes = list(self._ledger.state.finished.holes(segment.first, segment.last))
            missing = sum(last - first + 1 for first, last in holes)
            self.unfinished_bytes += segment.length * missing // max(segment.requests, missing, 1)
            if holes and self.oldest_ns is None:
                self.oldest_ns = segment.received_ns(holes[0][0])

    def _mark_finished(self, now: float) -> None:
        finished = self._ledger.state.finished
        for segment in self._segment_set.segments:
            if segment.finished_at is None and segment.is_sealed and finished.covers(segment.first, segment.last):
                segment.finished_at = now
                for project, size in segment.projects.items():
                    self._released[project] = self._released.get(project, 0) + size

    def _check_space(self, of_quota: int, of_disk: int) -> bool:
        """Whether the disk has space for `of_disk` more bytes. Finished segments are removed before the end of their
        hold period if the quota (for `of_quota` more bytes) or the disk needs their space, so that no request is
        refused. A group that is larger than a segment may not fit even if the disk does not count as low.
        """
        self._last_space_check = self._context.monotonic()
        self._mark_finished(self._last_space_check)
        quota = self._limits.max_bytes
        self._remove(lambda _: bool(quota) and self._total_bytes() + of_quota > quota)
        if self._is_low(of_disk):
            self._remove(lambda _: self._is_low(of_disk))
        low = self._is_low(min(of_disk, self.segment_bytes))
        if low != self.is_disk_low:
            self._log.warning("the journal's disk is nearly full" if low else "the journal's disk has free space again")
        self.is_disk_low = low
        return not self._is_low(of_disk)

    def _is_low(self, room: int) -> bool:
        try:
            self.free_bytes = self._files.free_bytes(self._directory) - self._limits.min_free_bytes
        except OSError as error:
            self._log.error("the free space of the journal's disk cannot be read", error=str(error))
            self.free_bytes = math.inf
        return bool(self._limits.min_free_bytes) and self.free_bytes < room

    def _remove(self, due: Callable[[Segment], bool]) -> None:
        """Remove the finished segments that are `due`, oldest first, after a flush of the ledger: the records that
        finish them must be on disk. If a segment cannot be removed, the others are removed nevertheless.
        """
        failed = False
        for segment in [segment for segment in self._segment_set.segments if segment.finished_at is not None]:
            if not due(segment):
                continue
            if not self._ensure_flushed():
                break
            try:
                self._remove_segment(segment)
            except OSError as error:
                failed = True
                self._log_unremovable(segment, error)
            else:
                self._unremovable.pop(segment.first, None)
                self._segment_set.remove(segment)
        if failed:
            self._context.metrics.failures.labels("remove").inc()

    def _ensure_flushed(self) -> bool:
        with contextlib.suppress(OSError):  # the ledger has logged it
            if not self._ledger.is_flushed:
                self._ledger.flush()
        return self._ledger.is_flushed

    def _remove_segment(self, segment: Segment) -> None:
        if segment.keep:
            self._corruption_store.move_segment(segment)
        else:
            self._files.unlink(segment.path)

    def _log_unremovable(self, segment: Segment, error: OSError) -> None:
        """Log once that a segment cannot be removed, and again if errno changes; removal is retried every second."""
        if self._unremovable.get(segment.first) != error.errno:
            self._unremovable[segment.first] = error.errno
            self._log.error("a journal segment cannot be removed", segment=str(segment.path), error=str(error))

    def _expire(self) -> None:
        try:
            self._expiry.tick()
        except OSError as error:
            self._log.error("expired journal files cannot be removed", error=str(error))

    def _total_bytes(self) -> int:
        return sum(segment.length for segment in self._segment_set.segments)


def _age(segment: Segment, now: float) -> float:
    """Seconds since a segment was finished; -1 if it is not finished."""
    return -1.0 if segment.finished_at is None else now - segment.finished_at


JOURNAL_FULL: Final = "The journal is full; retry later."
PROJECT_SHARE_EXCEEDED: Final = "The project's share of the journal is full; retry later."
DISK_NEARLY_FULL: Final = "The journal's disk is nearly full; retry later."
SHARE_FACTOR: Final = 8


class SpaceQuota:
    """Limits requests that are not stored yet to `max_bytes`; 0: only the disk is the limit. A project may use
    SHARE_FACTOR times the bytes that remain free (`fair_share`): a single project can use eight ninths of the quota,
    and two projects eight seventeenths each, so there is always room for another project. Used on the event loop.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._queued_bytes = 0  # reserved bytes that are not written yet
        self._bytes_by_project: Counter[int] = Counter()  # including queued ones; no entries of 0

    def reserve(self, project_id: int, size: int, charged_bytes: int, *, is_disk_low: bool) -> None:
        """Reserve `size` bytes for a request. `charged_bytes`: of unfinished segments. Raises ServiceUnavailable."""
        if is_disk_low:
            raise ServiceUnavailable(DISK_NEARLY_FULL)
        if self._max_bytes:
            free = self._free_bytes(charged_bytes)
            if size > free:
                raise ServiceUnavailable(JOURNAL_FULL)
            if size > fair_share(free, self._bytes_by_project[project_id], SHARE_FACTOR):
                raise ServiceUnavailable(PROJECT_SHARE_EXCEEDED)
        self._queued_bytes += size
        self._bytes_by_project[project_id] += size

    def available_bytes(self, charged_bytes: int) -> tuple[float, float]:
        """Bytes that may still be accepted: by the project with the most data in the journal, and by the project with
        the least.

        `math.inf` without a quota.
        """
        if not self._max_bytes:
            return math.inf, math.inf
        free = max(self._free_bytes(charged_bytes), 0)
        used = self._bytes_by_project.values()
        return (
            fair_share(free, max(used, default=0), SHARE_FACTOR),
            fair_share(free, min(used, default=0), SHARE_FACTOR),
        )

    def dequeue(self, size: int) -> None:
        """Subtract `size` bytes from the queued bytes: they are now written (and charged) or refused."""
        self._queued_bytes -= size

    def release(self, sizes: Mapping[int, int]) -> None:
        """Subtract finished or refused bytes, by project."""
        self._bytes_by_project.subtract(sizes)
        for project_id in sizes:
            if not self._bytes_by_project[project_id]:
                del self._bytes_by_project[project_id]

    def restore(self, sizes: Mapping[int, int]) -> None:
        """Add bytes that an earlier process left, by project."""
        self._bytes_by_project.update(sizes)

    def _free_bytes(self, charged_bytes: int) -> int:
        return self._max_bytes - charged_bytes - self._queued_bytes
