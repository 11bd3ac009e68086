"""One block of a batch, until ClickHouse has it.

An attempt that failed may have an open outcome: ClickHouse did not say that it took nothing, so the rows may be in, or
come in while we do something else. Under the same token that is harmless. Under another it is not: until the outcome is
known a block is neither taken apart nor set aside, but left to a later attempt (`Undecided`).
"""

import asyncio
import random
from typing import Final

from chassis.clickhouse import StoreBusy, StoreError, StoreRejected, StoreUnavailable
from gateway.batches.insert import Sealed
from gateway.conveyor.presence import COUNTED
from gateway.conveyor.sink import Sink

MAX_BACKOFF_S: Final = 0.25
PATIENCE_S: Final = 60.0  # between two looks at whether the gateway is still to wait for ClickHouse
COUNT_RETRY_S: Final = 1.0
CONFIRM_S: Final = 3.0  # before rows are believed to be gone: a replica may be behind
STUBBORN: Final = 10  # failures of one block
OPEN_S: Final = 300.0  # after an attempt with an open outcome no rows of it come in any more
ANEW: Final = 3  # tokens under which a lost block is tried
MEMORY_LIMIT_EXCEEDED: Final = 241  # of ClickHouse: a smaller block may fit
# By these ClickHouse says before it writes, or before what it wrote counts, that nothing of a block is in: rights,
# read-only, quota, queries at once, memory, room on the disk, parts, fewer live replicas than the quorum.
_CLOSED: Final = frozenset((164, 192, 193, 194, 201, 202, MEMORY_LIMIT_EXCEEDED, 242, 243, 252, 285, 497, 516))

_Block = tuple[int, str, int]  # batch, table, day


class Undecided(StoreUnavailable):
    """The block fails, and an earlier attempt may yet have stored it."""


class Inserts:
    """Inserts blocks through the sink."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._open: dict[_Block, float] = {}  # until when an attempt may still store it, by the loop's clock
        self._given_up: dict[_Block, StoreError] = {}  # no more attempts, until it is certain what became of the others

    async def insert(self, sealed: Sealed, *, again: bool) -> None:
        """Returns when the block is in. `again`: it may be in already, and its token may be forgotten, or be known
        though its rows are gone; so what can be counted is.

        Raises StoreRejected, and StoreUnavailable for a block that fails again and again while others get in: then
        nothing of it is in. Raises Undecided while that is not certain.
        """
        block, counted = _key(sealed), sealed.block.table in COUNTED
        if again:
            self._open.setdefault(block, self._open_until())
        try:
            if block in self._given_up:
                raise self._given_up[block]
            if not (again and counted and await self.is_there(sealed)):
                await self._until_in(sealed)
                if again and counted and not await self._is_there_soon(sealed):
                    await self._anew(sealed)
        except StoreError as error:
            await self._decide(sealed, error)
        self._forget(block)

    async def refill(self, sealed: Sealed) -> bool:
        """Insert a block of which rows were missing; whether they still were."""
        gone = not await self._is_there_soon(sealed)
        if gone:
            await self._anew(sealed)
        self._forget(_key(sealed))
        return gone

    async def is_there(self, sealed: Sealed) -> bool:
        """Whether the table has a row of it."""
        place = sealed.block.table, sealed.block.day
        while True:
            try:
                return bool(await self._sink.presence.present(place, [sealed.batch_id]))
            except StoreError as error:
                self._sink.log.warning("rows cannot be counted", table=sealed.block.table, error=error.message)
                await asyncio.sleep(COUNT_RETRY_S)

    async def _decide(self, sealed: Sealed, error: StoreError) -> None:
        """An insert failed: returns if the block is in nevertheless, else raises."""
        block = _key(sealed)
        until = self._open.get(block)
        if until is None:
            raise error
        if sealed.block.table in COUNTED and await self._is_there_soon(sealed):
            return
        if asyncio.get_running_loop().time() < until:
            self._given_up[block] = error
            raise Undecided(error.message, error.code) from error
        self._forget(block)
        raise error

    def _forget(self, block: _Block) -> None:
        self._open.pop(block, None)
        self._given_up.pop(block, None)

    async def _is_there_soon(self, sealed: Sealed) -> bool:
        if await self.is_there(sealed):
            return True
        await asyncio.sleep(CONFIRM_S)
        return await self.is_there(sealed)

    async def _anew(self, sealed: Sealed) -> None:
        """Under another token, for the old one is known and its rows are gone. Always the same ones in turn: what is
        done twice, by this process or the next, is one insert.
        """
        block = sealed.block
        self._sink.log.warning("a lost part is stored anew", table=block.table, day=block.day, rows=block.rows)
        for attempt in range(1, ANEW + 1):
            await self._until_in(sealed.again(str(attempt)))
            if await self._is_there_soon(sealed):
                return
        self._sink.log.error("ClickHouse took rows and has none of them", table=block.table, day=block.day)

    async def _until_in(self, sealed: Sealed) -> None:
        """Insert, again with the same token after a transient failure."""
        table, failures = sealed.block.table, 0
        others = self._sink.inserter.inserted[table]
        while True:
            if not await self._sink.availability.wait(PATIENCE_S):
                continue
            try:
                return await self._attempt(sealed)
            except StoreBusy:
                pass
            except StoreUnavailable as error:
                failures += 1
                self._sink.availability.failed(error, table)
                alone = self._sink.inserter.inserted[table] > others or error.code == MEMORY_LIMIT_EXCEEDED
                if failures >= STUBBORN and alone:
                    raise
            await asyncio.sleep(random.uniform(0.0, MAX_BACKOFF_S))  # noqa: S311 (jitter)

    async def _attempt(self, sealed: Sealed) -> None:
        try:
            await self._sink.inserter.insert(sealed)
        except (StoreBusy, StoreRejected):
            raise
        except Exception as error:
            if not (isinstance(error, StoreUnavailable) and error.code in _CLOSED):
                self._open[_key(sealed)] = self._open_until()
            raise

    def _open_until(self) -> float:
        return asyncio.get_running_loop().time() + OPEN_S


def _key(sealed: Sealed) -> _Block:
    return sealed.batch_id, sealed.block.table, sealed.block.day
