"""Values and interface of a journal: requests, sequences and sets of them, batches, limits; `JournalLike`, which
callers use; and `NullJournal`, which stores nothing.
"""

from bisect import bisect_left, bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import msgspec
import structlog

from chassis.errors import StartupError
from proto.otlp.policy import Policy, Signal
from proto.otlp.responses import Media

MIB: Final = 2**20

TableDay = tuple[str, int]  # table, and day since 1970-01-01
Range = tuple[int, int]  # first and last sequence, inclusive
OnPersisted = Callable[[int], None]  # called with the sequence of a request once it is on disk


class JournaledRequest(NamedTuple):
    """An export request as received on the wire, and the policy that decodes it."""

    project_id: int
    signal: Signal
    media: Media
    encoding: str  # of the body: identity, gzip, deflate, zstd
    received_ns: int
    accepted: int  # number of items that the response reports, or is about to report, as accepted
    policy: Policy
    body: bytes
    slow: bool = False  # the request takes the slow lane


class Entry(NamedTuple):
    """A request and its sequence. Sequences ascend from 1 and are never used twice in a journal."""

    sequence: int
    request: JournaledRequest


class Batch(NamedTuple):
    """Requests that are inserted together, under deduplication tokens derived from `batch_id`."""

    batch_id: int
    made_ms: int
    ranges: tuple[Range, ...]  # ascending and disjoint, with gaps between them
    skip: frozenset[TableDay] = frozenset()  # tables and days that are stored already, by another batch
    rows: Mapping[TableDay, int] | None = None  # rows per table and day, once the batch is finished


class DamagedRequests(NamedTuple):
    """A damaged request that is not stored, described by its header; or consecutive requests without a readable
    header.

    For requests without a readable header, the number of items is known if the requests were intact when this process
    wrote them or read their segment. If one block (256 KiB) has several such ranges, the first range has the items of
    all. The number is unknown if the block has another request without a header that is stored or was reported before,
    and for damage that already existed at the start.
    """

    first: int
    last: int
    items: int = 0  # accepted items; 0 also if their number is unknown
    signal: Signal | None = None


class RecoveredState(NamedTuple):
    """The state that an earlier process left in the journal."""

    unfinished: Sequence[Batch] = ()  # begun; may be stored already
    retained: Sequence[Batch] = ()  # finished, with their requests still on disk
    clean: bool = True  # shut down in order, and retained batches were still stored then
    last_unbatched: int = 0  # sequence of the last request that is in no batch; 0: none


class JournalLimits(msgspec.Struct, frozen=True, kw_only=True):
    """Sizes in bytes. 0 means no limit for `max_bytes` and `min_free_bytes`, and no expiry for `quarantine_days`."""

    segment_bytes: int = 64 * MIB
    max_bytes: int = 16 * 2**10 * MIB
    min_free_bytes: int = 2**10 * MIB
    hold_s: float = 600.0
    quarantine_days: int = 30


class JournalLocked(StartupError):
    """Another process has locked this journal, or is requeueing at this moment."""


