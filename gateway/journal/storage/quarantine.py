"""Files that are kept for operators, in directories that all journals share.

quarantine/   requests that ClickHouse refuses: each is a segment of its own, with its batch, and has a `.json` file
              with the reason
damaged/      damaged bytes: copies of them, each with a `.json` file about where they were
"""

import contextlib
import datetime as dt
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from gateway.journal import format as fmt
from gateway.journal.interface import Batch, Entry, JournaledRequest, Range, RangeSet, TableDay
from gateway.journal.storage.files import Files, write_atomic
from gateway.journal.storage.scanning import (
    Damage,
    JournalFrame,
    ReadErrorFlag,
    build_reader,
    load_file_header,
    read_json,
    scan,
)
from gateway.journal.storage.segments import SEGMENT_SUFFIX, Policies, Segment, pack_group
from proto.otlp.policy import Policy

QUARANTINE_DIRECTORY: Final = "quarantine"
NOTE_SUFFIX: Final = ".json"


class QuarantineNote(msgspec.Struct, frozen=True, kw_only=True):
    """The `.json` file of a quarantined request, for operators; no code depends on it."""

    reason: str
    set_aside: str  # RFC 3339
    received: str
    project_id: int
    signal: str
    items: int
    bytes: int
    journal: str  # directory name of the journal that it was in
    sequence: int
    batch: int
    skip: tuple[TableDay, ...]  # tables and days of the batch that are stored


class QuarantineFile(NamedTuple):
    """The contents of a quarantine file: a request, and the batch that it was in."""

    batch: fmt.BeginRecord
    entry: Entry


class Quarantine:
    """The directory `quarantine/`, which all journals share."""

    def __init__(self, files: Files, directory: Path, clock: Callable[[], int]) -> None:
        self._files = files
        self._directory = directory
        self._clock = clock

    def put(self, batch: Batch, entry: Entry, reason: str, journal: str) -> None:
        """Write a request to quarantine; it is on disk when this returns. A second call writes the same
        file. Raises OSError.
        """
        self._files.make_directory(self._directory)
        name = f"{batch.made_ms:013d}-{_format_id(batch.batch_id)}-{entry.sequence:020d}"
        note = msgspec.json.format(msgspec.json.encode(self._note(batch, entry, reason, journal)))
        self._write(f"{name}{SEGMENT_SUFFIX}{NOTE_SUFFIX}", [note])
        self._write(f"{name}{SEGMENT_SUFFIX}", self._pieces(batch, entry))

    def _pieces(self, batch: Batch, entry: Entry) -> list[bytes]:
        salt, sequence = fmt.new_salt(), entry.sequence
        seed = fmt.checksum_seed(salt)
        header = fmt.pack_file_header(fmt.FileHeader(fmt.SEGMENT, sequence, self._clock(), salt))
        kind, payload = fmt.encode_record(fmt.begin_record(batch))
        begin = fmt.pack_frame(seed, kind, payload, sequence=sequence, group=sequence)
        group = pack_group([entry.request], sequence, fmt.PAGE, seed, Policies())
        return [header, begin, *group.pieces]

    def _write(self, name: str, pieces: list[bytes]) -> None:
        self._files.close(write_atomic(self._files, self._directory / name, pieces))

    def _note(self, batch: Batch, entry: Entry, reason: str, journal: str) -> QuarantineNote:
        request = entry.request
        return QuarantineNote(
            reason=reason,
            set_aside=_rfc3339(self._clock()),
            received=_rfc3339(request.received_ns),
            project_id=request.project_id,
            signal=request.signal,
            items=request.accepted,
            bytes=len(request.body),
            journal=journal,
            sequence=entry.sequence,
            batch=batch.batch_id,
            skip=tuple(sorted(batch.skip)),
        )


def read_quarantine_file(files: Files, path: Path) -> QuarantineFile | None:
    """Read a quarantine file; None if it is damaged, or of another version."""
    with files.opened(path) as fd:
        header = load_file_header(files, fd)
        if header is None or header.version != fmt.VERSION:
            return None
        parts = list(scan(build_reader(files, fd), fmt.checksum_seed(header.salt), header.start, files.size(fd)))
    return _parse_frames([part for part in parts if isinstance(part, JournalFrame)])


