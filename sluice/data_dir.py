"""The data directory: private, writable, and locked.

`sluice up` locks it exclusively, because the embedded engine allows one process. Services that use a ClickHouse server
share it.

`peer_of` and `short_path` are for Unix sockets in the directory, between commands of the same user.

`DataMark` records whether a process uses the directory, and where the directory is. A copy of a directory in use (`cp
-r`) mixes the states of different moments: rows are doubled or missing, without any sign of it. So a start refuses a
directory that was in use when its files were in another place:

    stopped     no process used the directory: every copy is complete
    in use      accepted if the files named in the mark are still the same files: the process crashed here, or the
                directory was moved within its file system, or it is in a snapshot of the whole file system. Otherwise
                it is a copy, and is refused
    restoring   refused: a restore is running or was interrupted

A file is the same if its inode number is the same. Device numbers are not compared, because they change with a reboot
or another mount. Some file systems assign new inode numbers with each mount. On these, `origin` is the same file if its
change time (ctime) is the same, because no copy preserves it. Setting permissions or labels again changes this time,
but not the inode number.
"""

import fcntl
import os
import socket
import struct
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final, Literal, NamedTuple

import msgspec

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
            f"The data directory {directory} is in use by another sluice process; stop that process, or choose another "
            "directory with --data."
        ) from error


_CREDENTIALS: Final = struct.Struct("3i")


class Peer(NamedTuple):
    """The process at the other end of a connection, and its user."""

    process: int
    user: int

    @property
    def is_same_user(self) -> bool:
        """Whether the peer runs as the user of this process."""
        return self.user == os.geteuid()


def peer_of(connection: socket.socket) -> Peer:
    """The peer of a connected socket. Raises OSError."""
    credentials = connection.getsockopt(socket.SOL_SOCKET, socket.SO_PEERCRED, _CREDENTIALS.size)
    process, user, _ = _CREDENTIALS.unpack(credentials)
    return Peer(process, user)


@contextmanager
def short_path(directory: Path, name: str) -> Iterator[str]:
    """A path of the socket that is short enough (unix(7): 107 bytes), for directories with paths of any length."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        yield f"/proc/self/fd/{descriptor}/{name}"
    finally:
        os.close(descriptor)


MARK: Final = "state.json"
ORIGIN: Final = "origin"  # created again by each start, and never changed
# These files are created at different times and never replaced, so no copy gets the inode numbers of all of them. One
# is a directory, because a copy by hard links (`cp -al`) has the same files.
_COMPARED: Final = (ORIGIN, "lock", "sluice.db", "clickhouse", "clickhouse/sluice-engine.xml")


class DataMark(msgspec.Struct, frozen=True, kw_only=True):
    """The mark: the state, the inode numbers of some files, and the change time of `origin` in nanoseconds."""

    state: Literal["in_use", "stopped", "restoring"]
    inodes: dict[str, int] = {}
    origin_changed_ns: int = 0


class CopyOfDirectoryInUse(StartupError):
    """The directory is a copy of a directory that was in use."""


@contextmanager
def in_use(directory: Path, *, accept_copy: bool = False) -> Iterator[None]:
    """Mark the directory, which is locked, as in use while the block runs, and as stopped afterwards. Raises
    CopyOfDirectoryInUse unless `accept_copy`, and StartupError if a restore into it was interrupted.
    """
    check(directory, accept_copy=accept_copy)
    try:
        _write_origin(directory)
    except OSError as error:
        _log_unmarked(error)
    record_files(directory)
    try:
        yield
    finally:
        try:
            mark_stopped(directory)
        except OSError as error:  # the start continues nevertheless
            _log_unmarked(error)


def check(directory: Path, *, accept_copy: bool = False) -> None:
    """Raises the errors of `in_use`."""
    mark = _read(directory)
    if mark is None or mark.state == "stopped":
        return
    if mark.state == "restoring":
        raise StartupError(
            f"A restore into the data directory {directory} is running or was interrupted; if no restore is running, "
            f"remove its contents and restore again."
        )
    if not accept_copy and not _is_same_place(directory, mark):
        raise CopyOfDirectoryInUse(
            f"The data directory {directory} is a copy of a directory that was in use, so it may have some rows twice "
            f"and lack other rows. Restore a backup (`sluice restore`), or stop the original and copy it again. If the "
            f"directory was copied or moved after its process had crashed, it is complete: start it once with `sluice "
            f"up --accept-copy`."
        )


def record_files(directory: Path) -> None:
    """Mark the directory as in use with the files that it has now; more may exist than when `in_use` began."""
    try:
        _write(directory, _current(directory))
    except OSError as error:
        _log_unmarked(error)


def mark_stopped(directory: Path) -> None:
    """Mark the directory as not in use. Raises OSError."""
    _write(directory, DataMark(state="stopped"))


def mark_unfinished_restore(directory: Path) -> None:
    """Refuse starts until another mark replaces this one. Raises OSError."""
    _write(directory, DataMark(state="restoring"))


def _log_unmarked(error: OSError) -> None:
    """Log that the mark cannot be written. A full disk does not prevent a start, but the last mark stays, so a copy
    that is made now may not be recognized."""
    import structlog  # imported here, because the first line of `up` waits for the imports of this module

    structlog.get_logger(__name__).warning(
        "the state of the data directory (in use or not) cannot be recorded", error=str(error)
    )


def _current(directory: Path) -> DataMark:
    inodes = {name: status.st_ino for name in _COMPARED if (status := _status(directory / name)) is not None}
    origin = _status(directory / ORIGIN)
    return DataMark(state="in_use", inodes=inodes, origin_changed_ns=0 if origin is None else origin.st_ctime_ns)


def _is_same_place(directory: Path, mark: DataMark) -> bool:
    now = _current(directory)
    if now.origin_changed_ns and now.origin_changed_ns == mark.origin_changed_ns:
        return True
    return all(now.inodes.get(name) == inode for name, inode in mark.inodes.items())


def _status(path: Path) -> os.stat_result | None:
    try:
        return path.stat(follow_symlinks=False)
    except OSError:
        return None


def _read(directory: Path) -> DataMark | None:
    """The mark; None if there is none, for example in a directory of an earlier release or a restored directory."""
    try:
        return msgspec.json.decode((directory / MARK).read_bytes(), type=DataMark)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise StartupError(f"{directory / MARK} cannot be read: {error.strerror}.") from error
    except msgspec.MsgspecError:
        return None  # an invalid mark is ignored


def _write_origin(directory: Path) -> None:
    (directory / ORIGIN).unlink(missing_ok=True)
    descriptor = os.open(directory / ORIGIN, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write(directory: Path, mark: DataMark) -> None:
    """Replace the mark atomically; it is on disk when this returns."""
    descriptor, name = tempfile.mkstemp(dir=directory, prefix=f".{MARK}-")  # mode 0600
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(mark)) + b"\n")
        file.flush()
        os.fsync(file.fileno())
    Path(name).replace(directory / MARK)
    directory_fd = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(directory_fd)
    finally:
        os.close(directory_fd)
