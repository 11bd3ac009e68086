"""A journal that stores nothing: requests exist only in the memory of its callers. For the mode `memory`, and tests."""

from collections.abc import Iterator, Mapping, Sequence

import structlog

from gateway.journal.interface import (
    Batch,
    DamagedRequests,
    Entry,
    JournaledRequest,
    OnPersisted,
    RecoveredState,
    TableDay,
)


class NullJournal:
    """Implements `JournalLike`: assigns sequences, and keeps the item count of requests until their batch ends."""

    durable = False

    def __init__(self, log: structlog.stdlib.BoundLogger) -> None:
        self._log = log
        self._last_sequence = 0
        self._items: dict[int, int] = {}  # by sequence
        self._begun: dict[int, Batch] = {}

    @property
    def last_sequence(self) -> int:
        """The last sequence that was assigned; 0 if there is none."""
        return self._last_sequence

    def open(self) -> RecoveredState:
        """Returns an empty state."""
        return RecoveredState()

    async def append(self, request: JournaledRequest, on_persisted: OnPersisted | None = None) -> int:
        """Assign the next sequence and report the request as persisted at once."""
        self._last_sequence += 1
        self._items[self._last_sequence] = request.accepted
        if on_persisted is not None:
            on_persisted(self._last_sequence)
        return self._last_sequence

    async def begin(self, batch: Batch) -> None:
        """Record the ranges of a batch in memory."""
        self._begun[batch.batch_id] = batch

    def finish(self, batch_id: int, rows: Mapping[TableDay, int]) -> None:  # noqa: ARG002 (the interface has it; row counts are not kept)
        """Drop a batch and the item counts of its requests."""
        batch = self._begun.pop(batch_id, None)
        for sequence in () if batch is None else _sequences(batch):
            self._items.pop(sequence, None)

    async def split(self, batch_id: int, parts: Sequence[Batch]) -> None:
        """Replace a batch by its parts in memory."""
        self._begun.pop(batch_id, None)
        self._begun |= {part.batch_id: part for part in parts}

    async def quarantine(self, batch: Batch, reason: str) -> int:
        """Drop the requests of a batch: they are lost, which is logged and which the caller counts. Returns 0."""
        items = sum(self._items.get(sequence, 0) for sequence in _sequences(batch))
        self._log.error("items lost", items=items, reason=reason)
        self.finish(batch.batch_id, {})
        return 0

    async def read(self, after: int, max_bytes: int, *, slow: bool | None = None) -> list[Entry]:  # noqa: ARG002 (JournalLike)
        """Always empty."""
        return []

    async def read_batch(self, batch: Batch) -> list[Entry]:  # noqa: ARG002 (JournalLike)
        """Always empty."""
        return []

    def retained_batches(self) -> Sequence[Batch]:
        """Always empty."""
        return ()

    def take_damaged(self) -> Sequence[DamagedRequests]:
        """Always empty."""
        return ()

    def pause_retention(self, *, on: bool) -> None:
        """No effect: nothing is retained."""

    async def close(self) -> None:
        """No effect: nothing is open."""


def _sequences(batch: Batch) -> Iterator[int]:
    return (sequence for first, last in batch.ranges for sequence in range(first, last + 1))
