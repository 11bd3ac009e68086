"""What is in the journals of a directory, for people: counts, sizes, times, reasons; never a byte of a request.

Nothing here changes a file, but for `requeue`. A journal that a process has may be looked at as well: what is being
written at that moment looks torn, and what is removed meanwhile is passed over.
"""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from gateway.journal.format import frames as fmt
from gateway.journal.interface import Range
from gateway.journal.storage import corruption_store as damage
from gateway.journal.storage import quarantine
from gateway.journal.storage.batch_state import BatchState
from gateway.journal.storage.corruption_store import DamageNote
from gateway.journal.storage.directory_lock import LOCK_FILE, list_journals
from gateway.journal.storage.files import Files, RealFiles
from gateway.journal.storage.ledger import ledger_numbers, ledger_path, read_ledger
from gateway.journal.storage.page_reader import build_reader, load_file_header
from gateway.journal.storage.quarantine import NOTE_SUFFIX, QuarantineNote, read_quarantine_file
from gateway.journal.storage.scanning import Damage
from gateway.journal.storage.segment_index import IndexResult, index_segment, run_to_completion
from gateway.journal.storage.segments import SEGMENT_SUFFIX, Segment, parse_segment_name
from gateway.journal.tools.requeue import RequeueResult
from gateway.journal.tools.requeue import requeue as _requeue

T = TypeVar("T")

_FILES: Final = RealFiles()


class BatchFacts(msgspec.Struct, frozen=True):
    """A batch that is begun and not finished."""

    batch: int
    made_ms: int
    requests: int
    stored: int  # places that are


class SegmentFacts(msgspec.Struct, frozen=True):
    """A segment, as far as its name, its header and the ledger tell. What they do not is None."""

    name: str
    bytes: int  # of the file
    version: int | None  # None: the header is damaged
    created_ns: int | None
    first: int  # sequence
    last: int | None
    requests: int | None
    items: int | None
    unfinished: int | None  # requests
    projects: Sequence[int]


class JournalFacts(msgspec.Struct, frozen=True):
    """A journal."""

    directory: str
    taken: bool  # a process has it
    clean: bool  # the last process ended in order, and so nobody has it
    damaged_records: int  # of its ledger
    batches: Sequence[BatchFacts]
    held: int  # batches that are finished, and their requests are kept for a while
    segments: Sequence[SegmentFacts]


class CorruptRange(msgspec.Struct, frozen=True):
    """Damaged bytes of a segment, and the sequences that are missing there; `last` None: nobody knows."""

    start: int
    end: int
    first: int
    last: int | None
    project_id: int | None


class SegmentReport(msgspec.Struct, frozen=True):
    """A segment that was read from end to end."""

    path: str
    version: int | None
    requests: int
    items: int
    bytes: int
    projects: Sequence[int]
    damaged: Sequence[CorruptRange]
    unreadable: bool  # the disk did not give all of it


class QuarantinedRequest(msgspec.Struct, frozen=True):
    """A request that was set aside. `note` is None when it cannot be read; `whole` when nobody looked."""

    name: str
    note: QuarantineNote | None
    whole: bool | None = None


def inspect(root: Path, files: Files = _FILES) -> list[JournalFacts]:
    """All journals of a directory; quick. Raises OSError."""
    found = []
    for directory in list_journals(files, root):
        with contextlib.suppress(FileNotFoundError):  # it is empty, and is removed at this moment
            found.append(_inspect_journal(files, directory))
    return found


def verify(root: Path, files: Files = _FILES) -> Iterator[SegmentReport]:
    """Read every segment of every journal, one after the other. Raises OSError."""
    for directory in list_journals(files, root):
        for name in _list_directory(files, directory):
            found = None if parse_segment_name(name) is None else verify_segment(directory / name, files)
            if found is not None:
                yield found


def verify_segment(path: Path, files: Files = _FILES) -> SegmentReport | None:
    """Read one segment; None when it is gone. Raises OSError."""
    try:
        return _verify_segment(files, path)
    except FileNotFoundError:
        return None


