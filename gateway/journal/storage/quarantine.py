"""Quarantined requests: each is a segment of its own, with the batch that it was in, and a `.json` file beside it with
the reason.
"""

import datetime as dt
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from gateway.journal.format import frames as fmt
from gateway.journal.format.ledger_records import BeginRecord, begin_record, decode_record, encode_record
from gateway.journal.interface import Batch, Entry, JournaledRequest, TableDay
from gateway.journal.storage.files import Files, write_atomic
from gateway.journal.storage.page_reader import build_reader, load_file_header
from gateway.journal.storage.scanning import JournalFrame, scan
from gateway.journal.storage.segments import SEGMENT_SUFFIX, Policies, pack_group
from proto.otlp.policy import Policy

QUARANTINE_DIRECTORY: Final = "quarantine"
NOTE_SUFFIX: Final = ".json"


class QuarantineNote(msgspec.Struct, frozen=True, kw_only=True):
    """The note beside a quarantined request, for operators; no code depends on it."""

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

    batch: BeginRecord
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
        kind, payload = encode_record(begin_record(batch))
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
    fd = files.open(path)
    try:
        header = load_file_header(files, fd)
        if header is None or header.version != fmt.VERSION:
            return None
        parts = list(scan(build_reader(files, fd), fmt.checksum_seed(header.salt), header.start, files.size(fd)))
    finally:
        files.close(fd)
    return _parse_frames([part for part in parts if isinstance(part, JournalFrame)])


def _parse_frames(parts: list[JournalFrame]) -> QuarantineFile | None:
    batch: BeginRecord | None = None
    policy: Policy | None = None
    request: tuple[int, JournaledRequest | None] = (0, None)
    for part in parts:
        if part.header.kind == fmt.BEGIN:
            record = decode_record(part.header.kind, part.payload)
            batch = record if isinstance(record, BeginRecord) else None
        elif part.header.kind == fmt.POLICY:
            policy = fmt.read_policy(bytes(part.payload))
        elif part.header.kind == fmt.REQUEST and policy is not None:
            request = part.header.sequence, fmt.decode_request(part.header, bytes(part.payload), policy)
    if batch is None or request[1] is None:
        return None
    return QuarantineFile(batch, Entry(request[0], request[1]))


def remove_begun(files: Files, directory: Path, begun: Iterable[int]) -> None:
    """Remove the quarantine files of begun batches: the process ended while it quarantined them. Their
    requests are stored, or quarantined again.
    """
    ids = {_format_id(batch_id) for batch_id in begun}
    names = [name for name in _list_directory(files, directory) if name.split("-")[1:2] and name.split("-")[1] in ids]
    for name in names:
        files.unlink(directory / name)
    if names:  # else they could reappear after a crash, when their batch is no longer begun
        files.sync_directory(directory)


def _format_id(batch_id: int) -> str:
    return f"{batch_id:020d}"


def _list_directory(files: Files, directory: Path) -> list[str]:
    try:
        return files.list_directory(directory)
    except FileNotFoundError:
        return []


def _rfc3339(time_ns: int) -> str:
    time = dt.datetime.fromtimestamp(time_ns / 10**9, dt.UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
