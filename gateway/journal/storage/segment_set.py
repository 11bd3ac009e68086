"""The segments of a journal, in order: reads requests from them, and records and reports damage."""

import contextlib
from bisect import bisect_right
from collections import deque
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from gateway.journal import format as fmt
from gateway.journal.interface import Batch, DamagedRequests, Entry, Range, RangeSet
from gateway.journal.storage.directories import LOCK_FILE
from gateway.journal.storage.files import JournalContext
from gateway.journal.storage.ledger import Ledger
from gateway.journal.storage.quarantine import CorruptionStore
from gateway.journal.storage.scanning import (
    CooperativeSteps,
    Damage,
    IndexResult,
    JournalFrame,
    build_reader,
    frames_and_damage,
    index_segment,
)
from gateway.journal.storage.segments import FRESH, SLOW, BlockIndex, Segment, SegmentBlock
from proto.otlp.policy import Policy

ANY_LANE: Final = FRESH | SLOW
OVERLAP: Final = (
    "two segments of the journal have requests with the same sequences; of the first segment, only the other requests "
    "are stored, and then its file is moved to damaged/"
)
UNCERTAIN_END: Final = (
    "the last bytes of the journal cannot be read; if the process stopped while it wrote them, no acknowledged request "
    "is lost; otherwise a request that was acknowledged in the last second is lost"
)


