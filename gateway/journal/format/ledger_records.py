"""The records of a ledger: JSON payloads of its frames."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from gateway.journal.format.frames import BEGIN, CLEAN, FINISH, MISSING, SEALED, SKIP, SPLIT, STATE
from gateway.journal.interface import Batch, Range, TableDay


class BatchRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The batch that a record is about."""

    batch: int
    made_ms: int
    ranges: tuple[Range, ...]
    skip: tuple[TableDay, ...] = ()


class BeginRecord(BatchRecord, frozen=True, omit_defaults=True):
    """A batch is begun: its requests are inserted together from now on."""


class FinishRecord(BatchRecord, frozen=True, omit_defaults=True):
    """A batch is stored, or quarantined if `rows` is missing. The record repeats the ranges of BeginRecord, so that
    either of the two may be unreadable.
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
    """The initial state of a new ledger: what is finished, and the first sequence that was never used. Later records
    have only the latter.
    """

    finished: tuple[Range, ...]
    next: int


class MissingRecord(msgspec.Struct, frozen=True):
    """Sequences that are reported as missing, because no segment has them. They are read if their segment returns."""

    ranges: tuple[Range, ...]


class CleanShutdownRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The process shut down in order; no request has the sequence `next` or a higher one."""

    next: int
    checked: bool = False  # what is retained was known to be still stored


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
    FinishRecord: FINISH,
    SplitRecord: SPLIT,
    SkipRecord: SKIP,
    SealRecord: SEALED,
    StateRecord: STATE,
    CleanShutdownRecord: CLEAN,
    MissingRecord: MISSING,
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
