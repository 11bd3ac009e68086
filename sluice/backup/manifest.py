"""The manifest of a backup: what it contains, file by file.

MANIFEST is written last, and CHECKSUM after it (`sha256sum -c` reads it): a directory without both is not a backup.
Paths are relative to the directory of the backup.

`DATA/backup.json`: the last completed backup of a data directory, for `/metrics` and `sluice doctor`.
"""

import hashlib
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final

import msgspec

from chassis.errors import StartupError

FILE_NAME: Final = "backup.json"


class Record(msgspec.Struct, frozen=True, kw_only=True):
    """A completed backup: what the command printed, and `DATA/backup.json` keeps of the last one."""

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
    """A file of a backup. `inode` and `mtime_ns` are those of the file that was copied: the next backup links what has
    them still, instead of copying it again.
    """

    path: str
    size: int
    sha256: str
    inode: int = 0
    mtime_ns: int = 0


class LinkEntry(msgspec.Struct, frozen=True):
    """A symbolic link, which a restore creates; a backup has none."""

    path: str
    target: str


class Manifest(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A backup. `moment`: what was acknowledged before it is in the backup (RFC 3339, UTC); `moment_ns` is the same in
    nanoseconds since 1970. `held_s`: how long inserts waited. `keys`: whether it has the key files.
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
    """As much of a manifest as every format has."""

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
    """Whether a target has `..` after a name. That name may be another link, from which `..` leads elsewhere."""
    parts = PurePosixPath(target).parts
    return ".." in parts[next((at for at, part in enumerate(parts) if part != ".."), len(parts)) :]


def _is_inside(path: str) -> bool:
    pure = PurePosixPath(path)
    is_normal = str(pure) == path and bool(pure.parts)
    return is_normal and not pure.is_absolute() and ".." not in pure.parts and "\0" not in path
