"""The data directory: private, writable, and locked.

`sluice up` locks it exclusively, because the embedded engine allows one process. Services that use a ClickHouse server
share it.
"""

import fcntl
import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from chassis.errors import StartupError

LOCK: Final = "lock"
MODE: Final = 0o700


class DataDirInUse(StartupError):
    """Another process has locked the directory."""


def prepare(directory: Path) -> None:
    """Create the directory (mode 0700) if it is missing. Raises StartupError if it is not writable."""
    try:
        directory.mkdir(mode=MODE, parents=True, exist_ok=True)
    except FileExistsError as error:
        raise StartupError(f"The data directory {directory} is a file; choose another with --data.") from error
    except OSError as error:
        raise StartupError(f"The data directory {directory} cannot be created: {error.strerror}.") from error
    if not os.access(directory, os.R_OK | os.W_OK | os.X_OK):
        raise StartupError(f"The data directory {directory} is not writable; choose another with --data.")


class DataDirLock:
    """A locked data directory. Its lock file contains the URL of the process that holds the lock exclusively."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor

    def write_url(self, url: str) -> None:
        """Write the URL for `sluice send` and `sluice doctor` to the lock file."""
        os.pwrite(self._descriptor, f"{url}\n".encode(), 0)


@contextmanager
def locked(directory: Path, *, exclusive: bool) -> Iterator[DataDirLock]:
    """Prepare the directory and lock it while the block runs. Raises DataDirInUse, StartupError."""
    prepare(directory)
    try:
        descriptor = os.open(directory / LOCK, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StartupError(f"The data directory {directory} is not writable: {error.strerror}.") from error
    try:
        _lock(descriptor, directory, exclusive=exclusive)
        if exclusive:
            os.truncate(descriptor, 0)
        yield DataDirLock(descriptor)
    finally:
        os.close(descriptor)


def running_url(directory: Path) -> str | None:
    """The URL that the last `sluice up` on this directory wrote; None if there was none."""
    try:
        return (directory / LOCK).read_text(encoding="utf-8").strip() or None
    except (OSError, UnicodeDecodeError):
        return None


def _lock(descriptor: int, directory: Path, *, exclusive: bool) -> None:
    try:
        fcntl.flock(descriptor, (fcntl.LOCK_EX if exclusive else fcntl.LOCK_SH) | fcntl.LOCK_NB)
    except BlockingIOError as error:
        raise DataDirInUse(
            f"The data directory {directory} is in use by another sluice process; "
            "stop that one or choose another directory with --data."
        ) from error