class JournalLike(Protocol):
    """The interface of a journal for ingest and storage. All methods but `open` are called on the event loop."""

    @property
    def durable(self) -> bool:
        """Whether accepted requests survive the end of the process."""

    @property
    def last_sequence(self) -> int:
        """The last sequence that is on disk; 0 if there is none."""

    def open(self) -> RecoveredState:
        """Open the journal; returns what an earlier process left. Blocks. Raises StartupError."""

    async def append(self, request: JournaledRequest, on_persisted: OnPersisted | None = None) -> int:
        """Write a request; returns its sequence when it is on disk.

        `on_persisted` is called with the sequence, on the event loop, in order of sequences, even if the caller was
        cancelled. Raises ServiceUnavailable if the request is refused; then `read` never returns it.
        """

    async def begin(self, batch: Batch) -> None:
        """Record the ranges of a batch; they are on disk when this returns. From now on `read` leaves out its requests.

        Raises ServiceUnavailable if they could not be recorded. The caller may then begin the batch again, or finish it
        nevertheless.
        """

    def finish(self, batch_id: int, rows: Mapping[TableDay, int]) -> None:
        """Record that a batch is stored, with its rows per table and day. On disk with the next sync, within about a
        second.
        """

    async def split(self, batch_id: int, parts: Sequence[Batch]) -> None:
        """Replace a batch by begun parts, in one step; one part may keep the id of the batch.

        Raises ServiceUnavailable if the split could not be recorded. The batch is split nevertheless, and the split is
        on disk with the next record that is written. Until then the caller may repeat the split into the same parts, or
        continue with the parts. After a crash before that record the batch is whole again, and the stored rows of the
        parts are stored twice.
        """

    async def quarantine(self, batch: Batch, reason: str) -> int:
        """Write the requests of a begun batch to quarantine, on disk, and finish the batch.

        Returns the number of requests in quarantine. Unreadable requests are not among them; `take_damaged` reports
        them. After ServiceUnavailable the call may be repeated.
        """

    async def read(self, after: int, max_bytes: int, *, slow: bool | None = None) -> list[Entry]:
        """Requests on disk with sequences above `after` that are in no batch, in order, until their bodies reach
        `max_bytes`; at least one if there is any. `slow` restricts the result to one lane. No request before the last
        returned one is left out, even if requests are written during the read.
        """

    async def read_batch(self, batch: Batch) -> list[Entry]:
        """The requests of a batch, in order, without those that are unreadable."""

    def retained_batches(self) -> Sequence[Batch]:
        """Finished batches whose requests are still on disk."""

    def take_damaged(self) -> Sequence[DamagedRequests]:
        """Requests that were found damaged since the last call and are not stored. `read` and `read_batch` do not
        return them. They are removed from their batches; a batch without other requests is finished.
        """

    def pause_retention(self, *, on: bool) -> None:
        """While on, finished requests are neither removed because of their age nor dropped from `retained_batches`,
        because no check can confirm that they are still stored. They may be removed to free space. A journal starts
        with it on.
        """

    async def close(self) -> None:
        """Refuse new requests, finish the queued work and shut down cleanly."""


class RangeSet:
    """A set of integers. Adjacent ranges are merged; the cost of operations depends on the number of ranges."""

    def __init__(self, ranges: Iterable[Range] = ()) -> None:
        self._firsts: list[int] = []
        self._lasts: list[int] = []
        for first, last in ranges:
            self.add(first, last)

    def __iter__(self) -> Iterator[Range]:
        return zip(self._firsts, self._lasts, strict=True)

    def __len__(self) -> int:
        return len(self._firsts)

    def __contains__(self, value: int) -> bool:
        at = bisect_right(self._firsts, value) - 1
        return at >= 0 and value <= self._lasts[at]

    def add(self, first: int, last: int) -> None:
        """Add the integers from `first` to `last`."""
        if last < first:
            return
        low = bisect_left(self._lasts, first - 1)  # the first range that overlaps or is adjacent
        high = bisect_right(self._firsts, last + 1)  # one past the last such range
        if low < high:
            first, last = min(first, self._firsts[low]), max(last, self._lasts[high - 1])
        self._firsts[low:high], self._lasts[low:high] = [first], [last]

    def discard(self, first: int, last: int) -> None:
        """Remove the integers from `first` to `last`."""
        low = bisect_left(self._lasts, first)
        high = bisect_right(self._firsts, last)
        if last < first or low >= high:
            return
        left, right = self._firsts[low], self._lasts[high - 1]
        rest = [part for part in ((left, first - 1), (last + 1, right)) if part[0] <= part[1]]
        self._firsts[low:high] = [part[0] for part in rest]
        self._lasts[low:high] = [part[1] for part in rest]

    def covers(self, first: int, last: int) -> bool:
        """Whether the set has all integers from `first` to `last`; true for an empty range."""
        at = bisect_right(self._firsts, first) - 1
        return last < first or (at >= 0 and last <= self._lasts[at])

    def overlaps(self, first: int, last: int) -> bool:
        """Whether the set has any integer from `first` to `last`."""
        at = bisect_left(self._lasts, first)
        return first <= last and at < len(self._firsts) and self._firsts[at] <= last

    def holes(self, first: int, last: int) -> Iterator[Range]:
        """The integers from `first` to `last` that are not in the set, as ascending ranges."""
        at = bisect_left(self._lasts, first)
        while first <= last:
            if at == len(self._firsts) or self._firsts[at] > last:
                yield first, last
                return
            if self._firsts[at] > first:
                yield first, self._firsts[at] - 1
            first = self._lasts[at] + 1
            at += 1

    def intersection(self, first: int, last: int) -> Iterator[Range]:
        """The integers from `first` to `last` that are in the set, as ascending ranges."""
        at = bisect_left(self._lasts, first)
        while at < len(self._firsts) and self._firsts[at] <= last:
            yield max(first, self._firsts[at]), min(last, self._lasts[at])
            at += 1

    def last_missing(self, value: int) -> int:
        """The highest integer up to `value` that is not in the set."""
        at = bisect_right(self._firsts, value) - 1
        return self._firsts[at] - 1 if at >= 0 and value <= self._lasts[at] else value


