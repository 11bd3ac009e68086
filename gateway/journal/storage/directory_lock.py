"""The lock of a journal: numbered directories, each with a file whose lock (flock) its process holds."""

import contextlib
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from chassis.errors import StartupError
from gateway.journal.interface import JournalLocked
from gateway.journal.storage.files import TEMPORARY_SUFFIX, Files
from gateway.journal.storage.ledger import LEDGER_PREFIX
from gateway.journal.storage.segments import SEGMENT_SUFFIX

LOCK_FILE: Final = "lock"
ID_FILE: Final = "id"  # beside the journals: names them in the database, on whatever machine they are mounted


class DirectoryLock(NamedTuple):
    """A journal that this process has locked until the descriptor is closed."""

    directory: Path
    fd: int

    @property
    def root(self) -> Path:
        """The directory that contains all journals, `quarantine/` and `damaged/`."""
        return self.directory.parent


def lock_journal(files: Files, directory: Path, *, is_orphan: bool = False) -> DirectoryLock:
    """Lock the journal in `directory`; or, if that is the directory of all journals, the lowest number that no process
    has locked. `is_orphan`: it is one that `find_orphans` returned, which another process may have removed since.

    Raises JournalLocked if another process has the journal, or had it, and StartupError if the directory cannot be
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
        with contextlib.suppress(FileNotFoundError):  # it was empty and is being removed: try the next number
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
