"""Derived blocks of several batches become one insert.

Attribute keys, error occurrences and outcomes are not waited for, and a batch has few rows of each. Inserted batch by
batch they were half of all inserts, each with its fsync and its part to merge. So they wait for those of the next
batches, a little while and within a bound of memory; a block after a pause goes at once.
"""

import asyncio
from collections.abc import Sequence
from typing import Final

from gateway.batches.background import Background
from gateway.batches.insert import Sealed, joined

MAX_GATHERED_BYTES: Final = 16 * 2**20  # beyond it they are inserted at once, and batches wait for that
SHORTEST: Final = 0.02  # of the linger


class Gatherer:
    """Collects blocks by table and day, and inserts what it has now and then."""

    def __init__(self, background: Background, linger_s: float) -> None:
        self._background = background
        self._linger_s = linger_s
        self._groups: dict[tuple[str, int], list[Sealed]] = {}
        self._bytes = 0
        self._flushed_at = float("-inf")
        self._filled = asyncio.Event()
        self._due = asyncio.Event()
        self._room = asyncio.Event()
        self._room.set()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to insert."""
        self._task = asyncio.get_running_loop().create_task(self._work())

    def add(self, blocks: Sequence[Sealed]) -> None:
        """Take blocks of acknowledged requests."""
        for sealed in blocks:
            self._groups.setdefault((sealed.block.table, sealed.block.day), []).append(sealed)
            self._bytes += sealed.nbytes
        self._filled.set()
        if self._bytes > MAX_GATHERED_BYTES:
            self._due.set()
            self._room.clear()

    async def room(self) -> None:
        """Wait until more may be added: who writes batches faster than this is inserted has to go slower."""
        await self._room.wait()

    async def close(self, timeout_s: float) -> None:
        """Insert what is left, at most `timeout_s`; the background has the rest."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)
        try:
            async with asyncio.timeout(timeout_s):
                await self._flush()
        except TimeoutError:
            pass

    async def _work(self) -> None:
        while True:
            await self._filled.wait()
            try:
                async with asyncio.timeout(self._wait_s()):
                    await self._due.wait()
            except TimeoutError:
                pass
            self._filled.clear()
            self._due.clear()
            await self._flush()
            self._flushed_at = asyncio.get_running_loop().time()

    def _wait_s(self) -> float:
        since = asyncio.get_running_loop().time() - self._flushed_at
        return max(self._linger_s * SHORTEST, self._linger_s - since)

    async def _flush(self) -> None:
        blocks = [joined(group) for group in self._groups.values()]
        self._groups.clear()
        self._bytes = 0
        try:
            await self._background.insert(blocks)
        finally:
            self._room.set()