class NullJournal:
    """Implements `JournalLike`: assigns sequences, and keeps the item count of requests until their batch ends."""

    durable = False

    def __init__(self, log: structlog.stdlib.BoundLogger) -> None:
        self._log = log
        self._last_sequence = 0
        self._items: dict[int, int] = {}  # by sequence
        self._begun: dict[int, Batch] = {}

    @property
    def last_sequence(self) -> int:
        """The last sequence that was assigned; 0 if there is none."""
        return self._last_sequence

    def open(self) -> RecoveredState:
        """Returns an empty state."""
        return RecoveredState()

    async def append(self, request: JournaledRequest, on_persisted: OnPersisted | None = None) -> int:
        """Assign the next sequence and report the request as persisted at once."""
        self._last_sequence += 1
        self._items[self._last_sequence] = request.accepted
        if on_persisted is not None:
            on_persisted(self._last_sequence)
        return self._last_sequence

    async def begin(self, batch: Batch) -> None:
        """Record the ranges of a batch in memory."""
        self._begun[batch.batch_id] = batch

    def finish(self, batch_id: int, rows: Mapping[TableDay, int]) -> None:  # noqa: ARG002 (the interface has it; row counts are not kept)
        """Drop a batch and the item counts of its requests."""
        batch = self._begun.pop(batch_id, None)
        for sequence in () if batch is None else _sequences(batch):
            self._items.pop(sequence, None)

    async def split(self, batch_id: int, parts: Sequence[Batch]) -> None:
        """Replace a batch by its parts in memory."""
        self._begun.pop(batch_id, None)
        self._begun |= {part.batch_id: part for part in parts}

    async def quarantine(self, batch: Batch, reason: str) -> int:
        """Drop the requests of a batch: they are lost, which is logged and which the caller counts. Returns 0."""
        items = sum(self._items.get(sequence, 0) for sequence in _sequences(batch))
        self._log.error("items lost", items=items, reason=reason)
        self.finish(batch.batch_id, {})
        return 0

    async def read(self, after: int, max_bytes: int, *, slow: bool | None = None) -> list[Entry]:  # noqa: ARG002 (JournalLike)
        """Always empty."""
        return []

    async def read_batch(self, batch: Batch) -> list[Entry]:  # noqa: ARG002 (JournalLike)
        """Always empty."""
        return []

    def retained_batches(self) -> Sequence[Batch]:
        """Always empty."""
        return ()

    def take_damaged(self) -> Sequence[DamagedRequests]:
        """Always empty."""
        return ()

    def pause_retention(self, *, on: bool) -> None:
        """No effect: nothing is retained."""

    async def close(self) -> None:
        """No effect: nothing is open."""


def _sequences(batch: Batch) -> Iterator[int]:
    return (sequence for first, last in batch.ranges for sequence in range(first, last + 1))
