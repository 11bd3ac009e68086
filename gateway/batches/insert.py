"""One block, its token and its insert: the smallest step that ClickHouse sees of a batch."""

import secrets
import time
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from chassis.clickhouse import StoreError
from gateway.batches.availability import Availability, Store
from gateway.outcomes import Metrics
from proto.otlp.policy import Block
from proto.storage.tables import TABLES

_COLUMNS: Final[Mapping[str, Sequence[str]]] = {table.name: table.column_names for table in TABLES}


def new_batch_id() -> int:
    """63 random bits: unique without an agreement between gateways, and never the batch of another."""
    return secrets.randbits(63)


class Sealed(NamedTuple):
    """A block of a batch. Its bytes and its token never change again, so that a repeated insert is the same insert."""

    batch_id: int
    block: Block

    @property
    def token(self) -> str:
        """What ClickHouse tells a repetition by."""
        return f"{self.batch_id}:{self.block.table}:{self.block.day}"

    @property
    def nbytes(self) -> int:
        """Bytes of the block."""
        return sum(map(len, self.block.pieces))


class Inserter:
    """Inserts blocks, measures it, and tells `Availability` when one is in."""

    def __init__(self, store: Store, availability: Availability, metrics: Metrics) -> None:
        self._store = store
        self._availability = availability
        self._metrics = metrics

    async def insert(self, sealed: Sealed) -> None:
        """Insert one block once; raises what the store raises."""
        block, metrics = sealed.block, self._metrics
        started = time.perf_counter()
        try:
            await self._store.insert(block.table, _COLUMNS[block.table], block.pieces, token=sealed.token)
        except StoreError as error:
            metrics.insert_failures.labels(block.table, type(error).__name__).inc()
            raise
        self._availability.succeeded()
        metrics.insert_seconds.labels(block.table).observe(time.perf_counter() - started)
        metrics.insert_rows.labels(block.table).observe(block.rows)
