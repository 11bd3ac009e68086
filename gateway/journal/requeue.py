"""Requeues quarantined requests as a new journal, which a running gateway finds and takes over as an orphan.

The journal is built under a temporary name (`_build_journal`): the requests, a ledger with their batches, and a list of
the files that they come from. Then it is renamed to its number (`_assign_number`). Before the rename nothing has
changed. After it the journal is complete, and its source files are removed (`finish_requeue`), by this process or by
the process that opens the journal.

A batch that is requeued completely keeps its id, and so its deduplication tokens: rows that ClickHouse already has are
not stored twice. If only a part of it is requeued, each request becomes a batch of its own: under the old tokens,
ClickHouse would drop a later part as a duplicate of the first.
"""

import errno
import secrets
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from gateway.journal.format import BeginRecord, new_salt
from gateway.journal.interface import JournalLocked, Range
from gateway.journal.storage.batch_state import BatchState
from gateway.journal.storage.directories import LOCK_FILE, list_journals
from gateway.journal.storage.files import Files, write_atomic
from gateway.journal.storage.ledger import encode_ledger, ledger_path
from gateway.journal.storage.quarantine import NOTE_SUFFIX, QUARANTINE_DIRECTORY, QuarantineFile, read_quarantine_file
from gateway.journal.storage.scanning import read_json
from gateway.journal.storage.segments import SEGMENT_SUFFIX, SegmentWriter, required_bytes

SOURCES_FILE: Final = "requeued"  # names of the quarantine files that a journal comes from; JSON
_STAGING_DIRECTORY: Final = "requeue.tmp"
_SEGMENT_BYTES: Final = 64 * 2**20
_TRIES: Final = 100  # numbers that are tried for the new journal


class RequeueResult(NamedTuple):
    """The result of a requeue."""

    journal: Path | None  # the new journal; None if nothing was requeued
    requests: int
    unreadable: Sequence[str]  # names of files that stay in quarantine


class _Selection(NamedTuple):
    name: str
    sequence: int
    batch: BeginRecord


def requeue(files: Files, root: Path, names: Sequence[str] | None, clock: Callable[[], int]) -> RequeueResult:
    """Requeue quarantine files by name, or all if `names` is None. Raises OSError, JournalLocked."""
    directory = root / QUARANTINE_DIRECTORY
    files.make_directory(directory)
    lock = files.lock(directory / LOCK_FILE)
    if lock is None:
        raise JournalLocked("Another process is requeueing requests; try again later.")
    try:
        for journal in list_journals(files, root):
            finish_requeue(files, root, journal)
        wanted = (
            [name for name in files.list_directory(directory) if name.endswith(SEGMENT_SUFFIX)]
            if names is None
            else names
        )
        selected, unreadable = _select(files, directory, sorted(set(wanted)))
        if not selected:
            return RequeueResult(None, 0, unreadable)
        _build_journal(files, root, selected, clock)
        journal = _assign_number(files, root)
        finish_requeue(files, root, journal)
        return RequeueResult(journal, len(selected), unreadable)
    finally:
        files.close(lock)


def finish_requeue(files: Files, root: Path, journal: Path) -> None:
    """Remove the quarantine files that the requests of a requeued journal come from. No effect on other journals.
    Raises OSError.
    """
    path = journal / SOURCES_FILE
    if SOURCES_FILE not in files.list_directory(journal):
        return
    names = read_json(files, path, list[str]) or []  # if the list is damaged, the files stay in quarantine
    directory = root / QUARANTINE_DIRECTORY
    for name in names:
        files.unlink(directory / name)
        files.unlink(directory / f"{name}{NOTE_SUFFIX}")
    if names:
        files.sync_directory(directory)
    files.unlink(path)
    files.sync_directory(journal)


def _select(files: Files, directory: Path, names: Sequence[str]) -> tuple[list[_Selection], list[str]]:
    selected, unreadable = [], []
    for name in names:
        contents = _read(files, directory / name)
        if contents is None:
            unreadable.append(name)
        else:
            selected.append(_Selection(name, contents.entry.sequence, contents.batch))
    return sorted(selected, key=lambda selection: (selection.batch.batch, selection.sequence)), unreadable


def _read(files: Files, path: Path) -> QuarantineFile | None:
    try:
        return read_quarantine_file(files, path)
    except FileNotFoundError:
        return None


def _build_journal(files: Files, root: Path, selected: Sequence[_Selection], clock: Callable[[], int]) -> None:
    """Build the journal in the staging directory; it is on disk when this returns."""
    directory = root / _STAGING_DIRECTORY
    files.make_directory(directory)
    for name in files.list_directory(directory):
        files.unlink(directory / name)
    salt, state = new_salt(), BatchState()
    _write_segments(files, root, directory, selected, salt, clock)
    for batch in _batches(selected):
        state.apply(batch)
    state.observe(len(selected))
    names = msgspec.json.encode([selection.name for selection in selected])
    files.close(write_atomic(files, ledger_path(directory, 1), encode_ledger(state, salt, clock())))
    files.close(write_atomic(files, directory / SOURCES_FILE, [names]))
    # The lock file marks the directory as a journal, not a directory of journals.
    files.close(write_atomic(files, directory / LOCK_FILE, []))


def _write_segments(
    files: Files, root: Path, directory: Path, selected: Sequence[_Selection], salt: bytes, clock: Callable[[], int]
) -> None:
    writer: SegmentWriter | None = None
    for sequence, selection in enumerate(selected, 1):
        contents = read_quarantine_file(files, root / QUARANTINE_DIRECTORY / selection.name)
        if contents is None:
            raise OSError(errno.EIO, "the file changed while it was read", selection.name)
        requests = [contents.entry.request]
        size = required_bytes(requests)
        if writer is None or not writer.fits(size):
            if writer is not None:
                writer.seal()
            writer = SegmentWriter(files, directory, sequence, salt, max(_SEGMENT_BYTES, size + size // 8), clock)
        writer.append(requests, sequence)
    if writer is not None:
        writer.seal()


def _batches(selected: Sequence[_Selection]) -> Iterator[BeginRecord]:
    """The batches of the new journal, with its new sequences."""
    first = 1
    while first <= len(selected):
        batch = selected[first - 1].batch
        last = first
        while last < len(selected) and selected[last].batch.batch == batch.batch:
            last += 1
        sequences = [selection.sequence for selection in selected[first - 1 : last]]
        if sequences == list(_sequences(batch.ranges)):
            yield msgspec.structs.replace(batch, ranges=((first, last),))
        else:
            for sequence in range(first, last + 1):
                yield msgspec.structs.replace(batch, batch=secrets.randbits(63), ranges=((sequence, sequence),))
        first = last + 1


def _sequences(ranges: Sequence[Range]) -> Iterator[int]:
    return (sequence for first, last in ranges for sequence in range(first, last + 1))


def _assign_number(files: Files, root: Path) -> Path:
    """Rename the staging directory to the next free number; from here on the journal exists."""
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
    raise OSError(errno.EEXIST, "no directory number is free for the new journal")
