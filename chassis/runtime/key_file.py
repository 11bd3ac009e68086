"""Keys that a service generates at its first start and stores in a file of mode 0600."""

import contextlib
import os
import secrets
import tempfile
from pathlib import Path
from typing import Final

from chassis.errors import StartupError

KEY_BYTES: Final = 32


class KeyFileUnusable(StartupError):
    """The key file cannot be read or created. The message is one sentence for the operator."""


def load_or_create_key(path: Path, name: str) -> bytes:
    """The 32 bytes in the file `path` (hexadecimal, mode 0600). If the file does not exist yet, the key is generated
    and written atomically.

    `name` is used in messages. Raises KeyFileUnusable. Processes that start at the same time use the same key.
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
    """Create a file atomically with mode 0600. The file and its directory entry are on disk when this returns. An
    existing file is not changed: if several processes start at the same time, the first one creates the file, and the
    others read it. Raises OSError.
    """
    temporary = _write_temporary_file(path, text)
    try:
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink()
    _fsync_directory(path.parent)


def replace_private(path: Path, text: str) -> None:
    """Replace the content of an existing file atomically. The content is on disk when this returns. Owner, group and
    mode are kept, so that the same users can read the file, and a symbolic link still points to the file. Raises
    OSError, and changes nothing then.
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
    """Write a temporary file with mode 0600 next to `path`. Its content is on disk when this returns."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-")  # created with mode 0600
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return Path(name)


def _fsync_directory(directory: Path) -> None:
    """Sync the directory entries, because a new file may otherwise be lost after a power loss."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
