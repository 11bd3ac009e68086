"""Which process has which journal: directories with numbers, each with a file whose lock (flock) its process holds."""

import contextlib
from itertools import count
from pathlib import Path
from typing import Final, NamedTuple

from chassis.errors import StartupError
from gateway.journal.files import TEMPORARY, Files
from gateway.journal.ledger import PREFIX
from gateway.journal.records import JournalTaken
from gateway.journal.segments import SUFFIX

LOCK: Final = "lock"


class Claim(NamedTuple):
    """A journal that is ours until the descriptor is closed."""

    directory: Path
    fd: int

    @property
    def root(self) -> Path:
        """The directory of all journals, of the quarantine and of what is damaged."""
        return self.directory.parent


def claim(files: Files, directory: Path) -> Claim:
    """Take the journal in `directory`; or, if that is where journals are, the lowest number that nobody has.

    Raises JournalTaken when somebody has it, and StartupError when there can be none.
    """
    try:
        files.make_directory(directory)
        if LOCK in files.names(directory):
            return _taken(files, directory)
        return _lowest(files, directory)
    except OSError as error:
        raise StartupError(f"The directory {directory} cannot be used for the journal: {error.strerror}.") from error


def orphans(files: Files, root: Path) -> list[Path]:
    """Journals that no process has."""
    found = []
    for directory in numbered(files, root):
        with contextlib.suppress(OSError):  # somebody removes it at this moment
            fd = files.lock(directory / LOCK)
            if fd is not None:
                files.close(fd)
                found.append(directory)
    return found


def numbered(files: Files, root: Path) -> list[Path]:
    """All journals."""
    try:
        names = files.names(root)
    except FileNotFoundError:
        return []
    return [root / name for name in sorted((name for name in names if name.isdigit()), key=int)]


def _taken(files: Files, directory: Path) -> Claim:
    fd = files.lock(directory / LOCK)
    if fd is None:
        raise JournalTaken(f"Another process has the journal {directory}.")
    return Claim(directory, fd)


def _lowest(files: Files, root: Path) -> Claim:
    for number in count():
        directory = root / str(number)
        files.make_directory(directory)
        _refuse_foreign(files, directory)
        with contextlib.suppress(FileNotFoundError):  # it was empty and is being removed: so the next one
            fd = files.lock(directory / LOCK)
            if fd is not None:
                return Claim(directory, fd)
    raise AssertionError  # numbers do not end


def _refuse_foreign(files: Files, directory: Path) -> None:
    names = files.names(directory)
    if names and not any(
        name == LOCK or name.startswith(PREFIX) or name.endswith((SUFFIX, TEMPORARY)) for name in names
    ):
        raise StartupError(f"The directory {directory} holds files that are no journal's; choose another one.")
