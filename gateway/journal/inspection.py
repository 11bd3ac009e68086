"""Reports what the journals of a directory contain, for operators: counts, sizes, times, reasons; never a byte of a
request.

Inspection changes no file. A journal in use can be inspected too: data that is being written at that moment appears
torn, and files that are removed meanwhile are skipped.
"""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

import msgspec

from gateway.journal import format as fmt
from gateway.journal.interface import Range
from gateway.journal.storage import quarantine
from gateway.journal.storage.batch_state import BatchState
from gateway.journal.storage.consistency import missing_names, missing_ranges
from gateway.journal.storage.directories import LOCK_FILE, list_journals
from gateway.journal.storage.files import Files
from gateway.journal.storage.ledger import ledger_numbers, ledger_path, read_ledger
from gateway.journal.storage.quarantine import (
    DAMAGED_DIRECTORY,
    NOTE_SUFFIX,
    DamageNote,
    QuarantineNote,
    read_quarantine_file,
)
from gateway.journal.storage.scanning import (
    IndexResult,
    index_segment,
    load_file_header,
    read_header,
    read_json,
    run_to_completion,
)
from gateway.journal.storage.segments import SEGMENT_SUFFIX, Segment, parse_segment_name, segment_name

_FILES: Final = Files()


class BatchFacts(msgspec.Struct, frozen=True):
    """A batch that is begun and not finished, as reported by `inspect`."""

    batch: int
    made_ms: int
    requests: int
    stored: int  # number of (table, day) pairs that are stored already


class SegmentFacts(msgspec.Struct, frozen=True):
    """A segment, described by its name, its header and the ledger. Unknown values are None."""

    name: str
    bytes: int  # of the file
    version: int | None  # None: the header is damaged
    created_ns: int | None
    first: int  # sequence in the name
    last: int | None
    requests: int | None
    items: int | None
    unfinished: int | None  # requests
    projects: Sequence[int]


class JournalFacts(msgspec.Struct, frozen=True):
    """A journal, as reported by `inspect`."""

    directory: str
    taken: bool  # a process has locked it
    clean: bool  # the last process shut down in order, and no process has locked it
    damaged_records: int  # of its ledger
    batches: Sequence[BatchFacts]
    held: int  # number of retained batches: finished, with their requests still on disk
    segments: Sequence[SegmentFacts]
    missing: Sequence[Range] = ()  # sequences that no segment has, which the next start reports as lost
    # The segment of each range of `missing`, described in words if the ledger does not know its name.
    missing_segments: Sequence[str] = ()


class CorruptRange(msgspec.Struct, frozen=True):
    """Damaged bytes of a segment, and the sequences that are missing there. `last` is None if it is unknown."""

    start: int
    end: int
    first: int
    last: int | None
    project_id: int | None


class SegmentReport(msgspec.Struct, frozen=True):
    """The result of reading a segment from end to end."""

    path: str
    version: int | None
    first: int | None  # the sequence that its name should have; None: the header is damaged
    requests: int
    items: int
    bytes: int
    projects: Sequence[int]
    damaged: Sequence[CorruptRange]
    unreadable: bool  # the disk failed to read a part of it
    shared: int = 0  # intact requests whose sequences are in the next segment too; not counted in `requests`
    shared_with: str = ""  # the name of that segment


class QuarantinedRequest(msgspec.Struct, frozen=True):
    """A quarantined request. `note` None: unreadable. `whole`: the file is intact; None if it was not read."""

    name: str
    note: QuarantineNote | None
    whole: bool | None = None


def inspect(root: Path, files: Files = _FILES) -> list[JournalFacts]:
    """All journals of a directory, without reading the segments. Raises OSError."""
    found = []
    for directory in list_journals(files, root):
        with contextlib.suppress(FileNotFoundError):  # an empty journal that is removed at this moment
            found.append(_inspect_journal(files, directory))
    return found


def verify(root: Path, files: Files = _FILES) -> Iterator[SegmentReport]:
    """Read every segment of every journal from end to end, one after the other. Raises OSError."""
    for directory in list_journals(files, root):
        for name in files.list_existing(directory):
            found = None if parse_segment_name(name) is None else verify_segment(directory / name, files)
            if found is not None:
                yield found


def verify_segment(path: Path, files: Files = _FILES) -> SegmentReport | None:
    """Read one segment from end to end; None if it does not exist. Raises OSError."""
    try:
        return _verify_segment(files, path)
    except FileNotFoundError:
        return None


def list_quarantined(root: Path, files: Files = _FILES, *, verify: bool = False) -> Iterator[QuarantinedRequest]:
    """Quarantined requests, oldest batch first; `verify` reads each file. Raises OSError."""
    directory = root / quarantine.QUARANTINE_DIRECTORY
    for name in files.list_existing(directory):
        if name.endswith(SEGMENT_SUFFIX):
            note = read_json(files, directory / f"{name}{NOTE_SUFFIX}", QuarantineNote)
            try:
                is_intact = read_quarantine_file(files, directory / name) is not None if verify else None
            except FileNotFoundError:
                continue
            yield QuarantinedRequest(name, note, is_intact)


