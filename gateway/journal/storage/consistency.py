"""Checks that segments agree with their names and with the ledger when a journal is opened.

`SegmentNames` restores the names of segments from their headers. The header of a segment has the sequence that is in
its name. If the two differ, the file was renamed or copied. If they were read under the wrong name, a copy would be
stored twice, and the intact requests of a renamed segment would count as damaged.

    renamed    gets its name back
    copied     of two files with the same sequence, the one with fewer requests is moved to `damaged/`
    foreign    a file with another salt than the ledger is from another journal; it is moved to `damaged/`

After a crash in between, the next start restores the names.

`MissingSegments` finds acknowledged requests that are in no segment any more, and reports them. Sequences ascend one by
one over all segments of a journal, and a segment is deleted only when all of its requests are finished according to the
ledger. So if a sequence below the next one is neither finished nor in a segment, another program has deleted or emptied
its file. Two things limit this knowledge:

    the end       used sequences are recorded in the ledger once a second and with every batch. If a request was
                  acknowledged later, before a crash, only its segment shows that it existed
    the ledger    if it is damaged, missing or older than a segment, it may not know that requests were finished
"""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import count
from pathlib import Path
from typing import Final

from gateway.journal import format as fmt
from gateway.journal.interface import DamagedRequests, Range, RangeSet
from gateway.journal.storage.batch_state import BatchState
from gateway.journal.storage.files import JournalContext
from gateway.journal.storage.ledger import Ledger
from gateway.journal.storage.quarantine import CorruptionStore
from gateway.journal.storage.scanning import build_reader, index_segment, run_to_completion
from gateway.journal.storage.segment_set import SegmentSet
from gateway.journal.storage.segments import Segment, parse_segment_name, segment_name

Headers = Mapping[str, fmt.FileHeader | None]  # by file name; None: the header is damaged


class SegmentNames:
    """The names of the segments of one journal. `salts`: all salts in use; the ledger's salt comes first."""

    def __init__(
        self,
        directory: Path,
        context: JournalContext,
        corruption_store: CorruptionStore,
        headers: Headers,
        salts: Sequence[bytes],
    ) -> None:
        self._directory = directory
        self._files, self._log = context.files, context.log
        self._corruption_store = corruption_store
        self._headers = headers
        self._salts = salts
        self._metrics = context.metrics
        self.unreadable: list[int] = []  # the sequences in the names of segments that `restore` found unreadable

    def restore(self) -> Headers:
        """Rename segments and move others to `damaged/` until every name agrees with its header; returns the headers
        of the remaining files, segments in order. Raises OSError.
        """
        ledgers = {name: header for name, header in self._headers.items() if parse_segment_name(name) is None}
        claims: dict[int, list[str]] = {}
        for name in self._headers.keys() - ledgers.keys():
            if self._is_foreign(name):
                self._set_aside(
                    name, "a file belongs to another journal; it is moved to damaged/, and its requests are not stored"
                )
            else:
                claims.setdefault(self._first(name), []).append(name)
        names = {first: self._choose(first, copies) for first, copies in sorted(claims.items())}
        for first, name in list(names.items()):
            if self._headers[name] is None and not self._report_header(first, name):
                del names[first]
        self._rename({name: segment_name(first) for first, name in names.items() if name != segment_name(first)})
        return ledgers | {segment_name(first): self._headers[name] for first, name in names.items()}

    def _report_header(self, first: int, name: str) -> bool:
        """Report a damaged header. A segment without requests is moved to `damaged/`; returns whether the segment has
        requests."""
        self._metrics.damaged_frames.inc()
        self._log.error("the header of a journal segment is damaged", segment=str(self._directory / name))
        if self._count_requests(first, name):
            return True
        self._set_aside(name, "no part of a journal segment can be read; it is moved to damaged/")
        self.unreadable.append(first)
        return False

    def _first(self, name: str) -> int:
        """The sequence that the name should have, from the header; if it is damaged, from the first frame, which has
        the first sequence of its group."""
        header = self._headers[name]
        if header is not None:
            return header.first
        with self._files.opened(self._directory / name) as fd:
            page = build_reader(self._files, fd)(fmt.PAGE, fmt.PAGE)
        frames = (fmt.read_frame_header(page, 0, fmt.checksum_seed(salt)) for salt in self._salts)
        return next((head.group for head in frames if head is not None), parse_segment_name(name) or 0)

    def _is_foreign(self, name: str) -> bool:
        header = self._headers[name]
        if header is None:
            return False
        ledger_salts = [each.salt for each in self._headers.values() if each is not None and each.kind == fmt.LEDGER]
        return header.kind != fmt.SEGMENT or (bool(ledger_salts) and header.salt != ledger_salts[0])

    def _choose(self, first: int, copies: Sequence[str]) -> str:
        """The file with the most requests; on a tie, the file whose name is right. Moves the other files to
        `damaged/`."""
        if len(copies) == 1:
            return copies[0]
        ranked = sorted(copies, key=lambda name: (self._count_requests(first, name), name == segment_name(first)))
        for name in ranked[:-1]:
            self._set_aside(name, "a journal segment exists twice; the file with fewer requests is moved to damaged/")
        return ranked[-1]

    def _count_requests(self, first: int, name: str) -> int:
        header = self._headers[name]
        salts = self._salts if header is None else [header.salt]
        segments = (Segment(self._directory / name, first, fmt.checksum_seed(salt)) for salt in salts)
        found = (run_to_completion(index_segment(self._files, each, None, fmt.MAX_SEQUENCE)) for each in segments)
        return max(each.segment.requests for each in found)

    def _set_aside(self, name: str, event: str) -> None:
        self._log.warning(event, segment=str(self._directory / name), name=segment_name(self._first(name)))
        self._corruption_store.set_aside(self._directory / name)

    def _rename(self, targets: dict[str, str]) -> None:
        """Rename files, by name. If names are swapped, one file gets a free name meanwhile."""
        while targets:
            name = next((name for name, target in targets.items() if target not in targets), None)
            if name is None:
                name = next(iter(targets))
                target = next(free for n in count(fmt.MAX_SEQUENCE, -1) if (free := segment_name(n)) not in targets)
                targets[target] = targets.pop(name)
            else:
                target = targets.pop(name)
                self._log.warning(
                    "a journal segment had the wrong name and is renamed",
                    segment=str(self._directory / name),
                    name=target,
                )
            self._files.rename(self._directory / name, self._directory / target)
            self._files.sync_directory(self._directory)  # before another file gets the old name


