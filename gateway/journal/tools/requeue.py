"""Requests of the quarantine are put back: as a new journal, which a running gateway finds and adopts.

It is made under another name, with the requests, a ledger with their batches, and a list of the files that they come
from; then it gets its number. From that moment on it exists as a whole, and the files are removed: by us, or by whoever
opens it, should we not come to it. Before that moment nothing has happened.

A batch keeps its id, and so its tokens, when all of it is put back: what ClickHouse has of it already is not stored
twice. When only a part of it is, the requests become batches of their own: under the old tokens a later part would be
taken for a repetition of the first.
"""

import errno
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from gateway.journal.format.frames import new_salt
from gateway.journal.format.ledger_records import BeginRecord
from gateway.journal.interface import JournalLocked, Range
from gateway.journal.storage.batch_state import BatchState
from gateway.journal.storage.directory_lock import LOCK_FILE, list_journals
from gateway.journal.storage.files import Files, write_atomic
from gateway.journal.storage.ledger import encode_ledger, ledger_path
from gateway.journal.storage.page_reader import build_reader
from gateway.journal.storage.quarantine import NOTE_SUFFIX, QUARANTINE_DIRECTORY, QuarantineFile, read_quarantine_file
from gateway.journal.storage.segments import SEGMENT_SUFFIX, SegmentWriter, required_bytes

SOURCES_FILE: Final = "requeued"  # names of the files that a journal comes from; JSON
_STAGING_DIRECTORY: Final = "requeue.tmp"
_SEGMENT_BYTES: Final = 64 * 2**20
_TRIES: Final = 100


class RequeueResult(NamedTuple):
    """What was put back."""

    journal: Path | None  # the new one; None when there was nothing
    requests: int
    unreadable: Sequence[str]  # names of files that stay where they are


class _Selection(NamedTuple):
    name: str
    sequence: int
    batch: BeginRecord


def requeue(files: Files, root: Path, names: Sequence[str] | None, clock: Callable[[], int]) -> RequeueResult:
    """Put requests back: files of the quarantine by their names, or all of them. Raises OSError, JournalTaken."""
    directory = root / QUARANTINE_DIRECTORY
    files.make_directory(directory)
    lock = files.lock(directory / LOCK_FILE)
    if lock is None:
        raise JournalLocked("Another process puts requests back at this moment.")
    try:
        for journal in list_journals(files, root):
            finish_requeue(files, root, journal)
        wanted = (
            [name for name in files.list_directory(directory) if name.endswith(SEGMENT_SUFFIX)]
            if names is None
            else names
        )
        chosen, unreadable = _select(files, directory, sorted(set(wanted)))
        if not chosen:
            return RequeueResult(None, 0, unreadable)
        _build_journal(files, root, chosen, clock)
        journal = _assign_number(files, root)
        finish_requeue(files, root, journal)
        return RequeueResult(journal, len(chosen), unreadable)
    finally:
        files.close(lock)


def finish_requeue(files: Files, root: Path, journal: Path) -> None:
    """Remove the files that the requests of a journal come from, if they were put back. Raises OSError."""
    path = journal / SOURCES_FILE
    if SOURCES_FILE not in files.list_directory(journal):
        return
    fd = files.open(path)
    try:
        names = _decode_names(build_reader(files, fd)(files.size(fd), 0))
    finally:
        files.close(fd)
    directory = root / QUARANTINE_DIRECTORY
    for name in names:
        files.unlink(directory / name)
        files.unlink(directory / f"{name}{NOTE_SUFFIX}")
    if names:
        files.sync_directory(directory)
    files.unlink(path)
    files.sync_directory(journal)


def _decode_names(text: bytes) -> list[str]:
    try:
        return msgspec.json.decode(text, type=list[str])
    except msgspec.MsgspecError:  # damaged: the files stay, and can be looked at
        return []


def _select(files: Files, directory: Path, names: Sequence[str]) -> tuple[list[_Selection], list[str]]:
    chosen, unreadable = [], []
    for name in names:
        contents = _read(files, directory / name)
        if contents is None:
            unreadable.append(name)
        else:
            chosen.append(_Selection(name, contents.entry.sequence, contents.batch))
    return sorted(chosen, key=lambda one: (one.batch.batch, one.sequence)), unreadable


def _read(files: Files, path: Path) -> QuarantineFile | None:
    try:
        return read_quarantine_file(files, path)
    except FileNotFoundError:
        return None


def _build_journal(files: Files, root: Path, chosen: Sequence[_Selection], clock: Callable[[], int]) -> None:
    """The journal under its first name, on disk."""
    directory = root / _STAGING_DIRECTORY
    files.make_directory(directory)
    for name in files.list_directory(directory):
        files.unlink(directory / name)
    salt, progress = new_salt(), BatchState()
    _write_segments(files, root, directory, chosen, salt, clock)
    for batch in _batches(chosen):
        progress.apply(batch)
    progress.observe(len(chosen))
    names = msgspec.json.encode([one.name for one in chosen])
    files.close(write_atomic(files, ledger_path(directory, 1), encode_ledger(progress, salt, clock())))
    files.close(write_atomic(files, directory / SOURCES_FILE, [names]))
    files.close(
        write_atomic(files, directory / LOCK_FILE, [])
    )  # by this a journal is told from a directory of journals


def _write_segments(
    files: Files, root: Path, directory: Path, chosen: Sequence[_Selection], salt: bytes, clock: Callable[[], int]
) -> None:
    writing: SegmentWriter | None = None
    for sequence, one in enumerate(chosen, 1):
        contents = read_quarantine_file(files, root / QUARANTINE_DIRECTORY / one.name)
        if contents is None:
            raise OSError(errno.EIO, "a file changed while it was read", one.name)
        requests = [contents.entry.request]
        size = required_bytes(requests)
        if writing is None or not writing.fits(size):
            if writing is not None:
                writing.seal()
            writing = SegmentWriter(files, directory, sequence, salt, max(_SEGMENT_BYTES, size + size // 8), clock)
        writing.append(requests, sequence)
    if writing is not None:
        writing.seal()


def _batches(chosen: Sequence[_Selection]) -> Iterator[BeginRecord]:
    """The batches of the new journal, with its sequences."""
    first = 1
    while first <= len(chosen):
        batch = chosen[first - 1].batch
        last = first
        while last < len(chosen) and chosen[last].batch.batch == batch.batch:
            last += 1
        sequences = [one.sequence for one in chosen[first - 1 : last]]
        if sequences == list(_sequences(batch.ranges)):
            yield msgspec.structs.replace(batch, ranges=((first, last),))
        else:
            for sequence in range(first, last + 1):
                yield msgspec.structs.replace(batch, batch=secrets.randbits(63), ranges=((sequence, sequence),))
        first = last + 1


def _sequences(ranges: Sequence[Range]) -> Iterator[int]:
    return (sequence for first, last in ranges for sequence in range(first, last + 1))


def _assign_number(files: Files, root: Path) -> Path:
    """From here on the journal exists."""
    numbers = [int(directory.name) for directory in list_journals(files, root)]
    for number in range(max(numbers, default=-1) + 1, max(numbers, default=-1) + 1 + _TRIES):
        directory = root / str(number)
        try:
            files.rename(root / _STAGING_DIRECTORY, directory)
        except OSError as error:
            if error.errno not in (errno.ENOTEMPTY, errno.EEXIST):
                raise
        else:
            files.sync_directory(root)
            return directory
    raise OSError(errno.EEXIST, "no number is free for the new journal")
