"""A snapshot as values, the manifest of a backup (what it contains, file by file), and the copying of its files.

MANIFEST is written last, and CHECKSUM after it (`sha256sum -c` reads it): a directory without both is not a backup.
Paths are relative to the directory of the backup.

`DATA/backup.json`: the last completed backup of a data directory, for `/metrics` and `sluice doctor`.

Files are copied with their SHA-256, on several threads. Progress is shown only on a terminal, on one line that is
overwritten.
"""

import hashlib
import os
import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path, PurePosixPath
from typing import Final, TypeVar

import msgspec

from chassis.errors import StartupError

DATABASE: Final = "sluice.db"
KEY_FILES: Final = ("sealing.keys", "signing.key", "cursor.key", "bootstrap.json")
FILE_NAME: Final = "backup.json"


class Tree(msgspec.Struct, frozen=True):
    """A directory of a snapshot, and where its files are in a backup (empty: at the top)."""

    prefix: str
    directory: str


class Snapshot(msgspec.Struct, frozen=True, kw_only=True):
    """A snapshot that was taken. `lengths`: how many bytes of a file belong to the snapshot, by its path in a backup;
    other files belong to it completely. The other fields are the same as in a manifest.
    """

    moment_ns: int
    held_s: float
    durability: str
    release: str
    engine: str
    clickhouse_schema: int
    database_revision: str
    trees: list[Tree]
    lengths: dict[str, int]


class BackupFailed(StartupError):
    """No backup was made; the message is one sentence for the operator."""


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A completed backup: the command prints it, and `DATA/backup.json` has the last one."""

    directory: str
    moment: str
    completed: str
    completed_s: float  # seconds since 1970
    files: int
    linked_files: int
    bytes: int
    copied_bytes: int
    held_s: float
    seconds: float


def read_record(data: Path) -> Record | None:
    """The last backup; None if there was none, or if the file cannot be read."""
    try:
        return msgspec.json.decode((data / FILE_NAME).read_bytes(), type=Record)
    except (OSError, msgspec.MsgspecError):
        return None


def write_record(data: Path, completed: Record) -> None:
    """Replace the file atomically. Raises OSError."""
    descriptor, name = tempfile.mkstemp(dir=data, prefix=f".{FILE_NAME}-")  # mode 0600
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(completed)) + b"\n")
    Path(name).replace(data / FILE_NAME)


MANIFEST: Final = "manifest.json"
CHECKSUM: Final = "manifest.sha256"
FORMAT: Final = 1
MAX_MANIFEST_BYTES: Final = 2**30
_HEX_DIGITS: Final = 64


class FileEntry(msgspec.Struct, frozen=True):
    """A file of a backup. `inode` and `mtime_ns` belong to the file that was copied: if they are unchanged, the next
    backup links the file instead of copying it again.
    """

    path: str
    size: int
    sha256: str
    inode: int = 0
    mtime_ns: int = 0


class LinkEntry(msgspec.Struct, frozen=True):
    """A symbolic link, which a restore creates; the backup itself has no links."""

    path: str
    target: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A backup. `moment` (RFC 3339, UTC): all items that were acknowledged before it are in the backup. `moment_ns`:
    the same time in nanoseconds since 1970. `held_s`: how long inserts waited. `keys`: whether it has the key files.
    """

    format: int = FORMAT
    release: str
    moment: str
    moment_ns: int
    held_s: float
    durability: str
    engine: str
    clickhouse_schema: int
    database_revision: str
    keys: bool
    files: Sequence[FileEntry]
    links: Sequence[LinkEntry] = ()

    @property
    def nbytes(self) -> int:
        """Bytes of all files."""
        return sum(file.size for file in self.files)


class _AnyManifest(msgspec.Struct):
    """The fields of a manifest that every format has."""

    format: int
    release: str = "another release"


class NotABackup(StartupError):
    """The directory is not a complete backup, or not one that this release can read; the message is one sentence."""


def write_manifest(directory: Path, manifest: Manifest) -> None:
    """Write the manifest and its checksum; both are on disk when this returns. Raises OSError."""
    content = msgspec.json.format(msgspec.json.encode(manifest), indent=1)
    write_private(directory / MANIFEST, content)
    write_private(directory / CHECKSUM, f"{hashlib.sha256(content).hexdigest()}  {MANIFEST}\n".encode())


def write_private(path: Path, content: bytes) -> None:
    """Write a new file with mode 0600; its content is on disk when this returns. Raises OSError."""
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
    with os.fdopen(descriptor, "wb") as file:
        file.write(content)
        file.flush()
        os.fsync(file.fileno())


def read_manifest(directory: Path) -> Manifest:
    """The manifest of a complete backup. Raises NotABackup."""
    content = _read_verified(directory)
    try:
        found = msgspec.json.decode(content, type=_AnyManifest)
        if found.format > FORMAT:
            raise NotABackup(
                f"The backup {directory} has the format {found.format}, written by {found.release}; this release reads "
                f"format {FORMAT}."
            )
        manifest = msgspec.json.decode(content, type=Manifest)
    except msgspec.MsgspecError as error:
        raise NotABackup(f"The manifest of {directory} is not valid: {error}.") from error
    _check_paths(directory, manifest)
    return manifest


