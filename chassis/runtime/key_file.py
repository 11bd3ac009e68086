"""Keys that a service generates at its first start and keeps in a file of its own, mode 0600."""

import contextlib
import os
import secrets
import tempfile
from pathlib import Path
from typing import Final

from chassis.errors import StartupError

KEY_BYTES: Final = 32


class KeyFileUnusable(StartupError):
    """The key file cannot be read or created; the message is one sentence for the operator."""


def load_or_create_key(path: Path, name: str) -> bytes:
    """The 32 bytes in `path` (hex, mode 0600); generated and written atomically if the file does not exist yet.

    `name` is used in messages. Raises KeyFileUnusable. Two processes that start together use the same key.
    """
    try:
        if not path.exists():
            create_private(path, secrets.token_hex(KEY_BYTES) + "\n")
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except OSError as error:
        raise KeyFileUnusable(f"The {name} {path} cannot be used: {error.strerror}.") from error
    except ValueError as error:
        raise KeyFileUnusable(f"The {name} {path} is corrupt: it must contain hexadecimal digits.") from error
    if len(key) != KEY_BYTES:
        raise KeyFileUnusable(f"The {name} {path} is corrupt: it must contain {KEY_BYTES} bytes in hexadecimal.")
    return key


def create_private(path: Path, text: str) -> None:
    """Create a file atomically with mode 0600; it and its directory entry are on disk when this returns. An existing
    file is not changed: of processes that start together the first wins, and the others read its file. Raises OSError.
    """
    temporary = _write_temporary_file(path, text)
    try:
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink()
    _fsync_directory(path.parent)


def replace_private(path: Path, text: str) -> None:
    """Replace the content of an existing file atomically; it is on disk when this returns. Owner, group and mode are
    kept, so that the same users can read it; a symbolic link keeps pointing to it. Raises OSError, with nothing
    changed.
    """
    path = path.resolve(strict=True)
    original = path.stat()
    temporary = _write_temporary_file(path, text)
    try:
        created = temporary.stat()
        if (created.st_uid, created.st_gid) != (original.st_uid, original.st_gid):
            os.chown(temporary, original.st_uid, original.st_gid)
        temporary.chmod(original.st_mode & 0o777)
        temporary.replace(path)
    except BaseException:
        temporary.unlink()
        raise
    _fsync_directory(path.parent)


def _write_temporary_file(path: Path, text: str) -> Path:
    """A temporary file next to `path`, mode 0600, whose content is on disk."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-")  # created with mode 0600
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return Path(name)


def _fsync_directory(directory: Path) -> None:
    """Sync the directory entries: without this a new file may be gone after a power loss."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
