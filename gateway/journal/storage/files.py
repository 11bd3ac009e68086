"""The disk, as far as the journal uses it: each operation one call of the system, so that tests can put a disk of their
own in its place that forgets what was not synced, is full, or fails.

All raise OSError. Descriptors are closed on exec; a process that forks must do so before it opens a journal.
"""

import contextlib
import errno
import fcntl
import os
from collections.abc import Sequence
from pathlib import Path
from typing import Final, Protocol

TEMPORARY_SUFFIX: Final = ".tmp"  # end of the names of files that are not whole yet
_IOV_MAX: Final = 1024  # buffers of one call; POSIX guarantees 16, Linux has this
_FILE_MODE: Final = 0o600
_DIRECTORY_MODE: Final = 0o700


class Files(Protocol):
    """Operations on files. Paths are absolute."""

    def create(self, path: Path) -> int:
        """A new file, open for reading and writing; FileExistsError."""

    def open(self, path: Path, *, write: bool = False) -> int:
        """A file that is there."""

    def allocate(self, fd: int, size: int) -> None:
        """Make a file at least so large, with room on the disk for all of it."""

    def write(self, fd: int, pieces: Sequence[bytes], offset: int) -> int:
        """Write the beginning of `pieces`; how many bytes of them."""

    def read(self, fd: int, size: int, offset: int) -> bytes:
        """At most so many bytes; fewer at the end of the file."""

    def drop_page_cache(self, fd: int) -> None:
        """What the system has of a file in memory is read from the disk the next time."""

    def size(self, fd: int) -> int:
        """Bytes of a file."""

    def truncate(self, fd: int, size: int) -> None:
        """Cut a file."""

    def sync(self, fd: int) -> None:
        """Returns when the contents and the size are on disk."""

    def close(self, fd: int) -> None:
        """Give a descriptor back."""

    def rename(self, old: Path, new: Path) -> None:
        """Move a file or directory within a file system."""

    def unlink(self, path: Path) -> None:
        """Remove a file; nothing when there is none."""

    def list_directory(self, directory: Path) -> list[str]:
        """What is in a directory, sorted."""

    def make_directory(self, directory: Path) -> None:
        """Make a directory for us alone, and those above it; on disk when it returns. Nothing when it is there."""

    def remove_directory(self, directory: Path) -> None:
        """Remove an empty directory."""

    def sync_directory(self, directory: Path) -> None:
        """Returns when what was made, renamed and removed in it is on disk."""

    def free_bytes(self, directory: Path) -> int:
        """Room on the disk for who is not root."""

    def lock(self, path: Path) -> int | None:
        """A descriptor that holds the lock of this file, which is made if need be; None when somebody else holds it."""


class RealFiles:
    """The disk of this machine."""

    def create(self, path: Path) -> int:
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, _FILE_MODE)

    def open(self, path: Path, *, write: bool = False) -> int:
        return os.open(path, (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC | os.O_NOFOLLOW)

    def allocate(self, fd: int, size: int) -> None:
        os.posix_fallocate(fd, 0, size)

    def write(self, fd: int, pieces: Sequence[bytes], offset: int) -> int:
        return os.pwritev(fd, pieces[:_IOV_MAX], offset)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        return os.pread(fd, size, offset)

    def drop_page_cache(self, fd: int) -> None:
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def size(self, fd: int) -> int:
        return os.fstat(fd).st_size

    def truncate(self, fd: int, size: int) -> None:
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        os.fdatasync(fd)

    def close(self, fd: int) -> None:
        os.close(fd)

    def rename(self, old: Path, new: Path) -> None:
        os.rename(old, new)  # noqa: PTH104 (the names are those of the calls)

    def unlink(self, path: Path) -> None:
        path.unlink(missing_ok=True)

    def list_directory(self, directory: Path) -> list[str]:
        return sorted(os.listdir(directory))  # noqa: PTH208 (names, not paths)

    def make_directory(self, directory: Path) -> None:
        if directory.is_dir():
            return
        if not directory.parent.is_dir():
            self.make_directory(directory.parent)
        directory.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
        self.sync_directory(directory.parent)

    def remove_directory(self, directory: Path) -> None:
        directory.rmdir()

    def sync_directory(self, directory: Path) -> None:
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def free_bytes(self, directory: Path) -> int:
        found = os.statvfs(directory)
        return found.f_bavail * found.f_frsize

    def lock(self, path: Path) -> int | None:
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _FILE_MODE)
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, fd)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return None
            if not _is_same_file(fd, path):  # its directory was removed while we came
                return None
            stack.pop_all()
            return fd


def _is_same_file(fd: int, path: Path) -> bool:
    """Whether the open file is the one that has this name."""
    mine = os.fstat(fd)
    try:
        there = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return (mine.st_dev, mine.st_ino) == (there.st_dev, there.st_ino)


def write_all(files: Files, fd: int, pieces: Sequence[bytes], offset: int) -> int:
    """Write all of `pieces`, however many calls that takes; where they end. A disk that is nearly full takes a part
    first and fails at the next call.
    """
    rest = pieces
    left = sum(map(len, pieces))
    while left:
        written = files.write(fd, rest, offset)
        if not written:
            raise OSError(errno.EIO, "a write wrote nothing")
        offset += written
        left -= written
        if left:
            rest = _remaining(rest, written)
    return offset


def _remaining(pieces: Sequence[bytes], written: int) -> list[bytes]:
    """What is left of `pieces` when so many bytes are written."""
    for at, piece in enumerate(pieces):
        if written < len(piece):
            return [piece[written:], *pieces[at + 1 :]]
        written -= len(piece)
    return []


def write_atomic(files: Files, path: Path, pieces: Sequence[bytes], allocate: int = 0) -> int:
    """A file that is there as a whole or not at all, whatever happens; its open descriptor."""
    fd = write_temporary(files, path, pieces, allocate)
    try:
        rename_durable(files, path)
    except OSError:
        files.close(fd)
        raise
    return fd


def write_temporary(files: Files, path: Path, pieces: Sequence[bytes], allocate: int = 0) -> int:
    """The contents of `path` on disk under another name; its open descriptor."""
    temporary = _temporary_path(path)
    files.unlink(temporary)
    fd = files.create(temporary)
    try:
        if allocate:
            files.allocate(fd, allocate)
        write_all(files, fd, pieces, 0)
        files.sync(fd)
    except OSError:
        files.close(fd)
        with contextlib.suppress(OSError):
            files.unlink(temporary)
        raise
    return fd


def rename_durable(files: Files, path: Path) -> None:
    """Give what was prepared its name. After an error it may have it, now or after a crash."""
    files.rename(_temporary_path(path), path)
    files.sync_directory(path.parent)


def _temporary_path(path: Path) -> Path:
    return path.with_name(f"{path.name}{TEMPORARY_SUFFIX}")
