"""Requests that were set aside: each a segment of its own with the batch that it was in, and a file beside it that says
why.
"""

import datetime as dt
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Final, NamedTuple

import msgspec

from gateway.journal import format as fmt
from gateway.journal.entries import Begin, begin_of, pack, read
from gateway.journal.files import Files, put
from gateway.journal.reading import file_header, read_at
from gateway.journal.records import Batch, Entry, Place, Request
from gateway.journal.scanning import Found, scan
from gateway.journal.segments import SUFFIX, Policies, pack_group
from proto.otlp.policy import Policy

DIRECTORY: Final = "quarantine"
NOTE: Final = ".json"


class QuarantineNote(msgspec.Struct, frozen=True, kw_only=True):
    """What is said of a request beside its file; for people, nothing depends on it."""

    reason: str
    set_aside: str  # RFC 3339
    received: str
    project_id: int
    signal: str
    items: int
    bytes: int
    journal: str  # the directory it was in
    sequence: int
    batch: int
    skip: tuple[Place, ...]  # places of the batch that are stored


class Contents(NamedTuple):
    """A file of the quarantine."""

    batch: Begin
    entry: Entry


class Quarantine:
    """The directory of requests that were set aside, which all journals share."""

    def __init__(self, files: Files, directory: Path, clock: Callable[[], int]) -> None:
        self._files = files
        self._directory = directory
        self._clock = clock

    def put(self, batch: Batch, entry: Entry, reason: str, journal: str) -> None:
        """Keep a request; on disk when this returns. Once more is the same file. Raises OSError."""
        self._files.make_directory(self._directory)
        name = f"{batch.made_ms:013d}-{_id(batch.batch_id)}-{entry.sequence:020d}"
        note = msgspec.json.format(msgspec.json.encode(self._note(batch, entry, reason, journal)))
        self._write(f"{name}{SUFFIX}{NOTE}", [note])
        self._write(f"{name}{SUFFIX}", self._pieces(batch, entry))

    def _pieces(self, batch: Batch, entry: Entry) -> list[bytes]:
        salt, sequence = fmt.new_salt(), entry.sequence
        seed = fmt.seed_of(salt)
        header = fmt.pack_file_header(fmt.FileHeader(fmt.SEGMENT, sequence, self._clock(), salt))
        kind, payload = pack(begin_of(batch))
        begin = fmt.pack_frame(seed, kind, payload, sequence=sequence, group=sequence)
        group = pack_group([entry.request], sequence, fmt.PAGE, seed, Policies())
        return [header, begin, *group.pieces]

    def _write(self, name: str, pieces: list[bytes]) -> None:
        self._files.close(put(self._files, self._directory / name, pieces))

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


def read_contents(files: Files, path: Path) -> Contents | None:
    """A file of the quarantine; None when any of it is damaged."""
    fd = files.open(path)
    try:
        header = file_header(files, fd)
        if header is None or header.version != fmt.VERSION:
            return None
        parts = list(scan(read_at(files, fd), fmt.seed_of(header.salt), header.start, files.size(fd)))
    finally:
        files.close(fd)
    return _contents([part for part in parts if isinstance(part, Found)])


def _contents(parts: list[Found]) -> Contents | None:
    batch: Begin | None = None
    policy: Policy | None = None
    request: tuple[int, Request | None] = (0, None)
    for part in parts:
        if part.head.kind == fmt.BEGIN:
            record = read(part.head.kind, part.payload)
            batch = record if isinstance(record, Begin) else None
        elif part.head.kind == fmt.POLICY:
            policy = fmt.read_policy(bytes(part.payload))
        elif part.head.kind == fmt.REQUEST and policy is not None:
            request = part.head.sequence, fmt.request_of(part.head, bytes(part.payload), policy)
    if batch is None or request[1] is None:
        return None
    return Contents(batch, Entry(request[0], request[1]))


def forget_begun(files: Files, directory: Path, begun: Iterable[int]) -> None:
    """Remove the requests of batches that are begun: the process ended while it set them aside. They are to be stored,
    or set aside again.
    """
    ids = {_id(batch_id) for batch_id in begun}
    names = [name for name in _names(files, directory) if name.split("-")[1:2] and name.split("-")[1] in ids]
    for name in names:
        files.unlink(directory / name)
    if names:  # or they may be back after the next crash, when nobody knows any more that they do not belong there
        files.sync_directory(directory)


def _id(batch_id: int) -> str:
    return f"{batch_id:020d}"


def _names(files: Files, directory: Path) -> list[str]:
    try:
        return files.names(directory)
    except FileNotFoundError:
        return []


def _rfc3339(time_ns: int) -> str:
    time = dt.datetime.fromtimestamp(time_ns / 10**9, dt.UTC)
    return time.isoformat(timespec="milliseconds").replace("+00:00", "Z")
