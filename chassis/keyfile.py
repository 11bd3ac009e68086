"""Keys that a service draws at its first start and keeps in a file of its own, mode 0600."""

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
            _create_key(path)
        key = bytes.fromhex(path.read_text(encoding="ascii").strip())
    except OSError as error:
        raise KeyFileUnusable(f"The {name} {path} cannot be used: {error.strerror}.") from error
    except ValueError as error:
        raise KeyFileUnusable(f"The {name} {path} is damaged: it must hold hexadecimal digits.") from error
    if len(key) != KEY_BYTES:
        raise KeyFileUnusable(f"The {name} {path} is damaged: it must hold {KEY_BYTES} bytes in hexadecimal.")
    return key


def _create_key(path: Path) -> None:
    descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.stem}-")  # created with mode 0600
    temporary = Path(name)
    try:
        with os.fdopen(descriptor, "w", encoding="ascii") as file:
            file.write(secrets.token_hex(KEY_BYTES) + "\n")
            file.flush()
            os.fsync(file.fileno())
        os.link(temporary, path)  # never overwrites: the first process wins, the others read its key
    except FileExistsError:
        pass
    finally:
        temporary.unlink()
