"""Directories of journals, and snapshots of them. The directories are numbered; a process locks a file in its directory
(flock).

A snapshot consists of hard links of the files and the length of each. Bytes that were synced are never written again,
so a link and a length preserve a file as it is at this moment: a segment or ledger only grows beyond this length, or
its own name is removed. Links work only within one file system, so they are created beside the journals.
"""

import contextlib
from collections.abc import Sequence
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from chassis.errors import StartupError
from gateway.journal.interface import JournalLocked
from gateway.journal.storage.files import TEMPORARY_SUFFIX, Files
from gateway.journal.storage.ledger import LEDGER_PREFIX
from gateway.journal.storage.quarantine import DAMAGED_DIRECTORY, QUARANTINE_DIRECTORY
from gateway.journal.storage.segments import SEGMENT_SUFFIX

LOCK_FILE: Final = "lock"
ID_FILE: Final = "id"  # beside the journals: identifies them in the database, also if they are moved to another machine


class DirectoryLock(NamedTuple):
    """A journal that this process has locked until the descriptor is closed."""

    directory: Path
    fd: int

    @property
    def root(self) -> Path:
        """The directory that contains all journals, `quarantine/` and `damaged/`."""
        return self.directory.parent


def lock_journal(files: Files, directory: Path, *, is_orphan: bool = False) -> DirectoryLock:
    """Lock the journal in `directory`. If `directory` contains all journals, lock the lowest number that no process has
    locked. `is_orphan`: `find_orphans` returned the directory, and another process may have removed it since. Raises
    JournalLocked if another process has locked or removed the journal, and StartupError if the directory cannot be
    used.
    """
    try:
        if is_orphan:
            return _lock_orphan(files, directory)
        files.make_directory(directory)
        if LOCK_FILE in files.list_directory(directory):
            return _lock_existing(files, directory)
        return _lock_lowest_free(files, directory)
    except OSError as error:
        raise StartupError(f"The directory {directory} cannot be used for the journal: {error.strerror}.") from error


def find_orphans(files: Files, root: Path) -> list[Path]:
    """The journals in `root` that no process has locked."""
    found = []
    for directory in list_journals(files, root):
        with contextlib.suppress(OSError):  # another process removes it at this moment
            fd = files.lock(directory / LOCK_FILE)
            if fd is not None:
                files.close(fd)
                found.append(directory)
    return found


def list_journals(files: Files, root: Path) -> list[Path]:
    """The directories of all journals in `root`, by number."""
    try:
        names = files.list_directory(root)
    except FileNotFoundError:
        return []
    return [root / name for name in sorted((name for name in names if name.isdigit()), key=int)]


def _lock_orphan(files: Files, directory: Path) -> DirectoryLock:
    try:
        return _lock_existing(files, directory)
    except FileNotFoundError as error:
        raise JournalLocked(f"The journal {directory} was removed by another process.") from error


def _lock_existing(files: Files, directory: Path) -> DirectoryLock:
    fd = files.lock(directory / LOCK_FILE)
    if fd is None:
        raise JournalLocked(f"The journal {directory} is in use by another process.")
    return DirectoryLock(directory, fd)


def _lock_lowest_free(files: Files, root: Path) -> DirectoryLock:
    for number in count():
        directory = root / str(number)
        files.make_directory(directory)
        _reject_foreign(files, directory)
        with contextlib.suppress(FileNotFoundError):  # it was empty and has just been removed: try the next number
            fd = files.lock(directory / LOCK_FILE)
            if fd is not None:
                return DirectoryLock(directory, fd)
    raise AssertionError  # count() is infinite


def _reject_foreign(files: Files, directory: Path) -> None:
    names = files.list_directory(directory)
    if names and not any(
        name == LOCK_FILE or name.startswith(LEDGER_PREFIX) or name.endswith((SEGMENT_SUFFIX, TEMPORARY_SUFFIX))
        for name in names
    ):
        raise StartupError(
            f"The directory {directory} contains files that do not belong to a journal; choose another directory."
        )


SNAPSHOT_DIRECTORY: Final = f"backup{TEMPORARY_SUFFIX}"  # beside the journals
_SHARED_DIRECTORIES: Final = (QUARANTINE_DIRECTORY, DAMAGED_DIRECTORY)


class JournalSnapshot(NamedTuple):
    """Links of the files of a journal at one moment, and the length of each by name: later bytes do not belong to the
    snapshot."""

    moment_ns: int  # since 1970; requests that were acknowledged before it are in the files, later ones are not
    lengths: dict[str, int]


def link_files(files: Files, lengths: dict[Path, int], target: Path) -> dict[str, int]:
    """Link files into the new directory `target`; returns the length of each by name. Raises OSError."""
    files.make_directory(target)
    for path in lengths:
        files.link(path, target / path.name)
    return {path.name: length for path, length in lengths.items()}


def link_closed_journal(files: Files, directory: Path, target: Path) -> dict[str, int]:
    """Link the files of a journal that no process has open; it is locked meanwhile. Raises OSError, and JournalLocked
    if the journal is in use.
    """
    lock = files.lock(directory / LOCK_FILE)
    if lock is None:
        raise JournalLocked(f"The journal {directory} is in use.")
    try:
        paths = [directory / name for name in _list_files(files, directory)]
        return link_files(files, {path: _size(files, path) for path in paths}, target)
    finally:
        files.close(lock)


def lock_quarantine(files: Files, root: Path) -> int:
    """Prevent requeueing until the descriptor is closed. Raises OSError, and JournalLocked while another process is
    requeueing.
    """
    directory = root / QUARANTINE_DIRECTORY
    files.make_directory(directory)
    lock = files.lock(directory / LOCK_FILE)
    if lock is None:
        raise JournalLocked("Another process is requeueing requests; try again later.")
    return lock


def list_shared(files: Files, root: Path) -> list[Path]:
    """The files in `quarantine/` and `damaged/`, which are whole and never change. Raises OSError."""
    found = []
    for name in _SHARED_DIRECTORIES:
        with contextlib.suppress(FileNotFoundError):
            found += [root / name / file for file in _list_files(files, root / name)]
    return found


def link_shared(files: Files, paths: Sequence[Path], target: Path) -> None:
    """Link files of `list_shared` into `target`, except files that have expired since. Raises OSError."""
    for path in paths:
        files.make_directory(target / path.parent.name)
        with contextlib.suppress(FileNotFoundError):
            files.link(path, target / path.parent.name / path.name)


def link_id(files: Files, root: Path, target: Path) -> None:
    """Link the file that identifies the journals in the database, if it exists. If a restored copy had a new id,
    erasures would wait for ever for the journals of the old id. Raises OSError.
    """
    with contextlib.suppress(FileNotFoundError):
        files.link(root / ID_FILE, target / ID_FILE)


def _list_files(files: Files, directory: Path) -> list[str]:
    return [
        name for name in files.list_directory(directory) if name != LOCK_FILE and not name.endswith(TEMPORARY_SUFFIX)
    ]


def _size(files: Files, path: Path) -> int:
    with files.opened(path) as fd:
        return files.size(fd)