def _read_verified(directory: Path) -> bytes:
    if not directory.is_dir():
        raise NotABackup(f"There is no backup at {directory}: it is not a directory.")
    try:
        expected = (directory / CHECKSUM).read_text(encoding="ascii").partition(" ")[0]
        if (directory / MANIFEST).stat().st_size > MAX_MANIFEST_BYTES:
            raise NotABackup(f"The manifest of {directory} is larger than {MAX_MANIFEST_BYTES} bytes.")
        content = (directory / MANIFEST).read_bytes()
    except FileNotFoundError as error:
        raise NotABackup(f"{directory} is not a complete backup: it has no {Path(error.filename).name}.") from error
    except (OSError, UnicodeDecodeError) as error:
        raise NotABackup(f"The manifest of {directory} cannot be read: {error}.") from error
    if hashlib.sha256(content).hexdigest() != expected:
        raise NotABackup(f"The manifest of {directory} is damaged: its checksum differs.")
    return content


def _check_paths(directory: Path, manifest: Manifest) -> None:
    """Refuse names that lead out of the directory, or that occur twice."""
    paths = [*(file.path for file in manifest.files), *(link.path for link in manifest.links)]
    outside = [path for path in paths if not _is_inside(path)]
    for link in manifest.links:
        inside = _is_inside(os.path.normpath(PurePosixPath(link.path).parent / link.target))
        if not inside or _leads_back(link.target):
            outside.append(link.path)
    if outside or len(set(paths)) != len(paths):
        raise NotABackup(f"The manifest of {directory} has invalid paths: {', '.join(outside[:3]) or 'duplicates'}.")
    if any(len(file.sha256) != _HEX_DIGITS or file.size < 0 for file in manifest.files):
        raise NotABackup(f"The manifest of {directory} has invalid entries.")


def _leads_back(target: str) -> bool:
    """Whether a target has `..` after a name. The name may be another link, and then `..` leads to another
    directory."""
    parts = PurePosixPath(target).parts
    return ".." in parts[next((at for at, part in enumerate(parts) if part != ".."), len(parts)) :]


def _is_inside(path: str) -> bool:
    pure = PurePosixPath(path)
    is_normal = str(pure) == path and bool(pure.parts)
    return is_normal and not pure.is_absolute() and ".." not in pure.parts and "\0" not in path


INTERVAL_S: Final = 0.5


class Progress:
    """Shows progress. Called with the number of files that are done, and the number of all files."""

    def __init__(self, verb: str) -> None:
        self._verb = verb
        self._is_shown = sys.stderr.isatty()
        self._shown_at = 0.0

    def __call__(self, done: int, total: int) -> None:
        now = time.monotonic()
        if self._is_shown and (done == total or now - self._shown_at >= INTERVAL_S):
            self._shown_at = now
            end = "\n" if done == total else ""
            print(f"\r{self._verb} {done:,} of {total:,} files", end=end, file=sys.stderr, flush=True)


THREADS: Final = 4  # a copy waits for syncs most of the time
CHUNK_BYTES: Final = 2**20
_QUEUED: Final = 64  # files that wait for a thread

T = TypeVar("T")
R = TypeVar("R")


def copy_file(source: Path, target: Path, length: int | None = None) -> tuple[int, str]:
    """Copy the first `length` bytes of a file (None: all of it) to a new file with mode 0600; returns size and SHA-256.
    The content is on disk when this returns. Raises OSError.
    """
    reading = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        writing = os.open(target, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600)
        try:
            size, digest = _copy(reading, writing, length)
            os.fsync(writing)
            # So that the page cache keeps the pages of the service.
            os.posix_fadvise(writing, 0, 0, os.POSIX_FADV_DONTNEED)
        finally:
            os.close(writing)
    finally:
        os.close(reading)
    return size, digest


def hash_file(source: Path) -> tuple[int, str]:
    """Size and SHA-256 of a file. Raises OSError."""
    reading = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW)
    try:
        return _copy(reading, None, None)
    finally:
        os.close(reading)


def _copy(reading: int, writing: int | None, length: int | None) -> tuple[int, str]:
    digest, size = hashlib.sha256(), 0
    while chunk := os.read(reading, CHUNK_BYTES if length is None else min(CHUNK_BYTES, length - size)):
        digest.update(chunk)
        size += len(chunk)
        rest = memoryview(chunk)
        while writing is not None and rest:
            rest = rest[os.write(writing, rest) :]
    return size, digest.hexdigest()


def in_threads(work: Callable[[T], R], items: Iterable[T]) -> Iterator[R]:
    """The results of `work`, in order, with few items in progress. The first exception ends the iteration."""
    with ThreadPoolExecutor(THREADS, thread_name_prefix="copy") as pool:
        waiting = []
        try:
            for item in items:
                waiting.append(pool.submit(work, item))
                if len(waiting) >= _QUEUED:
                    yield waiting.pop(0).result()
            while waiting:
                yield waiting.pop(0).result()
        finally:
            for future in waiting:
                future.cancel()


def sync_tree(directory: Path) -> None:
    """Sync the entries of a directory and of all directories below it. Raises OSError."""
    for root, _, _ in os.walk(directory, topdown=False):
        sync_directory(Path(root))


def sync_directory(directory: Path) -> None:
    """Sync created, renamed and removed names in a directory. Raises OSError."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove_tree(directory: Path) -> None:
    """Remove a directory, if it exists. Raises OSError."""
    if directory.exists():
        shutil.rmtree(directory)
