"""The format of a journal's files, version 1: bytes <-> values. Pure; `docs/journal.md` is normative.

Numbers are little-endian. A file is a header of one page (4 KiB), then frames. Frames that are synced together are a
group; a group begins on a page boundary. A frame is a header of 64 bytes and a payload, padded with zeros to a multiple
of 8. The frames of a ledger have records, as JSON.

Checksums are seeded with the salt of the file, which is secret: bytes of a request that look like a frame are not read
as a frame, even if the frame around them is damaged.
"""

import secrets
import struct
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

import msgspec
from crc32c import crc32c

from gateway.journal.interface import Batch, JournaledRequest, Range, TableDay
from proto.otlp.policy import Policy, Signal
from proto.otlp.responses import Media

VERSION: Final = 1
PAGE: Final = 4096
FILE_MAGIC: Final = b"\x89SLUICE\n"
FRAME_MAGIC: Final = b"\xf5SLF"
SEGMENT: Final = 1  # kinds of files
LEDGER: Final = 2

POLICY: Final = 1  # kinds of frames
REQUEST: Final = 2
BEGIN: Final = 16  # the kinds of other records are in `_KINDS`

FLAG_SLOW: Final = 1
FRAME_HEADER_BYTES: Final = 64
MAX_PAYLOAD: Final = 2**32 - 1
MAX_SEQUENCE: Final = 2**64 - 1

_FILE: Final = struct.Struct("<8sHHHHQQ8s20s")
_FRAME: Final = struct.Struct("<4sIBBBBIQQQQII")
_CRC: Final = struct.Struct("<I")
_CRCS: Final = struct.Struct("<II")
_FRAME_FIELDS_BYTES: Final = 56  # bytes before the two checksums
_FILE_FIELDS_BYTES: Final = 60

_SIGNALS: Final[Mapping[Signal, int]] = {"traces": 1, "logs": 2}
_MEDIA: Final[Mapping[Media, int]] = {"protobuf": 1, "json": 2}
_ENCODINGS: Final[Mapping[str, int]] = {"identity": 0, "gzip": 1, "deflate": 2, "zstd": 3}
_SIGNAL_NAMES: Final[Mapping[int, Signal]] = {number: name for name, number in _SIGNALS.items()}
_MEDIA_NAMES: Final[Mapping[int, Media]] = {number: name for name, number in _MEDIA.items()}
_ENCODING_NAMES: Final = {number: name for name, number in _ENCODINGS.items()}


class FileHeader(NamedTuple):
    """The header of a segment or ledger."""

    kind: int
    first: int  # no sequence in the file is lower
    created_ns: int
    salt: bytes  # 8 bytes
    version: int = VERSION
    start: int = PAGE  # offset of the first frame


class FrameHeader(NamedTuple):
    """The header of a frame. Fields that a kind does not use are 0."""

    kind: int
    length: int  # of the payload, in bytes
    sequence: int
    group: int  # the first sequence of its group: all lower ones were on disk when the group was written
    project_id: int
    received_ns: int
    accepted: int
    policy_id: int
    signal: int
    media: int
    encoding: int
    flags: int
    crc: int  # of the salt and the header; the checksum of the payload continues it

    @property
    def size(self) -> int:
        """Bytes of the frame, including padding."""
        return frame_size(self.length)


def new_salt() -> bytes:
    """8 random bytes for the files of a new journal."""
    return secrets.token_bytes(8)


def checksum_seed(salt: bytes) -> int:
    """The initial value of all frame checksums in a file with this salt."""
    return crc32c(salt)


def frame_size(length: int) -> int:
    """Bytes of a frame with a payload of `length` bytes, including padding."""
    return FRAME_HEADER_BYTES + length + (-length % 8)


def align_to_page(offset: int) -> int:
    """`offset` rounded up to a multiple of `PAGE`."""
    return offset + (-offset % PAGE)


