"""`Files` has the file operations of the journal. Each is one system call, so that tests can substitute a disk that
loses unsynced data, is full, or fails.

All raise OSError. Descriptors are closed on exec; a process that forks must do so before it opens a journal.

`JournalContext` has the dependencies of all parts of a journal. All journals of a process share one `JournalMetrics`.
Gauges of bytes are sums over journals, except `room_bytes`, which is the minimum; `oldest_seconds` is the maximum.
"""

import contextlib
import errno
import fcntl
import math
import os
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Final, NamedTuple, Protocol

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram

from gateway.journal.interface import JournalLimits

TEMPORARY_SUFFIX: Final = ".tmp"  # of the names of incomplete files
_IOV_MAX: Final = 1024  # buffers of one call; POSIX guarantees 16, Linux allows 1 024
_FILE_MODE: Final = 0o600
_DIRECTORY_MODE: Final = 0o700


class Files:
    """File operations. Paths are absolute."""

    def create(self, path: Path) -> int:
        """Create a file, open for reading and writing. Raises FileExistsError."""
        return os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, _FILE_MODE)

    def open(self, path: Path, *, write: bool = False) -> int:
        """Open an existing file. Raises FileNotFoundError."""
        return os.open(path, (os.O_RDWR if write else os.O_RDONLY) | os.O_CLOEXEC | os.O_NOFOLLOW)

    @contextlib.contextmanager
    def opened(self, path: Path) -> Iterator[int]:
        """An existing file, open for reading in the block. Raises FileNotFoundError."""
        fd = self.open(path)
        try:
            yield fd
        finally:
            self.close(fd)

    def allocate(self, fd: int, size: int) -> None:
        """Extend a file to at least `size` bytes and reserve disk space for all of them."""
        os.posix_fallocate(fd, 0, size)

    def write(self, fd: int, pieces: Sequence[bytes], offset: int) -> int:
        """Write the beginning of `pieces`; returns the number of bytes written."""
        return os.pwritev(fd, pieces[:_IOV_MAX], offset)

    def read(self, fd: int, size: int, offset: int) -> bytes:
        """Read at most `size` bytes; fewer at the end of the file."""
        return os.pread(fd, size, offset)

    def drop_page_cache(self, fd: int) -> None:
        """Drop the page cache of a file, so that the next read is from the disk."""
        os.posix_fadvise(fd, 0, 0, os.POSIX_FADV_DONTNEED)

    def size(self, fd: int) -> int:
        """The size of a file in bytes."""
        return os.fstat(fd).st_size

    def truncate(self, fd: int, size: int) -> None:
        """Set the size of a file."""
        os.ftruncate(fd, size)

    def sync(self, fd: int) -> None:
        """Sync the contents and the size of a file to disk."""
        os.fdatasync(fd)

    def close(self, fd: int) -> None:
        """Close a descriptor."""
        os.close(fd)

    def rename(self, old: Path, new: Path) -> None:
        """Move a file or directory within a file system."""
        os.rename(old, new)  # noqa: PTH104 (the methods are named after the system calls)

    def link(self, path: Path, new: Path) -> None:
        """Give a file another name (hard link) within a file system. Raises FileExistsError."""
        os.link(path, new, follow_symlinks=False)

    def unlink(self, path: Path) -> None:
        """Remove a file, if it exists."""
        path.unlink(missing_ok=True)

    def list_directory(self, directory: Path) -> list[str]:
        """The names in a directory, sorted."""
        return sorted(os.listdir(directory))  # noqa: PTH208 (names, not paths)

    def list_existing(self, directory: Path) -> list[str]:
        """The names in a directory, sorted; none if it does not exist."""
        try:
            return self.list_directory(directory)
        except FileNotFoundError:
            return []

    def make_directory(self, directory: Path) -> None:
        """Create a directory with mode 0700, and its parents, synced to disk; no effect if it exists."""
        if directory.is_dir():
            return
        if not directory.parent.is_dir():
            self.make_directory(directory.parent)
        directory.mkdir(mode=_DIRECTORY_MODE, exist_ok=True)
        self.sync_directory(directory.parent)

    def remove_directory(self, directory: Path) -> None:
        """Remove an empty directory."""
        directory.rmdir()

    def sync_directory(self, directory: Path) -> None:
        """Sync created, renamed and removed names in a directory to disk."""
        fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            os.fsync(fd)
        finally:
            os.close(fd)

    def free_bytes(self, directory: Path) -> int:
        """Free bytes of the disk for users other than root."""
        stats = os.statvfs(directory)
        return stats.f_bavail * stats.f_frsize

    def lock(self, path: Path) -> int | None:
        """Create a file if needed and lock it (flock). Returns the descriptor, or None if another process has the
        lock."""
        fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW, _FILE_MODE)
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, fd)
            try:
                fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                return None
            if not _is_same_file(fd, path):  # its directory was removed meanwhile
                return None
            stack.pop_all()
            return fd


def _is_same_file(fd: int, path: Path) -> bool:
    """Whether `path` still names the open file."""
    opened = os.fstat(fd)
    try:
        named = path.stat(follow_symlinks=False)
    except FileNotFoundError:
        return False
    return (opened.st_dev, opened.st_ino) == (named.st_dev, named.st_ino)


