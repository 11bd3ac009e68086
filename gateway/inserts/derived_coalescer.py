"""Merges derived blocks of several batches into one insert.

No request waits for attribute keys, error occurrences and outcomes, and a batch has few rows of each. Inserted batch by
batch they were half of all inserts, each with its fsync and its part to merge. So they wait for those of the next
batches, for a short time and within a bound of memory; a block after a pause is inserted at once.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from gateway.inserts.derived_retry_queue import BlockRetryQueue
from gateway.inserts.insert_block import InsertBlock, merge_blocks

MAX_COALESCED_BYTES: Final = 16 * 2**20  # beyond it blocks are inserted at once, and batches wait for that
MIN_LINGER_FRACTION: Final = 0.02  # of the linger


class DerivedCoalescer:
    """Collects blocks by table and day, and inserts them about every `linger_s`."""

    def __init__(self, retry_queue: BlockRetryQueue, linger_s: float) -> None:
        self._retry_queue = retry_queue
        self._linger_s = linger_s
        self._groups: dict[tuple[str, int], list[InsertBlock]] = {}
        self._bytes = 0
        self._flushed_at = float("-inf")
        self._filled = asyncio.Event()
        self._due = asyncio.Event()
        self._has_capacity = asyncio.Event()
        self._has_capacity.set()
        self._task: asyncio.Task[None] | None = None
        self._flushing = asyncio.Lock()

    def start(self) -> None:
        """Start the task that inserts."""
        self._task = asyncio.get_running_loop().create_task(self._run())

    def add(self, blocks: Sequence[InsertBlock]) -> None:
        """Add blocks of acknowledged requests."""
        for insert_block in blocks:
            self._groups.setdefault((insert_block.block.table, insert_block.block.day), []).append(insert_block)
            self._bytes += insert_block.nbytes
        self._filled.set()
        if self._bytes > MAX_COALESCED_BYTES:
            self._due.set()
            self._has_capacity.clear()

    async def wait_for_capacity(self) -> None:
        """Wait until blocks may be added: back-pressure on batches that are written faster than derived rows."""
        await self._has_capacity.wait()

    async def flush(self) -> None:
        """Insert all blocks that were added before this call; returns when each is stored or in the retry queue."""
        async with self._flushing:
            await self._flush()

    async def close(self, timeout_s: float) -> None:
        """Insert the remaining blocks, at most `timeout_s`; the rest is left to the retry queue."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            async with asyncio.timeout(timeout_s):
                await self.flush()
        except TimeoutError:
            pass

    async def _run(self) -> None:
        while True:
            await self._filled.wait()
            try:
                async with asyncio.timeout(self._wait_s()):
                    await self._due.wait()
            except TimeoutError:
                pass
            self._filled.clear()
            self._due.clear()
            await self.flush()
            self._flushed_at = asyncio.get_running_loop().time()

    def _wait_s(self) -> float:
        since = asyncio.get_running_loop().time() - self._flushed_at
        return max(self._linger_s * MIN_LINGER_FRACTION, self._linger_s - since)

    async def _flush(self) -> None:
        groups = list(self._groups.values())
        self._groups.clear()
        self._bytes = 0
        try:
            blocks = [merge_blocks(group) for group in groups]
            await self._retry_queue.insert(blocks)
        finally:
            self._has_capacity.set()
