"""A journal that is open, as the one thread that works on it sees it: plain calls that block."""

import contextlib
import errno
from collections.abc import Mapping, Sequence
from typing import Final

from gateway.journal.format.ledger_records import (
    CleanShutdownRecord,
    SkipRecord,
    SplitRecord,
    begin_record,
    finish_record,
)
from gateway.journal.interface import Batch, JournaledRequest, TableDay
from gateway.journal.storage import quarantine
from gateway.journal.storage.context import JournalContext
from gateway.journal.storage.corruption_store import CorruptionStore
from gateway.journal.storage.directory_lock import DirectoryLock
from gateway.journal.storage.ledger import Ledger
from gateway.journal.storage.quarantine import Quarantine
from gateway.journal.storage.retention import Retention
from gateway.journal.storage.segment_index import CooperativeSteps
from gateway.journal.storage.segment_set import SegmentSet
from gateway.journal.storage.segments import Segment, SegmentWriter, required_bytes

MIN_SEAL_AGE_S: Final = 60.0  # of a segment that is sealed though it is not full


class DiskFull(OSError):
    """The disk has less room than is to be kept free."""


class JournalCore:
    """See `startup.start` for how one comes to be."""

    def __init__(
        self,
        directory_lock: DirectoryLock,
        context: JournalContext,
        ledger: Ledger,
        segment_set: SegmentSet,
        corruption_store: CorruptionStore,
        salt: bytes,
    ) -> None:
        self.directory_lock = directory_lock
        self.ledger = ledger
        self.segment_set = segment_set
        self.retention = Retention(directory_lock.directory, context, ledger, segment_set, corruption_store)
        self._context = context
        self._metrics, self._log = context.metrics, context.log
        self._salt = salt
        self._quarantine = Quarantine(
            context.files, directory_lock.root / quarantine.QUARANTINE_DIRECTORY, context.clock
        )
        self._quarantined: dict[int, int] = {}  # requests of batches that are set aside, and nobody was told so yet
        self._writer: SegmentWriter | None = None
        self._segment_opened_at = 0.0  # when it was begun

    @property
    def last_sequence(self) -> int:
        """The last sequence that was used."""
        return self.ledger.state.next_sequence - 1

    def commit(self, requests: Sequence[JournaledRequest]) -> int:
        """Write requests, all or none; on disk when this returns, and the sequence of the first. Raises OSError, and
        MemoryError; whatever it raises, none is on disk, nor will be found there.
        """
        first, last = self.last_sequence + 1, self.last_sequence + len(requests)
        writing = self._writer_for(required_bytes(requests))
        before = writing.segment.to_record()
        try:
            with self._metrics.sync_seconds.time():
                writing.append(requests, first)
            self._metrics.group_requests.observe(len(requests))
            self.ledger.state.observe(last)
            self.retention.record_growth(writing.segment.length - before.length)
        except Exception:
            writing.segment.restore(before)
            self._abandon(writing, first, last)
            raise
        return first

    def begin(self, batch: Batch) -> None:
        """Record a batch; on disk when this returns. Raises OSError; it is begun all the same."""
        self.ledger.append(begin_record(batch))
        self.ledger.flush()

    def finish(self, batch_id: int, rows: Mapping[TableDay, int]) -> None:
        """Record its end, on disk with the next flush."""
        batch = self.ledger.state.begun.get(batch_id)
        if batch is None:
            self._log.error("a batch is finished that was never begun", batch=batch_id)
        else:
            self.ledger.append(finish_record(batch, rows, self._now_ms()))

    def split(self, batch_id: int, parts: Sequence[Batch]) -> None:
        """Record that a batch is now these. Raises OSError; it is split all the same."""
        self.ledger.append(SplitRecord(batch_id, tuple(begin_record(part) for part in parts)))
        self.ledger.flush()

    def quarantine(self, batch: Batch, reason: str) -> CooperativeSteps[int]:
        """Keep the requests of a batch in quarantine, and finish it; how many are there. Raises OSError; then it may be
        set aside again.
        """
        if batch.batch_id not in self._quarantined:
            entries = yield from self.segment_set.read_batch(batch)
            for entry in entries:
                self._quarantine.put(batch, entry, reason, self.directory_lock.directory.name)
                yield
            self.ledger.append(finish_record(batch, None, self._now_ms()))
            self._quarantined[batch.batch_id] = len(entries)
        self.ledger.flush()
        return self._quarantined.pop(batch.batch_id)

    def tick(self) -> None:
        """Once a second or so: what was noted is written, what is finished is removed in time."""
        if not self.ledger.is_flushed:
            self._flush()
        if self._writer is not None and self._segment_age() >= max(self._context.limits.hold_s, MIN_SEAL_AGE_S):
            self._seal(self._writer)
        self.retention.tick(writing=self._writer is not None)

    def close(self) -> None:
        """End in order, as far as the disk lets us."""
        if self._writer is not None:
            self._seal(self._writer)
        self.ledger.append(CleanShutdownRecord(self.ledger.state.next_sequence, checked=not self.retention.is_paused))
        self._flush()
        self.ledger.close()

    def _writer_for(self, size: int) -> SegmentWriter:
        """A segment with room for a group of so many bytes."""
        if self._writer is not None and self._writer.fits(size):
            return self._writer
        if self._writer is not None:
            self._seal(self._writer)
        around, room = self._context, max(self.retention.segment_bytes, size + size // 8)
        if not self.retention.has_space(room):
            raise DiskFull(errno.ENOSPC, "less room is left on the disk than is to be kept free")
        try:
            writing = SegmentWriter(
                around.files, self.directory_lock.directory, self.last_sequence + 1, self._salt, room, around.clock
            )
        except OSError:
            self._metrics.failures.labels("write").inc()
            raise
        self.segment_set.add(writing.segment)
        self._writer, self._segment_opened_at = writing, around.monotonic()
        return writing

    def _seal(self, writing: SegmentWriter) -> None:
        self._writer = None
        self._record_sealed(writing.seal())

    def _record_sealed(self, segment: Segment) -> None:
        if segment.last >= segment.first:  # else another segment may have its name one day
            self.ledger.append(segment.to_record())

    def _abandon(self, writing: SegmentWriter, first: int, last: int) -> None:
        """A group could not be written. Its requests are refused when this returns, so they must not be found later:
        they are cut off, and their sequences are skipped for ever; one of the two is enough.
        """
        self._writer = None
        self._metrics.failures.labels("write").inc()
        is_cut = writing.abandon()
        self.ledger.append(SkipRecord(((first, last),), "refused"))
        self._record_sealed(writing.segment)
        if not self._flush() and not is_cut:
            self._log.error("requests that are refused may be stored after a crash", first=first, last=last)

    def _flush(self) -> bool:
        """Whether everything that was noted is on disk."""
        with contextlib.suppress(OSError):  # the ledger has said so
            self.ledger.flush()
        return self.ledger.is_flushed

    def _segment_age(self) -> float:
        return self._context.monotonic() - self._segment_opened_at

    def _now_ms(self) -> int:
        return self._context.clock() // 10**6
