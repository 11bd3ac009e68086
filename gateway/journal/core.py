"""An open journal on the I/O thread (`IoThread`): blocking calls, from that thread only."""

import contextlib
import errno
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Final

from gateway.journal.format import (
    CleanShutdownRecord,
    SkipRecord,
    SplitRecord,
    begin_record,
    finish_record,
)
from gateway.journal.interface import Batch, JournaledRequest, TableDay
from gateway.journal.storage import quarantine
from gateway.journal.storage.directories import DirectoryLock, JournalSnapshot, link_files
from gateway.journal.storage.files import JournalContext
from gateway.journal.storage.ledger import Ledger
from gateway.journal.storage.retention import Retention
from gateway.journal.storage.scanning import CooperativeSteps
from gateway.journal.storage.segment_set import SegmentSet
from gateway.journal.storage.segments import Segment, SegmentWriter, required_bytes

MIN_SEAL_AGE_S: Final = 60.0  # minimum age at which a segment is sealed before it is full


class DiskFull(OSError):
    """The disk has less free space than `min_free_bytes` requires."""


class JournalCore:
    """Writes requests and ledger records. `startup.open_journal` creates it."""

    def __init__(
        self,
        directory_lock: DirectoryLock,
        context: JournalContext,
        ledger: Ledger,
        segment_set: SegmentSet,
        corruption_store: quarantine.CorruptionStore,
        salt: bytes,
    ) -> None:
        self.directory_lock = directory_lock
        self.ledger = ledger
        self.segment_set = segment_set
        self.retention = Retention(directory_lock.directory, context, ledger, segment_set, corruption_store)
        self._context = context
        self._metrics, self._log = context.metrics, context.log
        self._salt = salt
        self._quarantine = quarantine.Quarantine(
            context.files, directory_lock.root / quarantine.QUARANTINE_DIRECTORY, context.clock
        )
        self._quarantined: dict[int, int] = {}  # number of quarantined requests by batch, until `quarantine` returns
        self._writer: SegmentWriter | None = None
        self._segment_opened_at = 0.0  # monotonic time

    @property
    def last_sequence(self) -> int:
        """The last sequence that was assigned."""
        return self.ledger.state.next_sequence - 1

    def commit(self, requests: Sequence[JournaledRequest]) -> int:
        """Write all requests or none. Returns the sequence of the first when they are on disk. Raises OSError and
        MemoryError; after an exception none of the requests is on disk, and none is found there later.
        """
        first, last = self.last_sequence + 1, self.last_sequence + len(requests)
        writer = self._writer_for(required_bytes(requests))
        before = writer.segment.to_record()
        try:
            with self._metrics.sync_seconds.time():
                writer.append(requests, first)
            self._metrics.group_requests.observe(len(requests))
            self.ledger.state.assign(last)
            self.retention.record_growth(writer.segment.length - before.length)
        except Exception:
            writer.segment.restore(before)
            self._abandon(writer, first, last)
            raise
        return first

    def begin(self, batch: Batch) -> None:
        """Record a batch; the record is on disk when this returns. The batch is begun even if this raises OSError."""
        self.ledger.append(begin_record(batch))
        self.ledger.flush()

    def finish(self, batch_id: int, rows: Mapping[TableDay, int]) -> None:
        """Record that a batch is stored, with its row counts; on disk with the next flush."""
        batch = self.ledger.state.begun.get(batch_id)
        if batch is None:
            self._log.error("bug: finished a batch that was never begun", batch=batch_id)
        else:
            self.ledger.append(finish_record(batch, rows, self._now_ms()))

    def split(self, batch_id: int, parts: Sequence[Batch]) -> None:
        """Record that `parts` replace a batch. The batch is split even if this raises OSError."""
        self.ledger.append(SplitRecord(batch_id, tuple(begin_record(part) for part in parts)))
        self.ledger.flush()

    def quarantine(self, batch: Batch, reason: str) -> CooperativeSteps[int]:
        """Write the requests of a batch to quarantine and finish the batch; returns the number of requests. After an
        OSError the call may be repeated.
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

    def snapshot(self, target: Path) -> JournalSnapshot:
        """Link everything that is on disk at this moment into the new directory `target`. Raises OSError."""
        self.ledger.flush()
        lengths = {segment.path: segment.length for segment in self.segment_set.segments}
        moment_ns = self._context.clock()
        return JournalSnapshot(
            moment_ns, link_files(self._context.files, {self.ledger.path: self.ledger.length, **lengths}, target)
        )

    def tick(self) -> None:
        """Called about once a second: records which sequences are used, flushes the ledger, seals an old segment,
        removes segments whose hold period is over.
        """
        if (record := self.ledger.state.unrecorded_next()) is not None:
            self.ledger.append(record)
        if not self.ledger.is_flushed:
            self._flush()
        self._abandon_deleted()
        if self._writer is not None and self._segment_age() >= max(self._context.limits.hold_s, MIN_SEAL_AGE_S):
            self._seal(self._writer)
        self.retention.tick(writing=self._writer is not None)

    def close(self) -> None:
        """Seal the open segment and record a clean shutdown, as far as the disk allows."""
        if self._writer is not None:
            self._seal(self._writer)
        self.ledger.append(CleanShutdownRecord(self.ledger.state.next_sequence, checked=not self.retention.is_paused))
        self._flush()
        self.ledger.close()

    def _writer_for(self, size: int) -> SegmentWriter:
        """A segment with space for a group of `size` bytes: the open one, or a new one. Raises DiskFull, OSError."""
        if self._writer is not None and self._writer.fits(size):
            return self._writer
        if self._writer is not None:
            self._seal(self._writer)
        if not self.ledger.is_flushed:  # a start relies on a ledger that has all segments but the last
            self._flush()
        context, capacity = self._context, max(self.retention.segment_bytes, size + size // 8)
        if not self.retention.has_space(capacity):
            raise DiskFull(errno.ENOSPC, "the free disk space is below the configured minimum")
        try:
            writer = SegmentWriter(
                context.files,
                self.directory_lock.directory,
                self.last_sequence + 1,
                self._salt,
                capacity,
                context.clock,
            )
        except OSError:
            self._metrics.failures.labels("write").inc()
            raise
        self.segment_set.add(writer.segment)
        self._writer, self._segment_opened_at = writer, context.monotonic()
        return writer

    def _seal(self, writer: SegmentWriter) -> None:
        self._writer = None
        self._record_sealed(writer.seal())

    def _record_sealed(self, segment: Segment) -> None:
        if segment.last >= segment.first:  # an empty segment is not recorded: a later one may get its name
            self.ledger.append(segment.to_record())

    def _abandon(self, writer: SegmentWriter, first: int, last: int) -> None:
        """Discard a group that could not be written. Its requests are refused when this returns, so no later read may
        find them: they are cut off, and their sequences are recorded as skipped. One of the two is enough.
        """
        self._writer = None
        self._metrics.failures.labels("write").inc()
        is_truncated = writer.abandon()
        self.ledger.append(SkipRecord(((first, last),), "refused"))
        self._record_sealed(writer.segment)
        if not self._flush() and not is_truncated:
            self._log.error("requests that were answered 503 may be stored after a crash", first=first, last=last)

    def _abandon_deleted(self) -> None:
        """Write to a new segment if another program has deleted the open one."""
        try:
            deleted = self.segment_set.find_deleted()
        except OSError as error:
            self._log.error("the journal's directory cannot be read", error=str(error))
            return
        if self._writer is not None and self._writer.segment in deleted:
            self._seal(self._writer)

    def _flush(self) -> bool:
        """Flush the ledger; returns whether all records are on disk."""
        with contextlib.suppress(OSError):  # the ledger has logged it
            self.ledger.flush()
        return self.ledger.is_flushed

    def _segment_age(self) -> float:
        return self._context.monotonic() - self._segment_opened_at

    def _now_ms(self) -> int:
        return self._context.clock() // 10**6
