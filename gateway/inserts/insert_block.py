"""One block, its token and its insert: the smallest step that ClickHouse sees of a batch."""

import hashlib
import secrets
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from chassis.clickhouse import StoreError
from gateway.inserts.clickhouse_health import Availability, InsertStore
from gateway.outcomes import Metrics
from proto.otlp.policy import Block
from proto.storage.tables import TABLES

_COLUMNS: Final[Mapping[str, Sequence[str]]] = {table.name: table.column_names for table in TABLES}


def new_batch_id() -> int:
    """63 random bits: unique without an agreement between gateways, and never the batch of another."""
    return secrets.randbits(63)


class InsertBlock(NamedTuple):
    """A block of a batch. Its bytes and its token never change again, so that a repeated insert is the same insert.

    `parts` are the blocks that it was joined from, if it was. `attempt` is not empty where the rows of an earlier
    insert are gone and its token is still known.
    """

    batch_id: int
    block: Block
    parts: "tuple[InsertBlock, ...]" = ()
    attempt: str = ""

    @property
    def token(self) -> str:
        """What ClickHouse tells a repetition by."""
        token = f"{self.batch_id}:{self.block.table}:{self.block.day}"
        return f"{token}:{self.attempt}" if self.attempt else token

    @property
    def nbytes(self) -> int:
        """Bytes of the block."""
        return sum(map(len, self.block.pieces))

    def with_new_token(self, attempt: str) -> "InsertBlock":
        """The same block as an insert of its own."""
        return self._replace(attempt=attempt)

    def without_parts(self) -> "InsertBlock":
        """The same insert, not to be taken apart any more."""
        return self._replace(parts=())


def merge_blocks(blocks: Sequence[InsertBlock]) -> InsertBlock:
    """Blocks of one table and day as one insert, of which ClickHouse makes one part. Its token is its own, made of
    theirs: under the token of the first, that one alone would count as a repetition of the whole.
    """
    if len(blocks) == 1:
        return blocks[0]
    pieces = [piece for sealed in blocks for piece in sealed.block.pieces]
    block = blocks[0].block._replace(rows=sum(sealed.block.rows for sealed in blocks), pieces=pieces)
    tokens = "\n".join(sealed.token for sealed in blocks)
    own_id = int.from_bytes(hashlib.blake2b(tokens.encode(), digest_size=8).digest()) >> 1
    return InsertBlock(own_id, block, tuple(blocks))


class Inserter:
    """Inserts blocks, measures it, and tells `Availability` when one is in."""

    def __init__(self, store: InsertStore, availability: Availability, metrics: Metrics) -> None:
        self._store = store
        self._availability = availability
        self._metrics = metrics
        self.inserted_blocks = Counter[str]()  # blocks, by table

    async def insert(self, insert_block: InsertBlock) -> None:
        """Insert one block once; raises what the store raises."""
        block, metrics = insert_block.block, self._metrics
        started = time.perf_counter()
        try:
            await self._store.insert(block.table, _COLUMNS[block.table], block.pieces, token=insert_block.token)
        except StoreError as error:
            metrics.insert_failures.labels(block.table, type(error).__name__).inc()
            raise
        self.inserted_blocks[block.table] += 1
        self._availability.succeeded(block.table)
        metrics.insert_seconds.labels(block.table).observe(time.perf_counter() - started)
        metrics.insert_rows.labels(block.table).observe(block.rows)
