"""One block with its deduplication token, and its insert: the smallest step of storing a batch. A backup closes the
`Gate` before inserts for a moment.
"""

import asyncio
import hashlib
import secrets
import time
from collections import defaultdict
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Final, NamedTuple, Self

from chassis.clickhouse import StoreError
from gateway.inserts.store_state import InsertBreaker, InsertStore
from gateway.metrics import Metrics
from proto.otlp.policy import Block
from proto.storage.tables import TABLES


class GateBusy(Exception):
    """What was inside did not leave in time."""


class Gate:
    """Passes any number of callers (`async with gate`) while it is open. While it is closed, they wait."""

    def __init__(self) -> None:
        self._open = asyncio.Event()
        self._open.set()
        self._inside = 0
        self._empty = asyncio.Event()
        self._empty.set()
        self._closing = asyncio.Lock()

    async def __aenter__(self) -> Self:
        while not self._open.is_set():
            await self._open.wait()
        self._inside += 1
        self._empty.clear()
        return self

    async def __aexit__(self, *_error: object) -> None:
        self._inside -= 1
        if not self._inside:
            self._empty.set()

    @asynccontextmanager
    async def closed(self, timeout_s: float) -> AsyncIterator[None]:
        """Close the gate, wait until nobody is inside, and keep it closed while the block runs. Raises GateBusy after
        `timeout_s`, with the gate open again.
        """
        async with self._closing:
            self._open.clear()
            try:
                try:
                    async with asyncio.timeout(timeout_s):
                        await self._empty.wait()
                except TimeoutError as error:
                    raise GateBusy from error
                yield
            finally:
                self._open.set()


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
    def table_day(self) -> tuple[str, int]:
        """Table, and day since 1970-01-01: a batch has one block of each."""
        return self.block.table, self.block.day

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
        self.inserted_blocks = defaultdict[str, int](int)  # blocks, by table
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
