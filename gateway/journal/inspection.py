"""What is in the journals of a directory, for people: counts, sizes, times, reasons; never a byte of a request.

Nothing here changes a file, but for `requeue`. A journal that a process has may be looked at as well: what is being
written at that moment looks torn, and what is removed meanwhile is passed over.
"""

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final, TypeVar

import msgspec

from gateway.journal import damage, quarantine
from gateway.journal import format as fmt
from gateway.journal.claims import LOCK, numbered
from gateway.journal.damage import DamageNote
from gateway.journal.files import Files, RealFiles
from gateway.journal.indexing import Indexed, finish, index
from gateway.journal.ledger import ledger_path, numbers, read_ledger
from gateway.journal.progress import Progress
from gateway.journal.quarantine import NOTE, QuarantineNote, read_contents
from gateway.journal.reading import file_header, read_at
from gateway.journal.records import Range
from gateway.journal.requeue import Requeued
from gateway.journal.requeue import requeue as _requeue
from gateway.journal.scanning import Damage
from gateway.journal.segments import SUFFIX, Segment, first_of

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


class Gone(msgspec.Struct, frozen=True):
    """Damaged bytes of a segment, and the sequences that are missing there; `last` None: nobody knows."""

    start: int
    end: int
    first: int
    last: int | None
    project_id: int | None


class Verified(msgspec.Struct, frozen=True):
    """A segment that was read from end to end."""

    path: str
    version: int | None
    requests: int
    items: int
    bytes: int
    projects: Sequence[int]
    damaged: Sequence[Gone]
    unreadable: bool  # the disk did not give all of it


class Quarantined(msgspec.Struct, frozen=True):
    """A request that was set aside. `note` is None when it cannot be read; `whole` when nobody looked."""

    name: str
    note: QuarantineNote | None
    whole: bool | None = None


def inspect(root: Path, files: Files = _FILES) -> list[JournalFacts]:
    """All journals of a directory; quick. Raises OSError."""
    found = []
    for directory in numbered(files, root):
        with contextlib.suppress(FileNotFoundError):  # it is empty, and is removed at this moment
            found.append(_journal(files, directory))
    return found


def verify(root: Path, files: Files = _FILES) -> Iterator[Verified]:
    """Read every segment of every journal, one after the other. Raises OSError."""
    for directory in numbered(files, root):
        for name in _names(files, directory):
            found = None if first_of(name) is None else verify_segment(directory / name, files)
            if found is not None:
                yield found


def verify_segment(path: Path, files: Files = _FILES) -> Verified | None:
    """Read one segment; None when it is gone. Raises OSError."""
    try:
        return _verified(files, path)
    except FileNotFoundError:
        return None


def quarantined(root: Path, files: Files = _FILES, *, verify: bool = False) -> Iterator[Quarantined]:
    """What was set aside, the oldest first; with `verify` each file is read. Raises OSError."""
    directory = root / quarantine.DIRECTORY
    for name in _names(files, directory):
        if name.endswith(SUFFIX):
            note = _read(files, directory / f"{name}{NOTE}", QuarantineNote)
            try:
                whole = read_contents(files, directory / name) is not None if verify else None
            except FileNotFoundError:
                continue
            yield Quarantined(name, note, whole)


def damaged(root: Path, files: Files = _FILES) -> list[DamageNote]:
    """What was damaged, and is kept. Raises OSError."""
    directory = root / damage.DIRECTORY
    notes = [_read(files, directory / name, DamageNote) for name in _names(files, directory) if name.endswith(".json")]
    return [note for note in notes if note is not None]


def requeue(root: Path, names: Sequence[str] | None, now_ns: int, files: Files = _FILES) -> Requeued:
    """Put requests back: those with these names (`Quarantined.name`), or all. A running gateway finds them; else the
    next start does. Raises OSError, JournalTaken.
    """
    return _requeue(files, root, names, lambda: now_ns)


def _journal(files: Files, directory: Path) -> JournalFacts:
    names = files.names(directory)
    progress, broken = _progress(files, directory, names)
    firsts = [first for name in names if (first := first_of(name)) is not None]
    taken = _is_taken(files, directory)
    return JournalFacts(
        str(directory),
        taken,
        bool(progress.clean_at) and not taken,
        broken,
        [
            BatchFacts(batch.batch_id, batch.made_ms, sum(map(_count, batch.ranges)), len(batch.skip))
            for batch in progress.begun.values()
        ],
        len(progress.held),
        [facts for first in firsts if (facts := _segment(files, directory, first, progress)) is not None],
    )


def _progress(files: Files, directory: Path, names: Sequence[str]) -> tuple[Progress, int]:
    """What the newest ledger says, and how many of its records cannot be read."""
    progress, broken = Progress(), 0
    for number in numbers(names):
        found = read_ledger(files, ledger_path(directory, number), ())
        broken += found.damaged
        for record in found.records:
            progress.apply(record)
        if found.records:
            break
    return progress, broken


def _segment(files: Files, directory: Path, first: int, progress: Progress) -> SegmentFacts | None:
    path = directory / f"{first:020d}{SUFFIX}"
    try:
        fd = files.open(path)
    except FileNotFoundError:
        return None
    try:
        header, size = file_header(files, fd), files.size(fd)
    finally:
        files.close(fd)
    version, created = (None, None) if header is None else (header.version, header.created_ns)
    facts = progress.sealed.get(first)
    if facts is None:
        return SegmentFacts(path.name, size, version, created, first, None, None, None, None, ())
    unfinished = sum(map(_count, progress.finished.holes(first, facts.last)))
    projects = sorted(facts.projects)
    return SegmentFacts(
        path.name, size, version, created, first, facts.last, facts.requests, facts.items, unfinished, projects
    )


def _verified(files: Files, path: Path) -> Verified:
    fd = files.open(path)
    try:
        header = file_header(files, fd)
    finally:
        files.close(fd)
    salt = bytes(8) if header is None else header.salt
    segment = Segment(path, first_of(path.name) or 0, fmt.seed_of(salt))
    if header is not None and header.version > fmt.VERSION:
        return Verified(str(path), header.version, 0, 0, 0, (), (), unreadable=False)
    found = finish(index(files, segment, None, fmt.MAX_SEQUENCE))
    return _report(found, None if header is None else header.version)


def _report(found: Indexed, version: int | None) -> Verified:
    segment = found.segment
    return Verified(
        str(segment.path),
        version,
        segment.requests,
        segment.items,
        segment.length,
        sorted(segment.projects),
        [_gone(damage) for damage in found.damages],
        found.unreadable,
    )


def _gone(found: Damage) -> Gone:
    project_id = found.project_id
    return Gone(found.start, found.end, found.first, found.last, project_id)


def _read(files: Files, path: Path, kind: type[T]) -> T | None:
    """A note; None when there is none, or nothing that can be read."""
    try:
        fd = files.open(path)
    except FileNotFoundError:
        return None
    try:
        return msgspec.json.decode(read_at(files, fd)(files.size(fd), 0), type=kind)
    except msgspec.MsgspecError:
        return None
    finally:
        files.close(fd)


def _names(files: Files, directory: Path) -> list[str]:
    try:
        return files.names(directory)
    except FileNotFoundError:
        return []


def _count(part: Range) -> int:
    return part[1] - part[0] + 1


def _is_taken(files: Files, directory: Path) -> bool:
    if LOCK not in files.names(directory):
        return False
    fd = files.lock(directory / LOCK)
    if fd is None:
        return True
    files.close(fd)
    return False