def write_all(files: Files, fd: int, pieces: Sequence[bytes], offset: int) -> int:
    """Write all of `pieces`, in as many calls as needed; returns the end offset. Raises OSError: a nearly full disk
    writes a part first and fails at the next call.
    """
    rest = pieces
    left = sum(map(len, pieces))
    while left:
        written = files.write(fd, rest, offset)
        if not written:
            raise OSError(errno.EIO, "a write returned 0 bytes")
        offset += written
        left -= written
        if left:
            rest = _remaining(rest, written)
    return offset


def _remaining(pieces: Sequence[bytes], written: int) -> list[bytes]:
    """The rest of `pieces` after the first `written` bytes."""
    for at, piece in enumerate(pieces):
        if written < len(piece):
            return [piece[written:], *pieces[at + 1 :]]
        written -= len(piece)
    return []


def write_atomic(files: Files, path: Path, pieces: Sequence[bytes], allocate: int = 0) -> int:
    """Write a file atomically: after a crash it is complete or does not exist. Returns its open descriptor."""
    fd = write_temporary(files, path, pieces, allocate)
    try:
        rename_durable(files, path)
    except OSError:
        files.close(fd)
        raise
    return fd


def write_temporary(files: Files, path: Path, pieces: Sequence[bytes], allocate: int = 0) -> int:
    """Write the contents of `path` under a temporary name and sync them; returns the open descriptor."""
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
    """Rename the temporary file of `path` to `path` and sync the directory. After an error the file may have either
    name, and a crash may change which.
    """
    files.rename(_temporary_path(path), path)
    files.sync_directory(path.parent)


def _temporary_path(path: Path) -> Path:
    return path.with_name(f"{path.name}{TEMPORARY_SUFFIX}")


_SECONDS: Final = (0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0)
FAILURE_KINDS: Final = ("write", "ledger", "remove")
_REQUESTS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000)


class MeasuredJournal(Protocol):
    """The values of a journal that gauges read, without locks and from another thread: they may be stale."""

    @property
    def nbytes(self) -> int:
        """Bytes of all segments."""

    @property
    def unfinished_bytes(self) -> int:
        """Bytes of segments that are not stored yet, approximately."""

    @property
    def room_bytes(self) -> float:
        """Bytes that every project may still send, limited by its share, the quota and the disk."""

    @property
    def oldest_seconds(self) -> float:
        """Age in seconds of the oldest request that is not stored yet; 0 if there is none."""


class JournalMetrics:
    """The metrics `sluice_gateway_journal_*`."""

    def __init__(self, registry: CollectorRegistry) -> None:
        def gauge(name: str, text: str) -> Gauge:
            return Gauge(f"sluice_gateway_journal_{name}", text, registry=registry)

        def counter(name: str, text: str, *labels: str) -> Counter:
            return Counter(f"sluice_gateway_journal_{name}", text, labels, registry=registry)

        def histogram(name: str, text: str, buckets: tuple[float, ...]) -> Histogram:
            return Histogram(f"sluice_gateway_journal_{name}", text, buckets=buckets, registry=registry)

        self._journals: list[MeasuredJournal] = []
        self.bytes = gauge("bytes", "Bytes of the journal on disk.")
        self.bytes.set_function(lambda: sum(journal.nbytes for journal in self._journals))
        self.unfinished_bytes = gauge("unfinished_bytes", "Approximate bytes of requests that are not stored yet.")
        self.unfinished_bytes.set_function(lambda: sum(journal.unfinished_bytes for journal in self._journals))
        self.room_bytes = gauge(
            "room_bytes",
            "Bytes that the journal still accepts from any project. The project's share, the size of the journal and "
            "the disk limit them.",
        )
        self.room_bytes.set_function(lambda: min((j.room_bytes for j in self._journals), default=math.inf))
        self.oldest_seconds = gauge("oldest_seconds", "Age of the oldest request that is not stored yet, in seconds.")
        self.oldest_seconds.set_function(lambda: max((j.oldest_seconds for j in self._journals), default=0.0))
        self.sync_seconds = histogram("sync_seconds", "Duration of writing and syncing a group of requests.", _SECONDS)
        self.group_requests = histogram(
            "group_requests", "Number of requests in a group, which is written and synced together.", _REQUESTS
        )
        self.failures = counter("failures", "Failed disk operations, by kind.", "kind")
        for kind in FAILURE_KINDS:  # exported from the start, so that rate() sees the first increase
            self.failures.labels(kind)
        self.damaged_frames = counter("damaged_frames", "Damaged or missing requests and records on disk.")
        self.lost_requests = counter("lost_requests", "Acknowledged requests that are damaged or missing on disk.")
        self.uncertain_requests = counter(
            "uncertain_requests",
            "Requests for which it is unknown whether they are lost. An unreadable end of a journal counts as one "
            "request.",
        )

    def register(self, journal: MeasuredJournal) -> None:
        """Include a journal in the gauges."""
        self._journals.append(journal)

    def unregister(self, journal: MeasuredJournal) -> None:
        """Remove a journal from the gauges."""
        self._journals.remove(journal)


class JournalContext(NamedTuple):
    """Dependencies of a journal. `clock` returns nanoseconds since 1970, `monotonic` seconds."""

    files: Files
    limits: JournalLimits
    metrics: JournalMetrics
    log: structlog.stdlib.BoundLogger
    clock: Callable[[], int]
    monotonic: Callable[[], float]
