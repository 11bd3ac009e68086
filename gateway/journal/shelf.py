"""The segments of a journal in order, and the requests in them."""

from bisect import bisect_right
from collections.abc import Iterator
from typing import Final

import structlog

from gateway.journal import format as fmt
from gateway.journal.blocks import FRESH, SLOW, Block
from gateway.journal.damage import Damaged
from gateway.journal.entries import Skip
from gateway.journal.files import Files
from gateway.journal.indexing import Indexed, Steps, index
from gateway.journal.ledger import Ledger
from gateway.journal.metrics import JournalMetrics
from gateway.journal.ranges import Ranges
from gateway.journal.reading import read_at
from gateway.journal.records import Batch, Entry, Range
from gateway.journal.scanning import Damage, Found, scan
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
        self._policies: dict[int, Policy] = {}  # of all segments, for one whose own declaration is damaged

    def add(self, segment: Segment) -> None:
        """Behind those that are there."""
        self.segments.append(segment)

    def remove(self, segment: Segment) -> None:
        """It is gone."""
        self.segments.remove(segment)
        self._ledger.progress.forget(segment.first, segment.last)

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
        wanted = Ranges(batch.ranges)
        for segment in self._between(batch.ranges[0][0], batch.ranges[-1][1]):
            if not wanted.overlaps(segment.first, segment.last):
                continue
            for block in (yield from self._blocks(segment, batch.ranges[0][0])):
                if not wanted.overlaps(block.first, block.last):
                    continue
                entries += yield from self._entries(segment, block, wanted)
                yield
        return entries

    def ensure_indexed(self, segment: Segment) -> Steps[None]:
        """Read a segment that only a ledger told about."""
        if segment.blocks is not None:
            return
        found = yield from index(self._files, segment, segment.length, self._limit(segment))
        segment.blocks, segment.policies = found.segment.blocks, found.segment.policies
        self.account(segment, found, segment.last)

    def account(self, segment: Segment, found: Indexed, expected: int) -> None:
        """Keep what is damaged, and skip it. Requests up to `expected` were on disk once; what is missing behind them
        was being written when the process stopped.
        """
        self._policies |= found.segment.policies
        segment.keep |= found.unreadable
        synced = max(expected, found.synced)
        last = found.segment.last
        for damage in found.damages:
            missing = damage.missing(expected)
            self._account(segment, damage, missing, synced)
            last = max(last, missing[1])
        if last < expected:  # the file is shorter than it was
            end = found.segment.length
            self._account(segment, Damage(end, end, last + 1, expected), (last + 1, expected), synced)

    def move_away(self, segment: Segment, expected: int) -> None:
        """A segment of which nothing can be told, though there were requests up to `expected`. Raises OSError."""
        gone = sum(last - first + 1 for first, last in self._ledger.progress.finished.holes(segment.first, expected))
        self._metrics.damaged_frames.inc(gone)
        self._log.error("a segment of the journal cannot be read", segment=str(segment.path), requests=gone)
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

    def _lose(self, segment: Segment, damage: Damage, gone: tuple[Range, ...]) -> None:
        requests = sum(last - first + 1 for first, last in gone)
        self._metrics.damaged_frames.inc(requests)
        self._log.error(
            "requests of the journal cannot be read", segment=str(segment.path), at=damage.start, requests=requests
        )
        try:
            segment.keep |= not self._damaged.keep(segment, damage, gone)
        except OSError as error:
            segment.keep = True
            self._log.error("damaged bytes of the journal cannot be copied", error=str(error))

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
        return _blocks_from(segment, first)

    def _entries(self, segment: Segment, block: Block, wanted: Ranges) -> Steps[list[Entry]]:
        try:
            fd = self._files.open(segment.path)
        except FileNotFoundError:  # removed meanwhile: all of it is finished
            return []
        entries: list[Entry] = []
        try:
            for part in scan(read_at(self._files, fd), segment.seed, block.start, block.end):
                if isinstance(part, Found) and part.head.kind == fmt.REQUEST and part.head.sequence in wanted:
                    entry = yield from self._entry(segment, part)
                    if entry is not None:
                        entries.append(entry)
        finally:
            self._files.close(fd)
        return entries

    def _entry(self, segment: Segment, found: Found) -> Steps[Entry | None]:
        head = found.head
        policy = segment.policies.get(head.policy_id)
        if policy is None:
            policy = yield from self._policy_elsewhere(head.policy_id)
        request = None if policy is None else fmt.request_of(head, bytes(found.payload), policy)
        if request is None:
            damage = Damage(found.offset, found.end, head.sequence, head.sequence, head=head)
            self._account(segment, damage, (head.sequence, head.sequence), head.sequence)
            return None
        return Entry(head.sequence, request)

    def _policy_elsewhere(self, policy_id: int) -> Steps[Policy | None]:
        """A policy whose declaration in a segment is damaged: others have declared it too, unless it was new."""
        for segment in tuple(self.segments):
            yield from self.ensure_indexed(segment)
            if policy_id in segment.policies:
                return segment.policies[policy_id]
        return self._policies.get(policy_id)


def _blocks_from(segment: Segment, first: int) -> Iterator[Block]:
    """The blocks that have sequences from `first` on."""
    blocks = segment.blocks
    if blocks is None:
        return
    number = blocks.of(first)
    while (block := blocks.get(number, segment.last, segment.length)) is not None:
        yield block
        number += 1
