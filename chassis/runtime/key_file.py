"""Keys that a service draws at its first start and keeps in a file of its own, mode 0600."""

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
    """The 32 bytes in `path` (hex, mode 0600), drawn and written atomically when there is no such file yet.

    `name` is what messages call it. Raises KeyFileUnusable. Two processes that start together end up with the same key.
    """
    try:
        if not path.exists():
            create_private(path, secrets.token_hex(KEY_BYTES) + "\n")
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except OSError as error:
        raise KeyFileUnusable(f"The {name} {path} cannot be used: {error.strerror}.") from error
    except ValueError as error:
        raise KeyFileUnusable(f"The {name} {path} is damaged: it must hold hexadecimal digits.") from error
    if len(key) != KEY_BYTES:
        raise KeyFileUnusable(f"The {name} {path} is damaged: it must hold {KEY_BYTES} bytes in hexadecimal.")
    return key


def create_private(path: Path, text: str) -> None:
    """A new file, whole, mode 0600, and on disk with its name when this returns. One that is there stays as it is: of
    processes that start together the first wins, and the others read what it wrote. Raises OSError.
    """
    temporary = _write_temporary_file(path, text)
    try:
        with contextlib.suppress(FileExistsError):
            os.link(temporary, path)
    finally:
        temporary.unlink()
    _fsync_directory(path.parent)


def replace_private(path: Path, text: str) -> None:
    """Another text in a file that is there, whole or not at all, and on disk when this returns. Owner, group and mode
    stay, so that who could read it still can; a link goes on leading to it. Raises OSError, and nothing is changed.
    """
    path = path.resolve(strict=True)
    before = path.stat()
    temporary = _write_temporary_file(path, text)
    try:
        made = temporary.stat()
        if (made.st_uid, made.st_gid) != (before.st_uid, before.st_gid):
            os.chown(temporary, before.st_uid, before.st_gid)
        temporary.chmod(before.st_mode & 0o777)
        temporary.replace(path)
    except BaseException:
        temporary.unlink()
        raise
    _fsync_directory(path.parent)


def _write_temporary_file(path: Path, text: str) -> Path:
    """A file beside `path`, mode 0600, whose content is on disk."""
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-")  # created with mode 0600
    with os.fdopen(descriptor, "w", encoding="ascii") as file:
        file.write(text)
        file.flush()
        os.fsync(file.fileno())
    return Path(name)


def _fsync_directory(directory: Path) -> None:
    """Names of files are the directory's: without this a power loss takes a new one away."""
    descriptor = os.open(directory, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
