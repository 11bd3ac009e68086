"""One block of a batch, until ClickHouse has it."""

import asyncio
import random
import secrets
from typing import Final

from chassis.clickhouse import StoreBusy, StoreError, StoreUnavailable
from gateway.batches.insert import Sealed
from gateway.conveyor.presence import COUNTED
from gateway.conveyor.sink import Sink

MAX_BACKOFF_S: Final = 0.25
PATIENCE_S: Final = 60.0  # between two looks at whether the gateway is still to wait for ClickHouse
COUNT_RETRY_S: Final = 1.0
CONFIRM_S: Final = 3.0  # before rows are believed to be gone: a replica may be behind
STUBBORN: Final = 10  # failures of one block
MEMORY_LIMIT_EXCEEDED: Final = 241  # of ClickHouse: a smaller block may fit


class Inserts:
    """Inserts blocks through the sink."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink

    async def insert(self, sealed: Sealed, *, again: bool) -> None:
        """Returns when the block is in. `again`: it may be in already, and its token may be forgotten, or be known
        though its rows are gone; so what can be counted is.

        Raises StoreRejected, and StoreUnavailable for a block that fails again and again while others get in.
        """
        counted = again and sealed.block.table in COUNTED
        if counted and await self.is_there(sealed):
            return
        await self._until_in(sealed)
        if counted and not await self._is_there_soon(sealed):
            await self._anew(sealed)

    async def refill(self, sealed: Sealed) -> bool:
        """Insert a block of which rows were missing; whether they still were."""
        if await self._is_there_soon(sealed):
            return False
        await self._anew(sealed)
        return True

    async def is_there(self, sealed: Sealed) -> bool:
        """Whether the table has a row of it."""
        place = sealed.block.table, sealed.block.day
        while True:
            try:
                return bool(await self._sink.presence.present(place, [sealed.batch_id]))
            except StoreError as error:
                self._sink.log.warning("rows cannot be counted", table=sealed.block.table, error=error.message)
                await asyncio.sleep(COUNT_RETRY_S)

    async def _is_there_soon(self, sealed: Sealed) -> bool:
        if await self.is_there(sealed):
            return True
        await asyncio.sleep(CONFIRM_S)
        return await self.is_there(sealed)

    async def _anew(self, sealed: Sealed) -> None:
        """Under a new token, for the old one is known and its rows are gone."""
        block = sealed.block
        self._sink.log.warning("a lost part is stored anew", table=block.table, day=block.day, rows=block.rows)
        await self._until_in(sealed.again(secrets.token_hex(4)))

    async def _until_in(self, sealed: Sealed) -> None:
        """Insert, again with the same token after a transient failure."""
        table, failures = sealed.block.table, 0
        others = self._sink.inserter.inserted[table]
        while True:
            if not await self._sink.availability.wait(PATIENCE_S):
                continue
            try:
                return await self._sink.inserter.insert(sealed)
            except StoreBusy:
                pass
            except StoreUnavailable as error:
                failures += 1
                self._sink.availability.failed(error, table)
                alone = self._sink.inserter.inserted[table] > others or error.code == MEMORY_LIMIT_EXCEEDED
                if failures >= STUBBORN and alone:
                    raise
            await asyncio.sleep(random.uniform(0.0, MAX_BACKOFF_S))  # noqa: S311 (jitter)
