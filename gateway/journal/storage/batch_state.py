"""What is begun, finished and held. It changes by records only, when they are written and when they are read again, so
that a start comes to the state that the process before it had.

A record that cannot be read any more is as if it had never been. What follows then:

    Begin     if its batch is finished, nothing: Finish has the ranges too. Else its requests are offered as new; what
              had been stored of them is stored twice, for the tokens are others
    Finish    the batch is made again under its tokens, and found to be there
    Split     the batch is made again under its tokens, without what its parts finished
    Skip      what was damaged is found to be damaged again. A refused request stays away: its bytes are cut off before
              it is refused
    Sealed    the segment is read from end to end
    State     what was finished when the ledger was made, and is in a segment that is still held, is stored twice
    Clean     the end counts as a crash
"""

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from gateway.journal.format.ledger_records import (
    BeginRecord,
    CleanShutdownRecord,
    FinishRecord,
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
from gateway.journal.format.ranges import RangeSet
from gateway.journal.interface import Batch, Range

MAX_RANGES_PER_STATE: Final = 1_000  # in one record, so that damage to one is not damage to all


class RetainedBatch(NamedTuple):
    """A finished batch, with its rows."""

    batch: Batch
    finished_ms: int


class BatchState:
    """Of one journal."""

    def __init__(self) -> None:
        self.finished = RangeSet()  # stored, set aside, or never there
        self.in_batches = RangeSet()  # in a batch that is begun
        self.begun: dict[int, Batch] = {}
        self.retained: dict[int, RetainedBatch] = {}
        self.sealed: dict[int, SealRecord] = {}  # by first sequence
        self.next_sequence = 1  # larger than any sequence that is mentioned
        self.clean_at = 0  # `Clean.next` while that is the last record
        self.checked = False  # `Clean.checked`, likewise

    def apply(self, record: Record) -> None:
        """Change as a record says."""
        self.clean_at, self.checked = 0, False
        match record:
            case BeginRecord():
                self._begin(record)
            case FinishRecord():
                self._finish(record)
            case SplitRecord():
                self._remove_begun(record.batch)
                for part in record.parts:
                    self._begin(part)
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

    def snapshot(self) -> Iterator[Record]:
        """Records that lead here from nothing."""
        ranges = list(self.finished)
        for at in range(0, max(len(ranges), 1), MAX_RANGES_PER_STATE):
            yield StateRecord(tuple(ranges[at : at + MAX_RANGES_PER_STATE]), self.next_sequence)
        for held in self.retained.values():
            yield finish_record(held.batch, held.batch.rows, held.finished_ms)
        for batch in self.begun.values():
            yield begin_record(batch)
        yield from self.sealed.values()
        if self.clean_at:
            yield CleanShutdownRecord(self.clean_at, self.checked)

    def available(self, first: int, last: int) -> Iterator[Range]:
        """What of `first` to `last` is neither finished nor in a batch."""
        for hole in self.finished.holes(first, last):
            yield from self.in_batches.holes(*hole)

    def readable(self, batch: Batch) -> Iterator[Range]:
        """What of a batch is not known to be damaged. Nothing of one that is neither begun nor held."""
        held = self.retained.get(batch.batch_id)
        if held is not None:
            yield from held.batch.ranges
        else:
            for first, last in batch.ranges:
                yield from self.finished.holes(first, last)

    def last_available(self, first: int, last: int) -> int | None:
        """The last sequence of them."""
        while last >= first:
            before = self.finished.last_missing(self.in_batches.last_missing(last))
            if before == last:
                return last
            last = before
        return None

    def drop_segment(self, first: int, last: int) -> None:
        """A segment is gone: batches that had requests in it are held no more."""
        self.sealed.pop(first, None)
        gone = [
            key for key, held in self.retained.items() if any(a <= last and first <= b for a, b in held.batch.ranges)
        ]
        for key in gone:
            del self.retained[key]

    def expire(self, before_ms: int) -> None:
        """Batches that were finished before are held no more."""
        for key in [key for key, held in self.retained.items() if held.finished_ms < before_ms]:
            del self.retained[key]

    def reconcile(self, segments: Sequence[Range]) -> None:
        """After all records are read: begun batches have what is in `segments` and not finished. Where all records
        could be read, that is what they had.
        """
        there = RangeSet(segments)
        for batch in list(self.begun.values()):
            self._remove_begun(batch.batch_id)
            missing = [hole for first, last in batch.ranges for hole in there.holes(first, last)]
            kept = RangeSet(batch.ranges)
            for first, last in missing:
                kept.discard(first, last)
            self._begin(begin_record(batch._replace(ranges=tuple(kept))))

    def observe(self, sequence: int) -> None:
        """A sequence was used."""
        self.next_sequence = max(self.next_sequence, sequence + 1)

    def finished_ms(self, first: int, last: int) -> int:
        """When the last batch of a segment was finished, as far as that is known; 0."""
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

    def _remove_begun(self, batch_id: int) -> None:
        batch = self.begun.pop(batch_id, None)
        for first, last in () if batch is None else batch.ranges:
            self.in_batches.discard(first, last)

    def _exclude(self, ranges: Sequence[Range]) -> None:
        """Batches do not have these any more; one that had no others is gone."""
        for key, batch in list(self.begun.items()):
            if (rest := _subtract(batch.ranges, ranges)) != batch.ranges:
                self._remove_begun(key)
                self._begin(begin_record(batch._replace(ranges=rest)))
        for key, held in list(self.retained.items()):
            if rest := _subtract(held.batch.ranges, ranges):
                self.retained[key] = held._replace(batch=held.batch._replace(ranges=rest))
            else:
                del self.retained[key]

    def _mark_finished(self, ranges: Iterable[Range]) -> None:
        for first, last in ranges:
            self.finished.add(first, last)
            self.observe(last)


def _subtract(ranges: Sequence[Range], others: Sequence[Range]) -> tuple[Range, ...]:
    left = RangeSet(ranges)
    for first, last in others:
        left.discard(first, last)
    return tuple(left)