def list_quarantined(root: Path, files: Files = _FILES, *, verify: bool = False) -> Iterator[QuarantinedRequest]:
    """What was set aside, the oldest first; with `verify` each file is read. Raises OSError."""
    directory = root / quarantine.QUARANTINE_DIRECTORY
    for name in _list_directory(files, directory):
        if name.endswith(SEGMENT_SUFFIX):
            note = _read_note(files, directory / f"{name}{NOTE_SUFFIX}", QuarantineNote)
            try:
                whole = read_quarantine_file(files, directory / name) is not None if verify else None
            except FileNotFoundError:
                continue
            yield QuarantinedRequest(name, note, whole)


def list_damaged(root: Path, files: Files = _FILES) -> list[DamageNote]:
    """What was damaged, and is kept. Raises OSError."""
    directory = root / damage.DAMAGED_DIRECTORY
    notes = [
        _read_note(files, directory / name, DamageNote)
        for name in _list_directory(files, directory)
        if name.endswith(".json")
    ]
    return [note for note in notes if note is not None]


def requeue(root: Path, names: Sequence[str] | None, now_ns: int, files: Files = _FILES) -> RequeueResult:
    """Put requests back: those with these names (`Quarantined.name`), or all. A running gateway finds them; else the
    next start does. Raises OSError, JournalTaken.
    """
    return _requeue(files, root, names, lambda: now_ns)


def _inspect_journal(files: Files, directory: Path) -> JournalFacts:
    names = files.list_directory(directory)
    progress, broken = _replay_ledger(files, directory, names)
    firsts = [first for name in names if (first := parse_segment_name(name)) is not None]
    taken = _is_locked(files, directory)
    return JournalFacts(
        str(directory),
        taken,
        bool(progress.clean_at) and not taken,
        broken,
        [
            BatchFacts(batch.batch_id, batch.made_ms, sum(map(_range_length, batch.ranges)), len(batch.skip))
            for batch in progress.begun.values()
        ],
        len(progress.retained),
        [facts for first in firsts if (facts := _inspect_segment(files, directory, first, progress)) is not None],
    )


def _replay_ledger(files: Files, directory: Path, names: Sequence[str]) -> tuple[BatchState, int]:
    """What the newest ledger says, and how many of its records cannot be read."""
    progress, broken = BatchState(), 0
    for number in ledger_numbers(names):
        found = read_ledger(files, ledger_path(directory, number), ())
        broken += found.damaged_records
        for record in found.records:
            progress.apply(record)
        if found.records:
            break
    return progress, broken


def _inspect_segment(files: Files, directory: Path, first: int, state: BatchState) -> SegmentFacts | None:
    path = directory / f"{first:020d}{SEGMENT_SUFFIX}"
    try:
        fd = files.open(path)
    except FileNotFoundError:
        return None
    try:
        header, size = load_file_header(files, fd), files.size(fd)
    finally:
        files.close(fd)
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
    fd = files.open(path)
    try:
        header = load_file_header(files, fd)
    finally:
        files.close(fd)
    salt = bytes(8) if header is None else header.salt
    segment = Segment(path, parse_segment_name(path.name) or 0, fmt.checksum_seed(salt))
    if header is not None and header.version > fmt.VERSION:
        return SegmentReport(str(path), header.version, 0, 0, 0, (), (), unreadable=False)
    found = run_to_completion(index_segment(files, segment, None, fmt.MAX_SEQUENCE))
    return _build_report(found, None if header is None else header.version)


def _build_report(found: IndexResult, version: int | None) -> SegmentReport:
    segment = found.segment
    return SegmentReport(
        str(segment.path),
        version,
        segment.requests,
        segment.items,
        segment.length,
        sorted(segment.projects),
        [_corrupt_range(damage) for damage in found.damages],
        found.unreadable,
    )


def _corrupt_range(found: Damage) -> CorruptRange:
    project_id = found.project_id
    return CorruptRange(found.start, found.end, found.first, found.last, project_id)


def _read_note(files: Files, path: Path, kind: type[T]) -> T | None:
    """A note; None when there is none, or nothing that can be read."""
    try:
        fd = files.open(path)
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(build_reader(files, fd)(files.size(fd), 0), type=kind)
    except msgspec.MsgspecError:
        return None
    finally:
        files.close(fd)


def _list_directory(files: Files, directory: Path) -> list[str]:
    try:
        return files.list_directory(directory)
    except FileNotFoundError:
        return []


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