def _parse_frames(parts: list[JournalFrame]) -> QuarantineFile | None:
    batch: fmt.BeginRecord | None = None
    policy: Policy | None = None
    request: tuple[int, JournaledRequest | None] = (0, None)
    for part in parts:
        if part.header.kind == fmt.BEGIN:
            record = fmt.decode_record(part.header.kind, part.payload)
            batch = record if isinstance(record, fmt.BeginRecord) else None
        elif part.header.kind == fmt.POLICY:
            policy = fmt.read_policy(bytes(part.payload))
        elif part.header.kind == fmt.REQUEST and policy is not None:
            request = part.header.sequence, fmt.decode_request(part.header, bytes(part.payload), policy)
    if batch is None or request[1] is None:
        return None
    return QuarantineFile(batch, Entry(request[0], request[1]))


def remove_begun(files: Files, directory: Path, begun: Iterable[int]) -> None:
    """Remove the quarantine files of begun batches: the process ended while it quarantined them. The requests of these
    batches will be stored, or quarantined again.
    """
    ids = {_format_id(batch_id) for batch_id in begun}
    names = [name for name in files.list_existing(directory) if name.split("-")[1:2] and name.split("-")[1] in ids]
    for name in names:
        files.unlink(directory / name)
    if names:  # otherwise files could reappear after a crash, when their batch is no longer begun
        files.sync_directory(directory)


def _format_id(batch_id: int) -> str:
    return f"{batch_id:020d}"


def _rfc3339(time_ns: int) -> str:
    time = dt.datetime.fromtimestamp(time_ns / 10**9, dt.UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")


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
    uncertain: bool = False  # the requests may be stored: the ledger has no record of them
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
        with self._files.opened(segment.path) as fd:
            read = build_reader(self._files, fd, error_flag)
            pieces = [
                read(min(_COPY_CHUNK_BYTES, damage.end - offset), offset)
                for offset in range(damage.start, damage.end, _COPY_CHUNK_BYTES)
            ]
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
        with contextlib.suppress(OSError):  # if this fails, the segment is in one of the two directories after a crash
            self._files.sync_directory(self._directory)

    def set_aside(self, segment: Path) -> None:
        """Move a segment here that the journal must not read. Raises OSError. If a full disk prevents the note, the
        segment is moved nevertheless, so that the journal can start.
        """
        self._files.make_directory(self._directory)
        name = self._name(segment, segment.name)
        self._files.rename(segment, self._directory / name)
        for directory in (self._directory, segment.parent):  # synced before another file gets the name
            self._files.sync_directory(directory)
        with contextlib.suppress(OSError):
            note = self._note(segment, Damage(0, 0, 0, 0), ())
            self._write(f"{name}.json", [msgspec.json.encode(msgspec.structs.replace(note, moved=True))])

    def note_missing(self, segment: Path, sequences: tuple[Range, ...], *, is_uncertain: bool) -> None:
        """Write a note about requests that are missing on disk. `segment`: the first segment that had them. Raises
        OSError."""
        self._files.make_directory(self._directory)
        note = msgspec.structs.replace(self._note(segment, Damage(0, 0, 0, 0), sequences), uncertain=is_uncertain)
        self._write(f"{self._name(segment, f'{sequences[0][0]:020d}')}{_MISSING_SUFFIX}", [msgspec.json.encode(note)])

    def take_back(self, journal: str, returned: Sequence[Range]) -> None:
        """Remove sequences that were put back from the notes about missing requests, and notes without sequences.
        Raises OSError."""
        self._files.make_directory(self._directory)
        for name in self._files.list_directory(self._directory):
            path = self._directory / name
            note = read_json(self._files, path, DamageNote) if name.endswith(_MISSING_SUFFIX) else None
            if note is None or note.journal != journal:
                continue
            rest = RangeSet(note.sequences)
            for first, last in returned:
                rest.discard(first, last)
            if not rest:
                self._files.unlink(path)
            elif tuple(rest) != note.sequences:
                self._write(name, [msgspec.json.encode(msgspec.structs.replace(note, sequences=tuple(rest)))])

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