def list_damaged(root: Path, files: Files = _FILES) -> list[DamageNote]:
    """The notes of damaged bytes and segments in `damaged/`. Raises OSError."""
    directory = root / DAMAGED_DIRECTORY
    notes = [
        read_json(files, directory / name, DamageNote)
        for name in files.list_existing(directory)
        if name.endswith(".json")
    ]
    return [note for note in notes if note is not None]


def _inspect_journal(files: Files, directory: Path) -> JournalFacts:
    names = files.list_directory(directory)
    state, damaged_records = _replay_ledger(files, directory, names)
    firsts = [first for name in names if (first := parse_segment_name(name)) is not None]
    is_locked = _is_locked(files, directory)
    missing = () if is_locked else missing_ranges(state, _segment_ranges(firsts, state))
    return JournalFacts(
        str(directory),
        is_locked,
        bool(state.clean_at) and not is_locked,
        damaged_records,
        [
            BatchFacts(batch.batch_id, batch.made_ms, sum(map(_range_length, batch.ranges)), len(batch.skip))
            for batch in state.begun.values()
        ],
        len(state.retained),
        [facts for first in firsts if (facts := _inspect_segment(files, directory, first, state)) is not None],
        missing,
        [", ".join(missing_names(state.sealed, [part])) for part in missing],
    )


def _segment_ranges(firsts: Sequence[int], state: BatchState) -> Iterator[Range]:
    """The sequences that segments may have. A segment that is not sealed may have all sequences up to the next
    segment."""
    ends = sorted({*firsts, *state.sealed, state.next_sequence})
    for first in firsts:
        following = next((end for end in ends if end > first), first)
        facts = state.sealed.get(first)
        yield first, following - 1 if facts is None else facts.last


def _replay_ledger(files: Files, directory: Path, names: Sequence[str]) -> tuple[BatchState, int]:
    """The state that the newest readable ledger describes, and the number of unreadable records."""
    state, damaged_records = BatchState(), 0
    for number in ledger_numbers(names):
        found = read_ledger(files, ledger_path(directory, number), ())
        damaged_records += found.damaged_records
        for record in found.records:
            state.apply(record)
        if found.records:
            break
    return state, damaged_records


def _inspect_segment(files: Files, directory: Path, first: int, state: BatchState) -> SegmentFacts | None:
    path = directory / f"{first:020d}{SEGMENT_SUFFIX}"
    try:
        with files.opened(path) as fd:
            header, size = load_file_header(files, fd), files.size(fd)
    except FileNotFoundError:
        return None
    version, created = (None, None) if header is None else (header.version, header.created_ns)
    facts = state.sealed.get(first)
    if facts is None:
        return SegmentFacts(path.name, size, version, created, first, None, None, None, None, ())
    unfinished = sum(map(_range_length, state.finished.holes(first, facts.last)))
    projects = sorted(facts.projects)
    return SegmentFacts(
        path.name, size, version, created, first, facts.last, facts.requests, facts.items, unfinished, projects
    )


def _verify_segment(files: Files, path: Path) -> SegmentReport:
    header = read_header(files, path)
    salt = bytes(8) if header is None else header.salt
    first = parse_segment_name(path.name) or 0 if header is None else header.first
    segment = Segment(path, first, fmt.checksum_seed(salt))
    if header is not None and header.version > fmt.VERSION:
        return SegmentReport(str(path), header.version, header.first, 0, 0, 0, (), (), unreadable=False)
    following = _find_following(files, path, first)
    found = run_to_completion(index_segment(files, segment, None, following - 1))
    return _build_report(found, header, segment_name(following) if found.beyond else "")


def _find_following(files: Files, path: Path, first: int) -> int:
    """The sequence with which the next segment of the journal begins, by its name and its header; MAX_SEQUENCE + 1 if
    none follows.
    """
    numbers = (parse_segment_name(name) for name in files.list_existing(path.parent))
    for number in sorted(number for number in numbers if number is not None and number > first):
        try:
            header = read_header(files, path.with_name(segment_name(number)))
        except FileNotFoundError:
            continue
        if header is not None and header.first == number:
            return number
    return fmt.MAX_SEQUENCE + 1


def _build_report(index: IndexResult, header: fmt.FileHeader | None, shared_with: str) -> SegmentReport:
    segment = index.segment
    return SegmentReport(
        str(segment.path),
        None if header is None else header.version,
        None if header is None else header.first,
        segment.requests,
        segment.items,
        segment.length,
        sorted(segment.projects),
        [CorruptRange(each.start, each.end, each.first, each.last, each.project_id) for each in index.damages],
        index.unreadable,
        index.beyond,
        shared_with,
    )


def _range_length(part: Range) -> int:
    return part[1] - part[0] + 1


def _is_locked(files: Files, directory: Path) -> bool:
    if LOCK_FILE not in files.list_directory(directory):
        return False
    fd = files.lock(directory / LOCK_FILE)
    if fd is None:
        return True
    files.close(fd)
    return False
