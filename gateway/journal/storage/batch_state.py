"""The state of batches: begun, finished, retained. Only records change it (`BatchState.apply`), both when they are
written and when they are replayed, so a start reaches the state of the previous process.

An unreadable record is treated as if it had never existed. Consequences, by record:

    BeginRecord           none if its batch is finished: FinishRecord has the ranges too. Otherwise its requests are
                          read as new, under other tokens: rows that were already stored are stored twice
    FinishRecord          the batch is rebuilt under its tokens, and is found to be stored
    SplitRecord           the batch is rebuilt under its tokens, without the requests of finished parts
    SkipRecord            damage is found again. Refused requests are not read: their bytes were cut off before they
                          were refused
    SealRecord            the segment is read from end to end
    StateRecord           requests that were finished when the ledger was created are stored twice if their segment
                          still exists. Without a later record, fewer requests are known to have existed
    MissingRecord         requests are reported as missing again
    CleanShutdownRecord   the end counts as a crash
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from gateway.journal.format import (
    BeginRecord,
    CleanShutdownRecord,
    FinishRecord,
    MissingRecord,
    Record,
    SealRecord,
    SkipRecord,
    SplitRecord,
    StateRecord,
    batch_from_record,
    begin_record,
    finish_record,
    stored_rows,
)
from gateway.journal.interface import Batch, Range, RangeSet

MAX_RANGES_PER_STATE: Final = 1_000  # bounds a record, so that damage to one does not lose all ranges


class RetainedBatch(NamedTuple):
    """A finished batch whose requests are still on disk, with its rows per table and day."""

    batch: Batch
    finished_ms: int


class BatchState:
    """The state of one journal, built from its ledger records."""

    def __init__(self) -> None:
        self.finished = RangeSet()  # stored, quarantined, or skipped
        self.in_batches = RangeSet()  # in a begun batch
        self.begun: dict[int, Batch] = {}
        self.retained: dict[int, RetainedBatch] = {}
        self.sealed: dict[int, SealRecord] = {}  # by first sequence
        self.missing = RangeSet()  # reported as missing: in no segment, and not finished
        self.next_sequence = 1  # higher than every sequence that occurred
        self.recorded_next = 1  # `next_sequence` according to the records
        self.clean_at = 0  # `CleanShutdownRecord.next` while it is the last record; otherwise 0
        self.checked = False  # `CleanShutdownRecord.checked` while it is the last record; otherwise False

    def apply(self, record: Record) -> None:
        """Apply a record to the state."""
        self.clean_at, self.checked = 0, False
        match record:
            case BeginRecord():
                self._begin(record)
            case FinishRecord():
                self._finish(record)
            case SplitRecord():
                self._split(record)
            case SkipRecord():
                self._mark_finished(record.ranges)
                self._exclude(record.ranges)
            case SealRecord():
                self.sealed[record.first] = record
                self.observe(record.last)
            case StateRecord():
                self._mark_finished(record.finished)
                self.observe(record.next - 1)
            case CleanShutdownRecord():
                self.clean_at, self.checked = record.next, record.checked
                self.observe(record.next - 1)
            case MissingRecord():
                self._mark_missing(record.ranges)

    def snapshot(self) -> Iterator[Record]:
        """Records that rebuild this state from an empty one."""
        ranges = list(self.finished)
        for at in range(0, max(len(ranges), 1), MAX_RANGES_PER_STATE):
            yield StateRecord(tuple(ranges[at : at + MAX_RANGES_PER_STATE]), self.next_sequence)
        for retained in self.retained.values():
            yield finish_record(retained.batch, retained.batch.rows, retained.finished_ms)
        for batch in self.begun.values():
            yield begin_record(batch)
        yield from self.sealed.values()
        missing = list(self.missing)
        for at in range(0, len(missing), MAX_RANGES_PER_STATE):
            yield MissingRecord(tuple(missing[at : at + MAX_RANGES_PER_STATE]))
        if self.clean_at:
            yield CleanShutdownRecord(self.clean_at, self.checked)

    def available(self, first: int, last: int) -> Iterator[Range]:
        """Ranges within `first` to `last` that are neither finished nor in a batch."""
        for hole in self.finished.holes(first, last):
            yield from self.in_batches.holes(*hole)

    def readable(self, batch: Batch) -> Iterator[Range]:
        """Ranges of a batch that are not known to be damaged. A finished batch that is no longer retained has none."""
        retained = self.retained.get(batch.batch_id)
        if retained is not None:
            yield from retained.batch.ranges
        else:
            for first, last in batch.ranges:
                yield from self.finished.holes(first, last)

    def last_available(self, first: int, last: int) -> int | None:
        """The last available sequence from `first` to `last`; None if there is none."""
        while last >= first:
            before = self.finished.last_missing(self.in_batches.last_missing(last))
            if before == last:
                return last
            last = before
        return None

    def drop_segment(self, first: int, last: int) -> None:
        """Remove a segment; batches with requests in it are no longer retained."""
        self.sealed.pop(first, None)
        dropped = [
            batch_id
            for batch_id, retained in self.retained.items()
            if any(a <= last and first <= b for a, b in retained.batch.ranges)
        ]
        for batch_id in dropped:
            del self.retained[batch_id]

    def expire(self, before_ms: int) -> None:
        """Drop retained batches that were finished before `before_ms`."""
        for batch_id in [batch_id for batch_id, retained in self.retained.items() if retained.finished_ms < before_ms]:
            del self.retained[batch_id]

    def reconcile(self, segments: Sequence[Range]) -> None:
        """After the replay: reduce begun batches to requests that are in `segments` and not finished. If all records
        were readable, this changes nothing.
        """
        existing = RangeSet(segments)
        for batch in list(self.begun.values()):
            self._remove_begun(batch.batch_id)
            missing = [hole for first, last in batch.ranges for hole in existing.holes(first, last)]
            kept = RangeSet(batch.ranges)
            for first, last in missing:
                kept.discard(first, last)
            self._begin(begin_record(batch._replace(ranges=tuple(kept))))

    def assign(self, sequence: int) -> None:
        """Raise `next_sequence` above a sequence that is used, which no record mentions yet."""
        self.next_sequence = max(self.next_sequence, sequence + 1)

    def observe(self, sequence: int) -> None:
        """Raise `next_sequence` above a sequence that a record mentions."""
        self.assign(sequence)
        self.recorded_next = max(self.recorded_next, sequence + 1)

    def unrecorded_next(self) -> StateRecord | None:
        """A record of the sequences that were used since the last record; None if there are none."""
        return StateRecord((), self.next_sequence) if self.recorded_next < self.next_sequence else None

    def finished_ms(self, first: int, last: int) -> int:
        """When the last retained batch with requests from `first` to `last` was finished; 0 if unknown."""
        times = (
            h.finished_ms for h in self.retained.values() if any(a <= last and first <= b for a, b in h.batch.ranges)
        )
        return max(times, default=0)

    def _begin(self, record: BeginRecord) -> None:
        self._remove_begun(record.batch)
        if record.ranges:
            self.observe(record.ranges[-1][1])
        ranges = [part for first, last in record.ranges for part in self.available(first, last)]
        if ranges:
            self.begun[record.batch] = batch_from_record(record, ranges)
            for first, last in ranges:
                self.in_batches.add(first, last)

    def _finish(self, record: FinishRecord) -> None:
        self._remove_begun(record.batch)
        self._mark_finished(record.ranges)
        rows = stored_rows(record)
        if rows is not None:
            self.retained[record.batch] = RetainedBatch(
                batch_from_record(record)._replace(rows=rows), record.finished_ms
            )

    def _split(self, record: SplitRecord) -> None:
        self._remove_begun(record.batch)
        for part in record.parts:
            self._begin(part)

    def _remove_begun(self, batch_id: int) -> None:
        batch = self.begun.pop(batch_id, None)
        for first, last in () if batch is None else batch.ranges:
            self.in_batches.discard(first, last)

    def _exclude(self, ranges: Sequence[Range]) -> None:
        """Remove ranges from all batches, and drop batches that have no other ranges."""
        for batch_id, batch in list(self.begun.items()):
            if (rest := _subtract(batch.ranges, ranges)) != batch.ranges:
                self._remove_begun(batch_id)
                self._begin(begin_record(batch._replace(ranges=rest)))
        for batch_id, retained in list(self.retained.items()):
            if rest := _subtract(retained.batch.ranges, ranges):
                self.retained[batch_id] = retained._replace(batch=retained.batch._replace(ranges=rest))
            else:
                del self.retained[batch_id]

    def _mark_missing(self, ranges: Iterable[Range]) -> None:
        for first, last in ranges:
            self.missing.add(first, last)
            self.observe(last)

    def _mark_finished(self, ranges: Iterable[Range]) -> None:
        for first, last in ranges:
            self.finished.add(first, last)
            self.observe(last)


def _subtract(ranges: Sequence[Range], others: Sequence[Range]) -> tuple[Range, ...]:
    remaining = RangeSet(ranges)
    for first, last in others:
        remaining.discard(first, last)
    return tuple(remaining)
