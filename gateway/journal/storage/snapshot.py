"""Snapshots of journals: hard links of their files, and how much of each counts.

Bytes that were synced are never written again. So a link and a length preserve a file as it is at this moment: a
segment or a ledger only grows behind that length, or is removed under its own name. Links work within one file system,
and are therefore beside the journals.
"""

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Final, NamedTuple

from gateway.journal.interface import JournalLocked
from gateway.journal.storage.corruption_store import DAMAGED_DIRECTORY
from gateway.journal.storage.directory_lock import ID_FILE, LOCK_FILE
from gateway.journal.storage.files import TEMPORARY_SUFFIX, Files
from gateway.journal.storage.quarantine import QUARANTINE_DIRECTORY

SNAPSHOT_DIRECTORY: Final = f"backup{TEMPORARY_SUFFIX}"  # beside the journals
_SHARED_DIRECTORIES: Final = (QUARANTINE_DIRECTORY, DAMAGED_DIRECTORY)


class JournalSnapshot(NamedTuple):
    """Links of the files of a journal as they were at one moment, by name: only so many bytes of each count."""

    moment_ns: int  # since 1970; requests that were acknowledged before it are in the files, later ones are not
    lengths: dict[str, int]


def link_files(files: Files, lengths: dict[Path, int], target: Path) -> dict[str, int]:
    """Link files into the new directory `target`; returns the length of each by name. Raises OSError."""
    files.make_directory(target)
    for path in lengths:
        files.link(path, target / path.name)
    return {path.name: length for path, length in lengths.items()}


def link_closed_journal(files: Files, directory: Path, target: Path) -> dict[str, int]:
    """The same for a journal that no process has open; it is locked meanwhile. Raises OSError, and JournalLocked if it
    is in use.
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
    """Keep requests from being requeued until the descriptor is closed. Raises OSError, and JournalLocked while another
    process is requeueing.
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
    """Link files of `list_shared` into `target`, except those that have expired since. Raises OSError."""
    for path in paths:
        files.make_directory(target / path.parent.name)
        with contextlib.suppress(FileNotFoundError):
            files.link(path, target / path.parent.name / path.name)


def link_id(files: Files, root: Path, target: Path) -> None:
    """Link the file that names the journals in the database, if there is one. With another one erasures would wait
    for ever for journals that nobody has. Raises OSError.
    """
    with contextlib.suppress(FileNotFoundError):
        files.link(root / ID_FILE, target / ID_FILE)


def _list_files(files: Files, directory: Path) -> list[str]:
    return [
        name for name in files.list_directory(directory) if name != LOCK_FILE and not name.endswith(TEMPORARY_SUFFIX)
    ]


def _size(files: Files, path: Path) -> int:
    fd = files.open(path)
    try:
        return files.size(fd)
    finally:
        files.close(fd)