def pack_file_header(header: FileHeader) -> bytes:
    """The header of a new file: one page with two copies, because no frame can be recognized without the salt."""
    kind, first, created_ns, salt, version, start = header
    fields = _FILE.pack(FILE_MAGIC, version, start, kind, 0, first, created_ns, salt, b"")
    copy = (fields + _CRC.pack(crc32c(fields))).ljust(PAGE // 2, b"\0")
    return copy + copy


def read_file_header(page: bytes) -> FileHeader | None:
    """The header of a file of any version; None if the page is not a header, or both copies are damaged."""
    return _read_file_header(page, 0) or _read_file_header(page, PAGE // 2)


def _read_file_header(page: bytes, at: int) -> FileHeader | None:
    if len(page) < at + _FILE_FIELDS_BYTES + 4 or page[at : at + len(FILE_MAGIC)] != FILE_MAGIC:
        return None
    if _CRC.unpack_from(page, at + _FILE_FIELDS_BYTES)[0] != crc32c(page[at : at + _FILE_FIELDS_BYTES]):
        return None
    _, version, start, kind, _, first, created_ns, salt, _ = _FILE.unpack_from(page, at)
    return FileHeader(kind, first, created_ns, salt, version, start)


def pack_request_header(seed: int, request: JournaledRequest, sequence: int, group: int, policy_id: int) -> bytes:
    """The header of a REQUEST frame, with both checksums. The body follows it, padded to a multiple of 8."""
    body = request.body
    fields = _FRAME.pack(
        FRAME_MAGIC,
        len(body),
        REQUEST,
        _SIGNALS[request.signal],
        _MEDIA[request.media],
        _ENCODINGS[request.encoding],
        request.accepted,
        sequence,
        group,
        request.project_id,
        request.received_ns,
        policy_id,
        FLAG_SLOW if request.slow else 0,
    )
    crc = crc32c(fields, seed)
    return fields + _CRCS.pack(crc, crc32c(body, crc, gil_release_mode=0))


def pack_frame(seed: int, kind: int, payload: bytes, *, sequence: int = 0, group: int = 0, policy_id: int = 0) -> bytes:
    """A complete frame of any kind but REQUEST, padded."""
    fields = _FRAME.pack(FRAME_MAGIC, len(payload), kind, 0, 0, 0, 0, sequence, group, 0, 0, policy_id, 0)
    crc = crc32c(fields, seed)
    return b"".join((fields, _CRCS.pack(crc, crc32c(payload, crc)), payload, bytes(-len(payload) % 8)))


def read_frame_header(buffer: bytes | memoryview, offset: int, seed: int) -> FrameHeader | None:
    """The header of the frame at `offset`; None if there is none, or its checksum is wrong."""
    if len(buffer) < offset + FRAME_HEADER_BYTES or buffer[offset : offset + 4] != FRAME_MAGIC:
        return None
    crc = _CRC.unpack_from(buffer, offset + _FRAME_FIELDS_BYTES)[0]
    if crc != crc32c(buffer[offset : offset + _FRAME_FIELDS_BYTES], seed):
        return None
    _, length, kind, signal, media, encoding, accepted, sequence, group, project_id, received_ns, policy_id, flags = (
        _FRAME.unpack_from(buffer, offset)
    )
    return FrameHeader(
        kind, length, sequence, group, project_id, received_ns, accepted, policy_id, signal, media, encoding, flags, crc
    )


def is_payload_intact(buffer: bytes | memoryview, offset: int, head: FrameHeader) -> bool:
    """Whether the checksum of the payload at `offset` is correct. `buffer` must contain the entire payload."""
    start = offset + FRAME_HEADER_BYTES
    stored = _CRC.unpack_from(buffer, offset + _FRAME_FIELDS_BYTES + 4)[0]
    return bool(stored == crc32c(buffer[start : start + head.length], head.crc))


def decode_signal(head: FrameHeader) -> Signal | None:
    """The signal of a request; None if this version does not define it."""
    return _SIGNAL_NAMES.get(head.signal)


def decode_request(head: FrameHeader, body: bytes, policy: Policy) -> JournaledRequest | None:
    """The request of an intact frame; None if its signal, media type or encoding is not defined in this version."""
    signal, media = _SIGNAL_NAMES.get(head.signal), _MEDIA_NAMES.get(head.media)
    encoding = _ENCODING_NAMES.get(head.encoding)
    if signal is None or media is None or encoding is None:
        return None
    slow = bool(head.flags & FLAG_SLOW)
    return JournaledRequest(
        head.project_id, signal, media, encoding, head.received_ns, head.accepted, policy, body, slow
    )


# Fields of a policy that were added later in version 1. All earlier policies have 0 or an empty value in these fields;
# such values are not written.
_OMITTED_IF_EMPTY: Final = frozenset(("max_resource_bytes", "max_scope_bytes", "max_repeated_bytes", "exempt_keys"))


def pack_policy(policy: Policy) -> tuple[int, bytes]:
    """The id of a policy, the CRC-32C of its JSON, and the JSON."""
    fields = msgspec.structs.asdict(policy)
    payload = msgspec.json.encode(
        {name: fields[name] for name in fields if fields[name] or name not in _OMITTED_IF_EMPTY}
    )
    return crc32c(payload), payload


def read_policy(payload: bytes) -> Policy | None:
    """A policy from its JSON; None if that is invalid. Unknown fields are ignored, missing ones have their default."""
    try:
        return msgspec.json.decode(payload, type=Policy)
    except msgspec.MsgspecError:
        return None


class BatchRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The batch that a record is about."""

    batch: int
    made_ms: int
    ranges: tuple[Range, ...]
    skip: tuple[TableDay, ...] = ()


class BeginRecord(BatchRecord, frozen=True, omit_defaults=True):
    """A batch is begun: its requests are inserted together from now on."""


class FinishRecord(BatchRecord, frozen=True, omit_defaults=True):
    """A batch is stored, or quarantined if `rows` is missing. The record repeats the ranges of BeginRecord, so that one
    of the two may be unreadable.
    """

    finished_ms: int = 0
    rows: tuple[tuple[str, int, int], ...] | None = None


class SplitRecord(msgspec.Struct, frozen=True):
    """A batch is replaced by its parts, which are begun."""

    batch: int
    parts: tuple[BeginRecord, ...]


class SkipRecord(msgspec.Struct, frozen=True):
    """Sequences that never existed, or are unreadable. `reason`: refused, torn or damaged."""

    ranges: tuple[Range, ...]
    reason: str


class SealRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A sealed segment: nothing is written to it any more."""

    first: int  # the sequence in its name
    last: int  # the sequence of its last request; first - 1 if it has none
    length: int  # bytes of the file that are valid
    requests: int = 0
    items: int = 0
    projects: dict[int, int] = {}  # bytes of frames by project
    fresh: bool = False  # has requests of the ordinary lane
    slow: bool = False  # has requests of the slow lane
    oldest_ns: int = 0  # receive time of the first request
    keep: bool = False  # a part is unreadable and was not copied: it is moved to damaged/, not deleted


class StateRecord(msgspec.Struct, frozen=True):
    """The initial state of a new ledger: finished sequences, and the first sequence that was never used. Later records
    have only the first unused sequence.
    """

    finished: tuple[Range, ...]
    next: int


class MissingRecord(msgspec.Struct, frozen=True):
    """Sequences that are reported as missing, because no segment has them. They are read if their segment is found
    again."""

    ranges: tuple[Range, ...]


class CleanShutdownRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The process shut down in order; no request has the sequence `next` or a higher one."""

    next: int
    checked: bool = False  # retained batches were known to be still stored


Record = (
    BeginRecord
    | FinishRecord
    | SplitRecord
    | SkipRecord
    | SealRecord
    | StateRecord
    | CleanShutdownRecord
    | MissingRecord
)

_KINDS: Final[Mapping[type[Record], int]] = {
    BeginRecord: BEGIN,
    FinishRecord: 17,
    SplitRecord: 18,
    SkipRecord: 19,
    SealRecord: 20,
    StateRecord: 22,
    CleanShutdownRecord: 21,
    MissingRecord: 23,
}
_TYPES: Final[Mapping[int, type[Record]]] = {kind: record for record, kind in _KINDS.items()}


def encode_record(record: Record) -> tuple[int, bytes]:
    """Kind and payload of the frame of a record."""
    return _KINDS[type(record)], msgspec.json.encode(record)


def decode_record(kind: int, payload: bytes | memoryview) -> Record | None:
    """The record of a frame; None if its kind is unknown or its payload is invalid."""
    record = _TYPES.get(kind)
    if record is None:
        return None
    try:
        return msgspec.json.decode(payload, type=record)
    except msgspec.MsgspecError:
        return None


def begin_record(batch: Batch) -> BeginRecord:
    """The record that begins a batch."""
    return BeginRecord(batch.batch_id, batch.made_ms, batch.ranges, tuple(sorted(batch.skip)))


def batch_from_record(record: BatchRecord, ranges: Sequence[Range] | None = None) -> Batch:
    """The batch of a record; `ranges` replaces the ranges of the record."""
    return Batch(
        record.batch, record.made_ms, record.ranges if ranges is None else tuple(ranges), frozenset(record.skip)
    )


def finish_record(batch: Batch, rows: Mapping[TableDay, int] | None, finished_ms: int) -> FinishRecord:
    """The record that finishes a batch. `rows` None: it was quarantined."""
    counts = None if rows is None else tuple((table, day, count) for (table, day), count in sorted(rows.items()))
    begin = begin_record(batch)
    return FinishRecord(begin.batch, begin.made_ms, begin.ranges, begin.skip, finished_ms, counts)


def stored_rows(record: FinishRecord) -> dict[TableDay, int] | None:
    """Stored rows per table and day; None if the batch was quarantined."""
    return None if record.rows is None else {(table, day): count for table, day, count in record.rows}
