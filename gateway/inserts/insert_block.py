"""One block with its deduplication token, and its insert: the smallest step of storing a batch."""

import hashlib
import secrets
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from chassis.clickhouse import StoreError
from gateway.inserts.gate import Gate
from gateway.inserts.insert_breaker import InsertBreaker, InsertStore
from gateway.metrics import Metrics
from proto.otlp.policy import Block
from proto.storage.tables import TABLES

_COLUMNS: Final[Mapping[str, Sequence[str]]] = {table.name: table.column_names for table in TABLES}


def new_batch_id() -> int:
    """63 random bits: unique without coordination between gateways."""
    return secrets.randbits(63)


class InsertBlock(NamedTuple):
    """A block of a batch. Its bytes and its token never change, so that a repeated insert is the same insert.

    `parts` are the blocks that a merged block consists of. `attempt` is not empty for a reinsert, where the rows of an
    earlier insert are gone and ClickHouse still knows its token.
    """

    batch_id: int
    block: Block
    parts: "tuple[InsertBlock, ...]" = ()
    attempt: str = ""

    @property
    def token(self) -> str:
        """The deduplication token: ClickHouse ignores a second insert with the same one."""
        token = f"{self.batch_id}:{self.block.table}:{self.block.day}"
        return f"{token}:{self.attempt}" if self.attempt else token

    @property
    def nbytes(self) -> int:
        """Size of the encoded block in bytes."""
        return sum(map(len, self.block.pieces))

    def with_new_token(self, attempt: str) -> "InsertBlock":
        """The same block under another token, which makes it another insert."""
        return self._replace(attempt=attempt)

    def without_parts(self) -> "InsertBlock":
        """The same insert, which can no longer be split into its parts."""
        return self._replace(parts=())


def merge_blocks(blocks: Sequence[InsertBlock]) -> InsertBlock:
    """Merge blocks of one table and day into one insert, of which ClickHouse makes one part. Its token is derived from
    all of theirs: with the token of the first block, a retry of that block alone would count as the merged insert.
    """
    if len(blocks) == 1:
        return blocks[0]
    pieces = [piece for insert_block in blocks for piece in insert_block.block.pieces]
    block = blocks[0].block._replace(rows=sum(insert_block.block.rows for insert_block in blocks), pieces=pieces)
    tokens = "\n".join(insert_block.token for insert_block in blocks)
    merged_id = int.from_bytes(hashlib.blake2b(tokens.encode(), digest_size=8).digest()) >> 1
    return InsertBlock(merged_id, block, tuple(blocks))


class Inserter:
    """Inserts blocks, records their metrics, and reports successes to `InsertBreaker`. Inserts wait while `gate` is
    closed.
    """

    def __init__(self, store: InsertStore, breaker: InsertBreaker, metrics: Metrics) -> None:
        self._store = store
        self._breaker = breaker
        self._metrics = metrics
        self.inserted_blocks = Counter[str]()  # blocks, by table
        self.gate = Gate()

    async def insert(self, insert_block: InsertBlock) -> None:
        """Insert one block once. Raises StoreError, and counts it."""
        block, metrics = insert_block.block, self._metrics
        async with self.gate:
            started = time.perf_counter()
            try:
                await self._store.insert(block.table, _COLUMNS[block.table], block.pieces, token=insert_block.token)
            except StoreError as error:
                metrics.insert_failures.labels(block.table, type(error).__name__).inc()
                raise
        self.inserted_blocks[block.table] += 1
        self._breaker.succeeded(block.table)
        metrics.insert_seconds.labels(block.table).observe(time.perf_counter() - started)
        metrics.insert_rows.labels(block.table).observe(block.rows)
