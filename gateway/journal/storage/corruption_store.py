"""Keeps damaged bytes: copies of them, each with a `.json` file that says where they were."""

import contextlib
import datetime as dt
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Final

import msgspec

from gateway.journal.format.ranges import RangeSet
from gateway.journal.interface import Range
from gateway.journal.storage.files import Files, write_atomic
from gateway.journal.storage.page_reader import ReadErrorFlag, build_reader
from gateway.journal.storage.scanning import Damage
from gateway.journal.storage.segments import Segment

DAMAGED_DIRECTORY: Final = "damaged"
_MISSING_SUFFIX: Final = "-missing.json"
_COPY_CHUNK_BYTES: Final = 8 * 2**20


class DamageNote(msgspec.Struct, frozen=True, kw_only=True):
    """The note beside damaged bytes."""

    journal: str  # name of the directory of the segment
    segment: str
    start: int  # offsets in the segment
    end: int
    sequences: tuple[Range, ...]  # of lost requests
    project_id: int | None = None  # of the first lost request, if its header is readable
    found: str  # time of discovery, RFC 3339
    uncertain: bool = False  # the requests may be stored: the ledger cannot tell
    moved: bool = False  # the entire segment was moved, because these bytes could not be copied


class CorruptionStore:
    """The directory `damaged/`, which all journals share."""

    def __init__(self, files: Files, directory: Path, clock: Callable[[], int]) -> None:
        self._files = files
        self._directory = directory
        self._clock = clock

    def save_copy(self, segment: Segment, damage: Damage, sequences: tuple[Range, ...]) -> bool:
        """Copy damaged bytes; returns whether all of them were readable. Raises OSError if they cannot be written."""
        error_flag = ReadErrorFlag()
        name = self._name(segment.path, f"{segment.first:020d}-{damage.start}")
        self._files.make_directory(self._directory)
        fd = self._files.open(segment.path)
        try:
            read = build_reader(self._files, fd, error_flag)
            pieces = [
                read(min(_COPY_CHUNK_BYTES, damage.end - offset), offset)
                for offset in range(damage.start, damage.end, _COPY_CHUNK_BYTES)
            ]
        finally:
            self._files.close(fd)
        self._write(f"{name}.bytes", pieces)
        self._write(f"{name}.json", [msgspec.json.encode(self._note(segment.path, damage, sequences))])
        return not error_flag.is_set

    def move_segment(self, segment: Segment) -> None:
        """Move an entire segment here instead of deleting it. Raises OSError."""
        self._files.make_directory(self._directory)
        name = self._name(segment.path, segment.path.name)
        note = self._note(segment.path, Damage(0, segment.length, segment.first, segment.last), ())
        self._write(f"{name}.json", [msgspec.json.encode(msgspec.structs.replace(note, moved=True))])
        try:
            self._files.rename(segment.path, self._directory / name)
        except OSError:  # the next attempt uses another name
            with contextlib.suppress(OSError):
                self._files.unlink(self._directory / f"{name}.json")
            raise
        with contextlib.suppress(OSError):  # after a crash the segment is in one of the two directories
            self._files.sync_directory(self._directory)

    def set_aside(self, segment: Path) -> None:
        """Move a segment here that the journal must not read. Raises OSError. It is moved even if no note can be
        written, because of a full disk: the journal must be able to start.
        """
        self._files.make_directory(self._directory)
        name = self._name(segment, segment.name)
        self._files.rename(segment, self._directory / name)
        for directory in (self._directory, segment.parent):  # before another file gets its name
            self._files.sync_directory(directory)
        with contextlib.suppress(OSError):
            note = self._note(segment, Damage(0, 0, 0, 0), ())
            self._write(f"{name}.json", [msgspec.json.encode(msgspec.structs.replace(note, moved=True))])

    def note_missing(self, segment: Path, sequences: tuple[Range, ...], *, is_uncertain: bool) -> None:
        """Write a note of requests of which there are no bytes. `segment`: the first that had them. Raises OSError."""
        self._files.make_directory(self._directory)
        note = msgspec.structs.replace(self._note(segment, Damage(0, 0, 0, 0), sequences), uncertain=is_uncertain)
        self._write(f"{self._name(segment, f'{sequences[0][0]:020d}')}{_MISSING_SUFFIX}", [msgspec.json.encode(note)])

    def take_back(self, journal: str, returned: Sequence[Range]) -> None:
        """Remove sequences that were put back from the notes of missing ones, and notes without any. Raises OSError."""
        self._files.make_directory(self._directory)
        for name in self._files.list_directory(self._directory):
            path = self._directory / name
            note = self._read_note(path) if name.endswith(_MISSING_SUFFIX) else None
            if note is None or note.journal != journal:
                continue
            rest = RangeSet(note.sequences)
            for first, last in returned:
                rest.discard(first, last)
            if not rest:
                self._files.unlink(path)
            elif tuple(rest) != note.sequences:
                self._write(name, [msgspec.json.encode(msgspec.structs.replace(note, sequences=tuple(rest)))])

    def _read_note(self, path: Path) -> DamageNote | None:
        fd = self._files.open(path)
        try:
            return msgspec.json.decode(build_reader(self._files, fd)(self._files.size(fd), 0), type=DamageNote)
        except msgspec.MsgspecError:
            return None
        finally:
            self._files.close(fd)

    def _name(self, segment: Path, what: str) -> str:
        return f"{self._clock() // 10**6:013d}-{segment.parent.name}-{what}"

    def _write(self, name: str, pieces: list[bytes]) -> None:
        self._files.close(write_atomic(self._files, self._directory / name, pieces))

    def _note(self, segment: Path, damage: Damage, sequences: tuple[Range, ...]) -> DamageNote:
        found = dt.datetime.fromtimestamp(self._clock() / 10**9, dt.UTC)
        return DamageNote(
            journal=segment.parent.name,
            segment=segment.name,
            start=damage.start,
            end=damage.end,
            sequences=sequences,
            project_id=damage.project_id,
            found=found.isoformat(timespec="milliseconds").replace("+00:00", "Z"),
        )