MISSING: Final = (
    "segments of the journal are missing, and their requests are not stored; put the files back and restart"
)
MISSING_AT_THE_END: Final = (
    f"{MISSING}; requests that were acknowledged within the last second before the crash may be missing too"
)
UNCERTAIN: Final = (
    "segments of the journal are missing; it is unknown whether their requests are stored, because the ledger is "
    "damaged, missing or older than other segments"
)
UNREADABLE_END: Final = (
    "the last journal segment is unreadable and was moved to damaged/; it may have had requests that were acknowledged "
    "in the last second before the crash"
)
SKIPPED_NUMBERS: Final = 10**10  # sequences skipped after a missing last segment: more than a segment can have
_MAX_SEGMENTS_IN_LOG: Final = 8


def missing_ranges(state: BatchState, segments: Iterable[Range]) -> list[Range]:
    """Sequences that are neither finished, nor in `segments`, nor reported as missing before."""
    known = RangeSet(segments)
    for first, last in state.missing:
        known.add(first, last)
    holes = state.finished.holes(1, state.next_sequence - 1)
    parts = (part for hole in holes for part in known.holes(*hole))
    return [(first, last) for first, last in parts if last - first + 1 < SKIPPED_NUMBERS]  # longer ranges were skipped


def missing_names(sealed: Mapping[int, fmt.SealRecord], missing: Sequence[Range]) -> Sequence[str]:
    """The names of the segments that had the sequences `missing`. If the ledger has no record, a description replaces
    the name."""
    lost, rest = RangeSet(missing), RangeSet(missing)
    names = {}
    for facts in sealed.values():
        if lost.overlaps(facts.first, facts.last):
            names[facts.first] = segment_name(facts.first)
            rest.discard(facts.first, facts.last)
    names |= {first: f"the segment that contained request {first}" for first, _ in rest}
    return [names[first] for first in sorted(names)]


