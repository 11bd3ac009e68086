"""A journal that keeps nothing: what its users hold in memory is all there is. For the mode `memory`, and for tests."""

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
    """Gives sequences, and remembers of a request only how many items it had, until its batch is finished."""

    durable = False

    def __init__(self, log: structlog.stdlib.BoundLogger) -> None:
        self._log = log
        self._last_sequence = 0
        self._items: dict[int, int] = {}  # by sequence
        self._begun: dict[int, Batch] = {}

    @property
    def last_sequence(self) -> int:
        """The last sequence that was given."""
        return self._last_sequence

    def open(self) -> RecoveredState:
        """Nobody left anything."""
        return RecoveredState()

    async def append(self, request: JournaledRequest, on_persisted: OnPersisted | None = None) -> int:
        """Give the next sequence."""
        self._last_sequence += 1
        self._items[self._last_sequence] = request.accepted
        if on_persisted is not None:
            on_persisted(self._last_sequence)
        return self._last_sequence

    async def begin(self, batch: Batch) -> None:
        """Remember which requests it is about."""
        self._begun[batch.batch_id] = batch

    def finish(self, batch_id: int, rows: Mapping[TableDay, int]) -> None:  # noqa: ARG002 (nobody asks for them later)
        """Forget its requests."""
        batch = self._begun.pop(batch_id, None)
        for sequence in () if batch is None else _sequences(batch):
            self._items.pop(sequence, None)

    async def split(self, batch_id: int, parts: Sequence[Batch]) -> None:
        """Remember the parts instead."""
        self._begun.pop(batch_id, None)
        self._begun |= {part.batch_id: part for part in parts}

    async def quarantine(self, batch: Batch, reason: str) -> int:
        """There is no place where they could be put: they are lost, which its user counts. 0."""
        items = sum(self._items.get(sequence, 0) for sequence in _sequences(batch))
        self._log.error("items lost", items=items, reason=reason)
        self.finish(batch.batch_id, {})
        return 0

    async def read(self, after: int, max_bytes: int, *, slow: bool | None = None) -> list[Entry]:  # noqa: ARG002 (Log)
        """Nothing is kept."""
        return []

    async def read_batch(self, batch: Batch) -> list[Entry]:  # noqa: ARG002 (Log)
        """Nothing is kept."""
        return []

    def retained_batches(self) -> Sequence[Batch]:
        """Nothing is kept."""
        return ()

    def take_damaged(self) -> Sequence[DamagedRequests]:
        """Nothing is kept."""
        return ()

    def pause_retention(self, *, on: bool) -> None:
        """Nothing is kept."""

    async def close(self) -> None:
        """Nothing is open."""


def _sequences(batch: Batch) -> Iterator[int]:
    return (sequence for first, last in batch.ranges for sequence in range(first, last + 1))
