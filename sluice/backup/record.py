"""`DATA/backup.json`: the last completed backup of a data directory, for `/metrics` and `sluice doctor`."""

import os
import tempfile
from pathlib import Path
from typing import Final

import msgspec

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


def read(data: Path) -> Record | None:
    """The last backup; None if there was none, or if the file cannot be read."""
    try:
        return msgspec.json.decode((data / FILE_NAME).read_bytes(), type=Record)
    except (OSError, msgspec.MsgspecError):
        return None


def write(data: Path, completed: Record) -> None:
    """Replace the file atomically. Raises OSError."""
    descriptor, name = tempfile.mkstemp(dir=data, prefix=f".{FILE_NAME}-")  # mode 0600
    with os.fdopen(descriptor, "wb") as file:
        file.write(msgspec.json.format(msgspec.json.encode(completed)) + b"\n")
    Path(name).replace(data / FILE_NAME)
