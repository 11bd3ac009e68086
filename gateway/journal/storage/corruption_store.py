"""What cannot be read is kept: copies of damaged bytes, with a file beside each that says where they were."""

import contextlib
import datetime as dt
from collections.abc import Callable
from pathlib import Path
from typing import Final

import msgspec

from gateway.journal.interface import Range
from gateway.journal.storage.files import Files, write_atomic
from gateway.journal.storage.page_reader import ReadErrorFlag, build_reader
from gateway.journal.storage.scanning import Damage
from gateway.journal.storage.segments import Segment

DAMAGED_DIRECTORY: Final = "damaged"
_COPY_CHUNK_BYTES: Final = 8 * 2**20


class DamageNote(msgspec.Struct, frozen=True, kw_only=True):
    """What is known of damaged bytes."""

    journal: str  # the directory that the segment was in
    segment: str
    start: int  # offsets in it
    end: int
    sequences: tuple[Range, ...]  # of requests that are lost
    project_id: int | None = None  # of the first of them, if its header could be read
    found: str  # when, RFC 3339
    moved: bool = False  # the whole segment, for these bytes could not be copied out of it


class CorruptionStore:
    """The directory of damaged bytes, which all journals share."""

    def __init__(self, files: Files, directory: Path, clock: Callable[[], int]) -> None:
        self._files = files
        self._directory = directory
        self._clock = clock

    def save_copy(self, segment: Segment, damage: Damage, sequences: tuple[Range, ...]) -> bool:
        """Copy damaged bytes; whether all of them could be read. Raises OSError when they could not be written."""
        unreadable = ReadErrorFlag()
        name = self._name(segment, f"{segment.first:020d}-{damage.start}")
        self._files.make_directory(self._directory)
        fd = self._files.open(segment.path)
        try:
            read = build_reader(self._files, fd, unreadable)
            pieces = [
                read(min(_COPY_CHUNK_BYTES, damage.end - offset), offset)
                for offset in range(damage.start, damage.end, _COPY_CHUNK_BYTES)
            ]
        finally:
            self._files.close(fd)
        self._write(f"{name}.bytes", pieces)
        self._write(f"{name}.json", [msgspec.json.encode(self._note(segment, damage, sequences))])
        return not unreadable.is_set

    def move_segment(self, segment: Segment) -> None:
        """Put a whole segment here, instead of deleting it. Raises OSError."""
        self._files.make_directory(self._directory)
        name = self._name(segment, segment.path.name)
        note = self._note(segment, Damage(0, segment.length, segment.first, segment.last), ())
        self._write(f"{name}.json", [msgspec.json.encode(msgspec.structs.replace(note, moved=True))])
        try:
            self._files.rename(segment.path, self._directory / name)
        except OSError:  # the next attempt has another name
            with contextlib.suppress(OSError):
                self._files.unlink(self._directory / f"{name}.json")
            raise
        with contextlib.suppress(OSError):  # after a crash it is in one of the two places
            self._files.sync_directory(self._directory)

    def _name(self, segment: Segment, what: str) -> str:
        return f"{self._clock() // 10**6:013d}-{segment.path.parent.name}-{what}"

    def _write(self, name: str, pieces: list[bytes]) -> None:
        self._files.close(write_atomic(self._files, self._directory / name, pieces))

    def _note(self, segment: Segment, damage: Damage, sequences: tuple[Range, ...]) -> DamageNote:
        found = dt.datetime.fromtimestamp(self._clock() / 10**9, dt.UTC)
        return DamageNote(
            journal=segment.path.parent.name,
            segment=segment.path.name,
            start=damage.start,
            end=damage.end,
            sequences=sequences,
            project_id=damage.project_id,
            found=found.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        )