class MissingSegments:
    """Reports requests that the segments of one journal lack. `gone`: records of sealed segments without a file."""

    def __init__(
        self,
        directory: Path,
        context: JournalContext,
        ledger: Ledger,
        segment_set: SegmentSet,
        corruption_store: CorruptionStore,
        gone: Mapping[int, fmt.SealRecord],
    ) -> None:
        self._directory = directory
        self._metrics, self._log = context.metrics, context.log
        self._ledger = ledger
        self._segment_set = segment_set
        self._corruption_store = corruption_store
        self._gone = gone

    def report(self, unreadable_end: int, *, is_certain: bool, is_end_known: bool) -> None:
        """Count, log, note and record missing requests, once.

        `unreadable_end`: the sequence in the name of the last segment if no part of it can be read; otherwise 0.
        `is_certain`: the ledger has all finished requests. `is_end_known`: the ledger has all used sequences.
        """
        state = self._ledger.state
        present = [(segment.first, segment.last) for segment in self._segment_set.segments]
        self._take_back(present)
        missing = missing_ranges(state, present)
        at_the_end = not is_end_known and bool(missing) and missing[-1][1] == state.next_sequence - 1
        if at_the_end or unreadable_end:
            self._metrics.uncertain_requests.inc()
        if unreadable_end and not at_the_end:
            self._log.error(UNREADABLE_END, segment=str(self._directory / segment_name(unreadable_end)))
        if missing:
            self._report(missing, is_certain=is_certain, at_the_end=at_the_end)

    def skip_numbers(self) -> None:
        """Begin the next segment above every sequence that the missing last segment may have used. The ledger records
        the sequences in between as missing and reported: they are read if the segment is put back.
        """
        first = self._ledger.state.next_sequence
        self._ledger.append(fmt.MissingRecord(((first, first + SKIPPED_NUMBERS - 1),)))

    def _report(self, missing: Sequence[Range], *, is_certain: bool, at_the_end: bool) -> None:
        state = self._ledger.state
        requests = sum(last - first + 1 for first, last in missing)
        if is_certain:
            self._segment_set.report_lost(self._reports(missing), requests)
        else:
            self._metrics.damaged_frames.inc()  # the ledger
            self._metrics.uncertain_requests.inc(requests)
        names = missing_names(self._gone, missing)
        self._log.error(
            UNCERTAIN if not is_certain else MISSING_AT_THE_END if at_the_end else MISSING,
            segments=[self._shown(name) for name in names[:_MAX_SEGMENTS_IN_LOG]],
            requests=requests,
            possibly_stored=_count_begun(state, missing),
        )
        try:
            self._corruption_store.note_missing(self._directory / names[0], tuple(missing), is_uncertain=not is_certain)
        except OSError as error:
            self._log.error("the note about missing journal segments cannot be written to damaged/", error=str(error))
        self._ledger.append(fmt.MissingRecord(tuple(missing)))

    def _take_back(self, present: Sequence[Range]) -> None:
        """Read segments that were missing and have been put back like all others."""
        missing = self._ledger.state.missing
        returned = [part for first, last in present for part in missing.intersection(first, last)]
        for first, last in returned:
            missing.discard(first, last)
        if returned:
            requests = sum(last - first + 1 for first, last in returned)
            self._log.warning("missing segments of the journal were put back and are read", requests=requests)
            try:
                self._corruption_store.take_back(self._directory.name, returned)
            except OSError as error:
                self._log.error("the notes about missing journal segments cannot be updated", error=str(error))

    def _reports(self, missing: Sequence[Range]) -> Iterator[DamagedRequests]:
        """One report per segment; the number of items is known if the ledger has its record and nothing was stored."""
        rest = RangeSet(missing)
        for facts in self._gone.values():
            if facts.last >= facts.first and rest.covers(facts.first, facts.last):
                rest.discard(facts.first, facts.last)
                yield DamagedRequests(facts.first, facts.last, facts.items)
        for first, last in rest:
            yield DamagedRequests(first, last)

    def _shown(self, name: str) -> str:
        return str(self._directory / name) if parse_segment_name(name) is not None else name


def _count_begun(state: BatchState, missing: Sequence[Range]) -> int:
    """The number of missing requests in begun batches: ClickHouse may have stored them."""
    parts = (part for first, last in missing for part in state.in_batches.intersection(first, last))
    return sum(last - first + 1 for first, last in parts)
