"""The segments of a journal in order, and the requests in them."""

import contextlib
from bisect import bisect_right
from collections import deque
from collections.abc import Iterator, Sequence
from typing import Final

import structlog

from gateway.journal import format as fmt
from gateway.journal.blocks import FRESH, SLOW, Block
from gateway.journal.damage import Damaged
from gateway.journal.entries import Sealed, Skip
from gateway.journal.files import Files
from gateway.journal.indexing import Indexed, Steps, blocks_from, index
from gateway.journal.ledger import Ledger
from gateway.journal.metrics import JournalMetrics
from gateway.journal.ranges import Ranges
from gateway.journal.reading import read_at
from gateway.journal.records import Batch, Entry, Lost, Range
from gateway.journal.scanning import Damage, Found, survey
from gateway.journal.segments import Segment
from proto.otlp.policy import Policy

ANY_LANE: Final = FRESH | SLOW


class Shelf:
    """All segments, the one that is being written as well."""

    def __init__(
        self,
        files: Files,
        ledger: Ledger,
        damaged: Damaged,
        metrics: JournalMetrics,
        log: structlog.stdlib.BoundLogger,
    ) -> None:
        self.segments: list[Segment] = []
        self._files = files
        self._ledger = ledger
        self._damaged = damaged
        self._metrics = metrics
        self._log = log
        self._lost: deque[Lost] = deque()
        self._accounted = Ranges()  # lost ones, until the ledger has them: several readers may come by at once
        self._policies: dict[int, Policy] = {}  # of all segments, for one whose own declaration is damaged

    def add(self, segment: Segment) -> None:
        """Behind those that are there."""
        self.segments.append(segment)

    def remove(self, segment: Segment) -> None:
        """It is gone."""
        self.segments.remove(segment)
        self._ledger.progress.forget(segment.first, segment.last)
        self._accounted.discard(segment.first, segment.last)

    def read(self, after: int, max_bytes: int, lanes: int = ANY_LANE) -> Steps[list[Entry]]:
        """Requests behind the sequence `after` that are offered, of these lanes: so many bytes, at least one if any."""
        entries: list[Entry] = []
        size = 0
        progress = self._ledger.progress
        for segment in self._between(after + 1, fmt.MAX_SEQUENCE):
            offered = progress.offered(max(segment.first, after + 1), segment.last)
            if not segment.lanes & lanes or next(offered, None) is None:
                continue
            for block in (yield from self._blocks(segment, after + 1)):
                first = max(block.first, after + 1)
                wanted = Ranges(progress.offered(first, block.last)) if block.lanes & lanes else Ranges()
                if not wanted:
                    continue
                for entry in (yield from self._entries(segment, block, wanted)):
                    if (SLOW if entry.request.slow else FRESH) & lanes:
                        entries.append(entry)
                        size += len(entry.request.body)
                        if size >= max_bytes:
                            return entries
                yield
        return entries

    def members(self, batch: Batch) -> Steps[list[Entry]]:
        """The requests of a batch that can be read."""
        entries: list[Entry] = []
        wanted = Ranges(self._ledger.progress.readable(batch))
        for segment in self._between(batch.ranges[0][0], batch.ranges[-1][1]):
            if not wanted.overlaps(segment.first, segment.last):
                continue
            for block in (yield from self._blocks(segment, batch.ranges[0][0])):
                if not wanted.overlaps(block.first, block.last):
                    continue
                entries += yield from self._entries(segment, block, wanted)
                yield
        return entries

    def take_lost(self) -> list[Lost]:
        """Requests that were found to be damaged since this was last asked, and are not stored. Any thread may ask."""
        return [self._lost.popleft() for _ in range(len(self._lost))]

    def ensure_indexed(self, segment: Segment) -> Steps[None]:
        """Read a segment that only a ledger told about."""
        if segment.blocks is not None:
            return
        found = yield from index(self._files, segment, segment.length, self._limit(segment))
        if found.damages or found.unreadable or found.segment.last < segment.last:
            self._forget(segment)
            found = yield from index(self._files, segment, segment.length, self._limit(segment))
        segment.blocks, segment.policies = found.segment.blocks, found.segment.policies
        with self._noting(segment):
            self.account(segment, found, segment.last)

    def account(self, segment: Segment, found: Indexed, expected: int) -> None:
        """Keep what is damaged, and skip it. Requests up to `expected` were on disk once; what is missing behind them
        was being written when the process stopped.
        """
        self._policies |= found.segment.policies
        segment.keep |= found.unreadable
        synced = segment.synced = max(expected, found.synced)
        last = found.segment.last
        for damage in found.damages:
            missing = damage.missing(expected)
            self._account(segment, damage, missing, synced)
            last = max(last, missing[1])
        if last < expected:  # the file is shorter than it was
            end = found.segment.length
            self._account(segment, Damage(end, end, last + 1, expected), (last + 1, expected), synced)

    def move_away(self, segment: Segment, expected: int, facts: Sealed | None) -> None:
        """A segment of which nothing can be told but these facts, though there were requests up to `expected`. How many
        items are lost is known when none of them is stored. Raises OSError.
        """
        gone = list(self._ledger.progress.finished.holes(segment.first, expected))
        items = facts.items if facts is not None and gone == [(facts.first, facts.last)] else 0
        self._lost.extend(Lost(first, last, items) for first, last in gone)
        requests = sum(last - first + 1 for first, last in gone)
        self._metrics.damaged_frames.inc(requests)
        self._log.error("a segment of the journal cannot be read", segment=str(segment.path), requests=requests)
        self._damaged.move(segment)

    def _account(self, segment: Segment, damage: Damage, missing: Range, synced: int) -> None:
        finished = self._ledger.progress.finished
        gone = tuple(finished.holes(missing[0], min(missing[1], synced)))
        if gone:
            self._lose(segment, damage, gone)
        else:
            self._log.warning("bytes of the journal are passed over", segment=str(segment.path), at=damage.start)
        if not finished.covers(*missing):
            self._ledger.note(Skip((missing,), "damaged" if gone else "torn"))

    def _lose(self, segment: Segment, damage: Damage, gone: tuple[Range, ...], untold: int = 0) -> int:
        """`untold`: items of requests without a header, all of which are lost; what is left of them to be told."""
        gone = tuple(part for each in gone for part in self._accounted.holes(*each))
        if not gone:
            return untold
        for part in gone:
            self._accounted.add(*part)
        requests = sum(last - first + 1 for first, last in gone)
        told = [lost for part in gone for lost in self._told(damage, part)]
        for at, lost in enumerate(told):
            if untold and lost.signal is None and not lost.items:
                told[at], untold = lost._replace(items=untold), 0
        self._lost.extend(told)
        self._metrics.damaged_frames.inc(requests)
        self._log.error(
            "requests of the journal cannot be read", segment=str(segment.path), at=damage.start, requests=requests
        )
        try:
            segment.keep |= not self._damaged.keep(segment, damage, gone)
        except OSError as error:
            segment.keep = True
            self._log.error("damaged bytes of the journal cannot be copied", error=str(error))
        return untold

    def _told(self, damage: Damage, part: Range) -> Iterator[Lost]:
        """What is known of requests that are damaged; of those that are stored nothing is lost yet."""
        heads = damage.requests
        for first, last in self._ledger.progress.finished.holes(*part):
            known = [heads[sequence] for sequence in sorted(heads) if first <= sequence <= last]
            for head in known:
                yield Lost(head.sequence, head.sequence, head.accepted, fmt.signal_of(head))
            for rest in Ranges((head.sequence, head.sequence) for head in known).holes(first, last):
                yield Lost(*rest)

    @contextlib.contextmanager
    def _noting(self, segment: Segment) -> Iterator[None]:
        """Whether it is kept is also known after the next start."""
        before = segment.keep
        yield
        if segment.keep and not before and segment.sealed:
            self._ledger.note(segment.facts())

    def _forget(self, segment: Segment) -> None:
        """Read a segment from the disk the next time. Raises OSError when that gives not even the header: then nothing
        is wrong with the segment alone, and what cannot be read now may be there later.
        """
        fd = self._files.open(segment.path)
        try:
            self._files.forget(fd)
            self._files.read(fd, fmt.PAGE, 0)
        finally:
            self._files.close(fd)

    def _between(self, first: int, last: int) -> Iterator[Segment]:
        """Segments that may have sequences from `first` to `last`."""
        at = max(bisect_right(self.segments, first, key=lambda segment: segment.first) - 1, 0)
        for segment in self.segments[at:]:
            if segment.first > last:
                return
            if segment.last >= first:
                yield segment

    def _limit(self, segment: Segment) -> int:
        """The largest sequence that may be in a segment."""
        at = bisect_right(self.segments, segment.first, key=lambda other: other.first)
        return self.segments[at].first - 1 if at < len(self.segments) else fmt.MAX_SEQUENCE

    def _blocks(self, segment: Segment, first: int) -> Steps[Iterator[Block]]:
        yield from self.ensure_indexed(segment)
        return blocks_from(segment, first)

    def _entries(self, segment: Segment, block: Block, wanted: Ranges) -> Steps[list[Entry]]:
        """The `wanted` requests of a block. Those that are not found, twice, are damaged."""
        entries, damages, _ = yield from self._look(segment, block, wanted)
        missing = Ranges(part for damage in damages for part in _parts(damage, block, wanted))
        if not missing:
            return entries
        self._forget(segment)
        again, damages, items = yield from self._look(segment, block, missing)
        untold = max(block.items - items, 0) if _headless(block, damages, missing) else 0
        for damage in damages:
            if gone := tuple(_parts(damage, block, missing)):
                with self._noting(segment):
                    untold = self._lose(segment, damage, gone, untold)
                self._ledger.note(Skip(gone, "damaged"))
        return sorted([*entries, *again], key=lambda entry: entry.sequence)

    def _look(self, segment: Segment, block: Block, wanted: Ranges) -> Steps[tuple[list[Entry], list[Damage], int]]:
        """The requests of a block that can be read, what is between them, and the items of all whose headers are whole,
        wanted or not.
        """
        entries: list[Entry] = []
        damages: list[Damage] = []
        items = 0
        try:
            fd = self._files.open(segment.path)
        except FileNotFoundError:  # removed meanwhile: all of it is finished
            return entries, damages, items
        end, last = block.start, block.first - 1
        try:
            for part in survey(read_at(self._files, fd), segment.seed, block.start, block.end, last):
                if isinstance(part, Damage):
                    damages.append(part)
                    items += sum(head.accepted for head in part.requests.values())
                    last = block.last if part.last is None else part.last
                    continue
                end, last = part.end, part.head.sequence - (part.head.kind == fmt.POLICY)
                items += part.head.accepted
                if part.head.kind == fmt.REQUEST and part.head.sequence in wanted:
                    entry = yield from self._entry(segment, part)
                    if entry is not None:
                        entries.append(entry)
        finally:
            self._files.close(fd)
        if last < block.last:  # zeros, or the file is shorter than it was
            damages.append(Damage(end, block.end, last + 1, block.last))
        return entries, damages, items

    def _entry(self, segment: Segment, found: Found) -> Steps[Entry | None]:
        head = found.head
        policy = segment.policies.get(head.policy_id)
        if policy is None:
            policy = yield from self._policy_elsewhere(head.policy_id)
        request = None if policy is None else fmt.request_of(head, bytes(found.payload), policy)
        if request is None:
            damage = Damage(found.offset, found.end, head.sequence, head.sequence, (head,))
            self._account(segment, damage, (head.sequence, head.sequence), segment.synced)
            return None
        return Entry(head.sequence, request)

    def _policy_elsewhere(self, policy_id: int) -> Steps[Policy | None]:
        """A policy whose declaration in a segment is damaged: others have declared it too, unless it was new."""
        for segment in tuple(self.segments):
            yield from self.ensure_indexed(segment)
            if policy_id in segment.policies:
                return segment.policies[policy_id]
        return self._policies.get(policy_id)


def _headless(block: Block, damages: Sequence[Damage], missing: Ranges) -> bool:
    """Whether all requests of a block that have no header any more are among the `missing`: none of them is stored."""
    gone = Ranges(damage.missing(block.last) for damage in damages)
    for sequence in (sequence for damage in damages for sequence in damage.requests):
        gone.discard(sequence, sequence)
    return all(missing.covers(first, min(last, block.last)) for first, last in gone)


def _parts(damage: Damage, block: Block, wanted: Ranges) -> Iterator[Range]:
    """What of `wanted` is missing in a block where there is damage."""
    first, last = damage.missing(block.last)
    return wanted.parts(first, min(last, block.last))
