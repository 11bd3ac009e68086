"""A gate before inserts and before batches, which a backup closes for a moment."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Self


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