class SegmentSet:
    """All segments of a journal, including the one that is being written."""

    def __init__(self, context: JournalContext, ledger: Ledger, corruption_store: CorruptionStore) -> None:
        self.segments: list[Segment] = []
        self._files, self._metrics, self._log = context.files, context.metrics, context.log
        self._ledger = ledger
        self._corruption_store = corruption_store
        self._unreported: deque[DamagedRequests] = deque()
        self._deleted: list[Segment] = []
        self._recorded = RangeSet()  # reported sequences: concurrent readers must not report them twice
        self._policies: dict[int, Policy] = {}  # of all segments, used for a segment whose own declaration is damaged

    def add(self, segment: Segment) -> None:
        """Append a segment; its sequences must be higher than all others."""
        self.segments.append(segment)

    def remove(self, segment: Segment) -> None:
        """Remove a segment whose file is removed."""
        self.segments.remove(segment)
        self._ledger.state.drop_segment(segment.first, segment.last)
        self._recorded.discard(segment.first, segment.last)

    def read(self, after: int, max_bytes: int, lanes: int = ANY_LANE) -> CooperativeSteps[list[Entry]]:
        """Available requests of `lanes` with sequences above `after`, until their bodies reach `max_bytes`; at least
        one if there is any. Raises OSError.
        """
        entries: list[Entry] = []
        size = 0
        state = self._ledger.state
        for segment in self._segments_between(after + 1, fmt.MAX_SEQUENCE):
            available = state.available(max(segment.first, after + 1), segment.last)
            if not segment.lanes & lanes or next(available, None) is None:
                continue
            for block in (yield from self._indexed_blocks(segment, after + 1)):
                first = max(block.first, after + 1)
                wanted = RangeSet(state.available(first, block.last)) if block.lanes & lanes else RangeSet()
                if not wanted:
                    continue
                for entry in (yield from self._read_block(segment, block, wanted)):
                    if (SLOW if entry.request.slow else FRESH) & lanes:
                        entries.append(entry)
                        size += len(entry.request.body)
                        if size >= max_bytes:
                            return entries
                yield
        return entries

    def read_batch(self, batch: Batch) -> CooperativeSteps[list[Entry]]:
        """The readable requests of a batch, in order. Raises OSError."""
        entries: list[Entry] = []
        wanted = RangeSet(self._ledger.state.readable(batch))
        for segment in self._segments_between(batch.ranges[0][0], batch.ranges[-1][1]):
            if not wanted.overlaps(segment.first, segment.last):
                continue
            for block in (yield from self._indexed_blocks(segment, batch.ranges[0][0])):
                if not wanted.overlaps(block.first, block.last):
                    continue
                entries += yield from self._read_block(segment, block, wanted)
                yield
        return entries

    def take_damaged(self) -> list[DamagedRequests]:
        """Requests that were found damaged since the last call, and are not stored. Callable from any thread."""
        return [self._unreported.popleft() for _ in range(len(self._unreported))]

    def ensure_indexed(self, segment: Segment) -> CooperativeSteps[None]:
        """Index a segment of which only the ledger record was read so far. Damage is confirmed by a second read from
        disk."""
        if segment.block_index is not None:
            return
        found = yield from self._index(segment)
        if found.damages or found.unreadable or found.segment.last < segment.last:
            self._drop_page_cache(segment)
            found = yield from self._index(segment)
        segment.block_index, segment.policies = found.segment.block_index, found.segment.policies
        with self._recording_keep_flag(segment):
            self.record_damage(segment, found, segment.last)

    def find_deleted(self) -> list[Segment]:
        """Segments that another program has deleted; each is logged once. Requests in memory can still be stored;
        others are reported as lost when they are read. Raises OSError.
        """
        deleted = self._without_file(self.segments)
        for segment in (segment for segment in deleted if segment not in self._deleted):
            self._log.error(
                "a journal segment was deleted while it was in use; requests that are not in memory are lost",
                segment=str(segment.path),
            )
        self._deleted = deleted
        return deleted

    def report_lost(self, reports: Iterable[DamagedRequests], requests: int) -> None:
        """Report and count requests that are lost."""
        self._unreported.extend(reports)
        self._metrics.damaged_frames.inc(requests)
        self._metrics.lost_requests.inc(requests)

    def report_overlap(self, segment: Segment, requests: int) -> None:
        """Report intact requests whose sequences are in the next segment too: they are not read, and the file is
        kept."""
        segment.keep = True
        self.report_lost((), requests)
        self._log.error(OVERLAP, segment=str(segment.path), requests=requests)

    def record_damage(self, segment: Segment, index: IndexResult, expected: int, *, is_end_known: bool = True) -> None:
        """Save, report and skip damage that indexing has found. Requests up to `expected` were on disk once. Unless
        `is_end_known`, missing requests after these were being written when the process stopped, or were acknowledged
        just before.
        """
        self._policies |= index.segment.policies
        segment.keep |= index.unreadable
        synced = segment.last_synced = max(expected, index.last_synced)
        last = index.segment.last
        for damage in index.damages:
            missing = damage.missing(expected)
            if not is_end_known and (damage.last is None or missing[1] > max(synced, missing[0] - 1)):
                self._log_uncertain_end(segment, damage, missing, synced)
            else:
                self._record_missing(segment, damage, missing, synced)
            last = max(last, missing[1])
        if last < expected:  # the file is shorter than recorded
            end = index.segment.length
            self._record_missing(segment, Damage(end, end, last + 1, expected), (last + 1, expected), synced)

    def _log_uncertain_end(self, segment: Segment, damage: Damage, missing: Range, synced: int) -> None:
        """Report the damaged end of a journal: a part of it is known to be lost, the rest may be lost."""
        if missing[0] <= synced:
            self._record_missing(segment, damage, (missing[0], min(missing[1], synced)), synced)
        if missing[1] > max(synced, missing[0] - 1):
            self._ledger.append(fmt.SkipRecord(((max(missing[0], synced + 1), missing[1]),), "torn"))
        self._metrics.uncertain_requests.inc()
        self._log.warning(UNCERTAIN_END, segment=str(segment.path), at=damage.start)

    def _record_missing(self, segment: Segment, damage: Damage, missing: Range, synced: int) -> None:
        finished = self._ledger.state.finished
        lost = tuple(finished.holes(missing[0], min(missing[1], synced)))
        if lost:
            self._report_damage(segment, damage, lost)
        else:
            self._log.warning(
                "skipping damaged bytes in the journal; no request is lost", segment=str(segment.path), at=damage.start
            )
        if not finished.covers(*missing):
            self._ledger.append(fmt.SkipRecord((missing,), "damaged" if lost else "torn"))

    def _report_damage(
        self, segment: Segment, damage: Damage, lost: tuple[Range, ...], unreported_items: int = 0
    ) -> int:
        """Report requests as lost and save their bytes. `unreported_items`: items of lost requests without a header;
        returns how many of them are still to be reported.
        """
        lost = tuple(part for each in lost for part in self._recorded.holes(*each))
        if not lost:
            return unreported_items
        for part in lost:
            self._recorded.add(*part)
        requests = sum(last - first + 1 for first, last in lost)
        reports = [report for part in lost for report in self._reported(damage, part)]
        for at, report in enumerate(reports):
            if unreported_items and report.signal is None and not report.items:
                reports[at], unreported_items = report._replace(items=unreported_items), 0
        self.report_lost(reports, requests)
        self._log.error(
            "requests in the journal cannot be read", segment=str(segment.path), at=damage.start, requests=requests
        )
        try:
            segment.keep |= not self._corruption_store.save_copy(segment, damage, lost)
        except OSError as error:
            segment.keep = True
            self._log.error("damaged journal bytes cannot be copied", error=str(error))
        return unreported_items

    def _reported(self, damage: Damage, part: Range) -> Iterator[DamagedRequests]:
        """The reports for damaged requests: one per intact header, and one per range between headers. Stored requests
        are left out."""
        headers = damage.request_headers
        for first, last in self._ledger.state.finished.holes(*part):
            known = [headers[sequence] for sequence in sorted(headers) if first <= sequence <= last]
            for header in known:
                yield DamagedRequests(header.sequence, header.sequence, header.accepted, fmt.decode_signal(header))
            for rest in RangeSet((header.sequence, header.sequence) for header in known).holes(first, last):
                yield DamagedRequests(*rest)

    @contextlib.contextmanager
    def _recording_keep_flag(self, segment: Segment) -> Iterator[None]:
        """Record in the ledger that `keep` was set in the block, so that the next start has it."""
        before = segment.keep
        yield
        if segment.keep and not before and segment.is_sealed:
            self._ledger.append(segment.to_record())

    def _drop_page_cache(self, segment: Segment) -> None:
        """Make the next read of a segment come from the disk. Raises OSError if even the first page is unreadable: then
        the cause is the disk, not the segment, and a later read may succeed.
        """
        try:
            fd = self._files.open(segment.path)
        except FileNotFoundError:
            if self._without_file([segment]):
                return
            raise
        try:
            self._files.drop_page_cache(fd)
            self._files.read(fd, fmt.PAGE, 0)
        finally:
            self._files.close(fd)

    def _index(self, segment: Segment) -> CooperativeSteps[IndexResult]:
        """The result of reading a segment of this journal; an empty result if another program has deleted the
        segment."""
        try:
            return (yield from index_segment(self._files, segment, segment.length, self._max_sequence(segment)))
        except FileNotFoundError:
            if not self._without_file([segment]):
                raise
            empty = Segment(segment.path, segment.first, segment.seed)
            empty.block_index = BlockIndex()
            return IndexResult(empty, segment.first - 1, (), unreadable=False)

    def _without_file(self, segments: Sequence[Segment]) -> list[Segment]:
        """The segments that another program has deleted. If the lock file is missing too, the whole directory is
        missing and may come back (for example, a disk is not mounted), so the result is empty. Raises OSError.
        """
        names = {
            name
            for directory in {segment.path.parent for segment in segments}
            for name in self._files.list_directory(directory)
        }
        return [segment for segment in segments if segment.path.name not in names] if LOCK_FILE in names else []

    def _segments_between(self, first: int, last: int) -> Iterator[Segment]:
        """The segments that may have sequences from `first` to `last`, in order."""
        at = max(bisect_right(self.segments, first, key=lambda segment: segment.first) - 1, 0)
        for segment in self.segments[at:]:
            if segment.first > last:
                return
            if segment.last >= first:
                yield segment

    def _max_sequence(self, segment: Segment) -> int:
        """The highest sequence that a segment may have: the one before the next segment."""
        at = bisect_right(self.segments, segment.first, key=lambda other: other.first)
        return self.segments[at].first - 1 if at < len(self.segments) else fmt.MAX_SEQUENCE

    def _indexed_blocks(self, segment: Segment, first: int) -> CooperativeSteps[Iterator[SegmentBlock]]:
        yield from self.ensure_indexed(segment)
        return segment.blocks_from(first)

    def _read_block(self, segment: Segment, block: SegmentBlock, wanted: RangeSet) -> CooperativeSteps[list[Entry]]:
        """The `wanted` requests of a block. Requests that are missing in two reads are damaged."""
        entries, damages, _ = yield from self._scan_block(segment, block, wanted)
        missing = RangeSet(part for damage in damages for part in _missing_parts(damage, block, wanted))
        if not missing:
            return entries
        self._drop_page_cache(segment)
        reread, damages, items = yield from self._scan_block(segment, block, missing)
        unreported_items = max(block.items - items, 0) if _covers_all_headerless(block, damages, missing) else 0
        for damage in damages:
            if lost := tuple(_missing_parts(damage, block, missing)):
                with self._recording_keep_flag(segment):
                    unreported_items = self._report_damage(segment, damage, lost, unreported_items)
                self._ledger.append(fmt.SkipRecord(lost, "damaged"))
        return sorted([*entries, *reread], key=lambda entry: entry.sequence)

    def _scan_block(
        self, segment: Segment, block: SegmentBlock, wanted: RangeSet
    ) -> CooperativeSteps[tuple[list[Entry], list[Damage], int]]:
        """The readable `wanted` requests of a block, the damage between requests, and the number of items of all
        requests with an intact header, wanted or not.
        """
        entries: list[Entry] = []
        damages: list[Damage] = []
        items = 0
        try:
            fd = self._files.open(segment.path)
        except FileNotFoundError:
            if segment in self.segments:  # otherwise all its requests are finished, and it was removed meanwhile
                if not self._without_file([segment]):
                    raise
                damages.append(Damage(block.start, block.start, block.first, block.last))
            return entries, damages, items
        end, last = block.start, block.first - 1
        try:
            for part in frames_and_damage(build_reader(self._files, fd), segment.seed, block.start, block.end, last):
                if isinstance(part, Damage):
                    damages.append(part)
                    items += sum(head.accepted for head in part.request_headers.values())
                    last = block.last if part.last is None else part.last
                    continue
                end, last = part.end, part.header.sequence - (part.header.kind == fmt.POLICY)
                items += part.header.accepted
                if part.header.kind == fmt.REQUEST and part.header.sequence in wanted:
                    entry = yield from self._decode_entry(segment, part)
                    if entry is not None:
                        entries.append(entry)
        finally:
            self._files.close(fd)
        if last < block.last:  # zeros, or the file is shorter than recorded
            damages.append(Damage(end, block.end, last + 1, block.last))
        return entries, damages, items

    def _decode_entry(self, segment: Segment, frame: JournalFrame) -> CooperativeSteps[Entry | None]:
        head = frame.header
        policy = segment.policies.get(head.policy_id)
        if policy is None:
            policy = yield from self._find_policy(head.policy_id)
        request = None if policy is None else fmt.decode_request(head, bytes(frame.payload), policy)
        if request is None:
            damage = Damage(frame.offset, frame.end, head.sequence, head.sequence, (head,))
            self._record_missing(segment, damage, (head.sequence, head.sequence), segment.last_synced)
            return None
        return Entry(head.sequence, request)

    def _find_policy(self, policy_id: int) -> CooperativeSteps[Policy | None]:
        """Find a policy in the other segments, because its declaration in its own segment is damaged; None if no
        segment declares it.
        """
        for segment in tuple(self.segments):
            yield from self.ensure_indexed(segment)
            if policy_id in segment.policies:
                return segment.policies[policy_id]
        return self._policies.get(policy_id)


def _covers_all_headerless(block: SegmentBlock, damages: Sequence[Damage], missing: RangeSet) -> bool:
    """Whether all requests of a block without an intact header are `missing`, so that none of them is stored."""
    headerless = RangeSet(damage.missing(block.last) for damage in damages)
    for sequence in (sequence for damage in damages for sequence in damage.request_headers):
        headerless.discard(sequence, sequence)
    return all(missing.covers(first, min(last, block.last)) for first, last in headerless)


def _missing_parts(damage: Damage, block: SegmentBlock, wanted: RangeSet) -> Iterator[Range]:
    """The ranges of `wanted` that are missing in a block because of `damage`."""
    first, last = damage.missing(block.last)
    return wanted.intersection(first, min(last, block.last))
