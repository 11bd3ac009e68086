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

from gateway.journal.entries import (
    Begin,
    Clean,
    Finish,
    Record,
    Sealed,
    Skip,
    Split,
    State,
    batch_of,
    begin_of,
    finish_of,
    rows_of,
)
from gateway.journal.ranges import Ranges
from gateway.journal.records import Batch, Range

STATE_RANGES: Final = 1_000  # in one record, so that damage to one is not damage to all


class Held(NamedTuple):
    """A finished batch, with its rows."""

    batch: Batch
    finished_ms: int


class Progress:
    """Of one journal."""

    def __init__(self) -> None:
        self.finished = Ranges()  # stored, set aside, or never there
        self.taken = Ranges()  # in a batch that is begun
        self.begun: dict[int, Batch] = {}
        self.held: dict[int, Held] = {}
        self.sealed: dict[int, Sealed] = {}  # by first sequence
        self.next = 1  # larger than any sequence that is mentioned
        self.clean_at = 0  # `Clean.next` while that is the last record
        self.checked = False  # `Clean.checked`, likewise

    def apply(self, record: Record) -> None:
        """Change as a record says."""
        self.clean_at, self.checked = 0, False
        match record:
            case Begin():
                self._begin(record)
            case Finish():
                self._finish(record)
            case Split():
                self._end(record.batch)
                for part in record.parts:
                    self._begin(part)
            case Skip():
                self._add(record.ranges)
                self._leave_out(record.ranges)
            case Sealed():
                self.sealed[record.first] = record
                self.mention(record.last)
            case State():
                self._add(record.finished)
                self.mention(record.next - 1)
            case Clean():
                self.clean_at, self.checked = record.next, record.checked
                self.mention(record.next - 1)

    def snapshot(self) -> Iterator[Record]:
        """Records that lead here from nothing."""
        ranges = list(self.finished)
        for at in range(0, max(len(ranges), 1), STATE_RANGES):
            yield State(tuple(ranges[at : at + STATE_RANGES]), self.next)
        for held in self.held.values():
            yield finish_of(held.batch, held.batch.rows, held.finished_ms)
        for batch in self.begun.values():
            yield begin_of(batch)
        yield from self.sealed.values()
        if self.clean_at:
            yield Clean(self.clean_at, self.checked)

    def offered(self, first: int, last: int) -> Iterator[Range]:
        """What of `first` to `last` is neither finished nor in a batch."""
        for hole in self.finished.holes(first, last):
            yield from self.taken.holes(*hole)

    def readable(self, batch: Batch) -> Iterator[Range]:
        """What of a batch is not known to be damaged. Nothing of one that is neither begun nor held."""
        held = self.held.get(batch.batch_id)
        if held is not None:
            yield from held.batch.ranges
        else:
            for first, last in batch.ranges:
                yield from self.finished.holes(first, last)

    def last_offered(self, first: int, last: int) -> int | None:
        """The last sequence of them."""
        while last >= first:
            before = self.finished.last_outside(self.taken.last_outside(last))
            if before == last:
                return last
            last = before
        return None

    def forget(self, first: int, last: int) -> None:
        """A segment is gone: batches that had requests in it are held no more."""
        self.sealed.pop(first, None)
        gone = [key for key, held in self.held.items() if any(a <= last and first <= b for a, b in held.batch.ranges)]
        for key in gone:
            del self.held[key]

    def expire(self, before_ms: int) -> None:
        """Batches that were finished before are held no more."""
        for key in [key for key, held in self.held.items() if held.finished_ms < before_ms]:
            del self.held[key]

    def settle(self, segments: Sequence[Range]) -> None:
        """After all records are read: begun batches have what is in `segments` and not finished. Where all records
        could be read, that is what they had.
        """
        there = Ranges(segments)
        for batch in list(self.begun.values()):
            self._end(batch.batch_id)
            missing = [hole for first, last in batch.ranges for hole in there.holes(first, last)]
            kept = Ranges(batch.ranges)
            for first, last in missing:
                kept.discard(first, last)
            self._begin(begin_of(batch._replace(ranges=tuple(kept))))

    def mention(self, sequence: int) -> None:
        """A sequence was used."""
        self.next = max(self.next, sequence + 1)

    def finished_ms(self, first: int, last: int) -> int:
        """When the last batch of a segment was finished, as far as that is known; 0."""
        times = (h.finished_ms for h in self.held.values() if any(a <= last and first <= b for a, b in h.batch.ranges))
        return max(times, default=0)

    def _begin(self, record: Begin) -> None:
        self._end(record.batch)
        if record.ranges:
            self.mention(record.ranges[-1][1])
        ranges = [part for first, last in record.ranges for part in self.offered(first, last)]
        if ranges:
            self.begun[record.batch] = batch_of(record, ranges)
            for first, last in ranges:
                self.taken.add(first, last)

    def _finish(self, record: Finish) -> None:
        self._end(record.batch)
        self._add(record.ranges)
        rows = rows_of(record)
        if rows is not None:
            self.held[record.batch] = Held(batch_of(record)._replace(rows=rows), record.finished_ms)

    def _end(self, batch_id: int) -> None:
        batch = self.begun.pop(batch_id, None)
        for first, last in () if batch is None else batch.ranges:
            self.taken.discard(first, last)

    def _leave_out(self, ranges: Sequence[Range]) -> None:
        """Batches do not have these any more; one that had no others is gone."""
        for key, batch in list(self.begun.items()):
            if (rest := _without(batch.ranges, ranges)) != batch.ranges:
                self._end(key)
                self._begin(begin_of(batch._replace(ranges=rest)))
        for key, held in list(self.held.items()):
            if rest := _without(held.batch.ranges, ranges):
                self.held[key] = held._replace(batch=held.batch._replace(ranges=rest))
            else:
                del self.held[key]

    def _add(self, ranges: Iterable[Range]) -> None:
        for first, last in ranges:
            self.finished.add(first, last)
            self.mention(last)


def _without(ranges: Sequence[Range], others: Sequence[Range]) -> tuple[Range, ...]:
    left = Ranges(ranges)
    for first, last in others:
        left.discard(first, last)
    return tuple(left)
