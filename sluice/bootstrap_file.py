"""Files with credentials, such as `bootstrap.json`: written once, atomically, mode 0600."""

import os
import tempfile
from pathlib import Path
from typing import Final

import msgspec

from chassis.errors import StartupError
from control.identity.organizations.bootstrap import Bootstrap

FILE_NAME: Final = "bootstrap.json"


def write(path: Path, credentials: msgspec.Struct) -> None:
    """Write a `Bootstrap`, or another struct with a secret, as JSON. Raises StartupError if the file exists, because it
    may hold the only copy of a secret, or if it cannot be written.
    """
    content = msgspec.json.format(msgspec.json.encode(credentials), indent=2) + b"\n"
    try:
        descriptor, name = tempfile.mkstemp(dir=path.parent, prefix=f".{path.name}-")  # mode 0600
        temporary = Path(name)
        try:
            with os.fdopen(descriptor, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            os.link(temporary, path)  # atomic, and fails if `path` exists
        finally:
            temporary.unlink()
    except FileExistsError as error:
        raise StartupError(
            f"{path} exists, and may hold the only copy of a secret; move it elsewhere if nothing needs it."
        ) from error
    except OSError as error:
        raise StartupError(f"{path} cannot be written: {error.strerror}.") from error


def read(path: Path) -> Bootstrap:
    """The credentials in the file. Raises StartupError if it does not exist or holds none."""
    try:
        return msgspec.json.decode(path.read_bytes(), type=Bootstrap)
    except FileNotFoundError as error:
        raise StartupError(f"{path} does not exist; `sluice up` writes it at its first start.") from error
    except OSError as error:
        raise StartupError(f"{path} cannot be read: {error.strerror}.") from error
    except msgspec.MsgspecError as error:
        raise StartupError(f"{path} does not contain valid credentials: {error}.") from error
