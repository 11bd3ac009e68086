"""What a ledger says, as values: payloads of its frames, JSON."""

from collections.abc import Mapping, Sequence
from typing import Final

import msgspec

from gateway.journal.format import frames as fmt
from gateway.journal.interface import Batch, Range, TableDay


class BatchRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A batch."""

    batch: int
    made_ms: int
    ranges: tuple[Range, ...]
    skip: tuple[TableDay, ...] = ()


class BeginRecord(BatchRecord, frozen=True, omit_defaults=True):
    """The requests of a batch are stored together from now on."""


class FinishRecord(BatchRecord, frozen=True, omit_defaults=True):
    """They are stored; `rows` is missing where they were set aside. It has the ranges again, in case that the record of
    the beginning cannot be read.
    """

    finished_ms: int = 0
    rows: tuple[tuple[str, int, int], ...] | None = None


class SplitRecord(msgspec.Struct, frozen=True):
    """A batch is gone, and its parts are begun."""

    batch: int
    parts: tuple[BeginRecord, ...]


class SkipRecord(msgspec.Struct, frozen=True):
    """Sequences that never were, or cannot be read."""

    ranges: tuple[Range, ...]
    reason: str


class SealRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """A segment that nothing is written to any more."""

    first: int  # sequence in its name
    last: int  # of its requests; first - 1 when it has none
    length: int  # bytes that count
    requests: int = 0
    items: int = 0
    projects: dict[int, int] = {}  # bytes by project
    fresh: bool = False  # whether it has requests of the ordinary lane
    slow: bool = False
    oldest_ns: int = 0  # the first receive time
    keep: bool = False  # part of it could not be copied: it is moved to the damaged ones instead of being deleted


class StateRecord(msgspec.Struct, frozen=True):
    """Where a new ledger begins: what is finished, and the first sequence that was never used."""

    finished: tuple[Range, ...]
    next: int


class CleanShutdownRecord(msgspec.Struct, frozen=True, omit_defaults=True):
    """The process ended in order; no request has this sequence or a later one."""

    next: int
    checked: bool = False  # it was known that what is held is still stored


Record = BeginRecord | FinishRecord | SplitRecord | SkipRecord | SealRecord | StateRecord | CleanShutdownRecord

_KINDS: Final[Mapping[type[Record], int]] = {
    BeginRecord: fmt.BEGIN,
    FinishRecord: fmt.FINISH,
    SplitRecord: fmt.SPLIT,
    SkipRecord: fmt.SKIP,
    SealRecord: fmt.SEALED,
    StateRecord: fmt.STATE,
    CleanShutdownRecord: fmt.CLEAN,
}
_TYPES: Final[Mapping[int, type[Record]]] = {kind: record for record, kind in _KINDS.items()}


def encode_record(record: Record) -> tuple[int, bytes]:
    """Kind and payload of a frame."""
    return _KINDS[type(record)], msgspec.json.encode(record)


def decode_record(kind: int, payload: bytes | memoryview) -> Record | None:
    """What a frame says; None when this version does not know it."""
    record = _TYPES.get(kind)
    if record is None:
        return None
    try:
        return msgspec.json.decode(payload, type=record)
    except msgspec.MsgspecError:
        return None


def begin_record(batch: Batch) -> BeginRecord:
    """The record of a batch."""
    return BeginRecord(batch.batch_id, batch.made_ms, batch.ranges, tuple(sorted(batch.skip)))


def batch_from_record(record: BatchRecord, ranges: Sequence[Range] | None = None) -> Batch:
    """The batch of a record, perhaps with less in it."""
    return Batch(
        record.batch, record.made_ms, record.ranges if ranges is None else tuple(ranges), frozenset(record.skip)
    )


def finish_record(batch: Batch, rows: Mapping[TableDay, int] | None, finished_ms: int) -> FinishRecord:
    """The record of its end."""
    counts = None if rows is None else tuple((table, day, count) for (table, day), count in sorted(rows.items()))
    begin = begin_record(batch)
    return FinishRecord(begin.batch, begin.made_ms, begin.ranges, begin.skip, finished_ms, counts)


def stored_rows(record: FinishRecord) -> dict[TableDay, int] | None:
    """What was stored."""
    return None if record.rows is None else {(table, day): count for table, day, count in record.rows}
