"""One block of a batch, until ClickHouse has it.

An attempt that failed may have an open outcome: ClickHouse did not say that it took nothing, so the rows may be in, or
come in while we do something else. Under the same token that is harmless. Under another it is not: until the outcome is
known a block is neither taken apart nor set aside, but left to a later attempt (`Undecided`).
"""

import asyncio
import random
from typing import Final

from chassis.clickhouse import StoreBusy, StoreError, StoreRejected, StoreUnavailable
from gateway.inserts.insert_block import InsertBlock
from gateway.inserts.insert_context import InsertContext
from gateway.inserts.stored_block_checker import TABLES_WITH_BATCH_ID

MAX_BACKOFF_S: Final = 0.25
AVAILABILITY_WAIT_S: Final = 60.0  # between two looks at whether the gateway is still to wait for ClickHouse
COUNT_RETRY_S: Final = 1.0
CONFIRM_S: Final = 3.0  # before rows are believed to be gone: a replica may be behind
MAX_FAILURES: Final = 10  # failures of one block
UNKNOWN_OUTCOME_S: Final = 300.0  # after an attempt with an open outcome no rows of it come in any more
MAX_REINSERTS: Final = 3  # tokens under which a lost block is tried
MEMORY_LIMIT_EXCEEDED: Final = 241  # of ClickHouse: a smaller block may fit
# By these ClickHouse says before it writes, or before what it wrote counts, that nothing of a block is in: rights,
# read-only, quota, queries at once, memory, room on the disk, parts, fewer live replicas than the quorum.
_NOT_WRITTEN_CODES: Final = frozenset(
    (164, 192, 193, 194, 201, 202, MEMORY_LIMIT_EXCEEDED, 242, 243, 252, 285, 497, 516)
)

_BlockKey = tuple[int, str, int]  # batch, table, day


class OutcomeUnknown(StoreUnavailable):
    """The block fails, and an earlier attempt may yet have stored it."""


class RetryingInserter:
    """Inserts blocks through the sink."""

    def __init__(self, context: InsertContext) -> None:
        self._context = context
        self._unknown_until: dict[
            _BlockKey, float
        ] = {}  # until when an attempt may still store it, by the loop's clock
        self._failed: dict[
            _BlockKey, StoreError
        ] = {}  # no more attempts, until it is certain what became of the others

    async def insert(self, insert_block: InsertBlock, *, again: bool) -> None:
        """Returns when the block is in. `again`: it may be in already, and its token may be forgotten, or be known
        though its rows are gone; so what can be counted is.

        Raises StoreRejected, and StoreUnavailable for a block that fails again and again while others get in: then
        nothing of it is in. Raises Undecided while that is not certain.
        """
        block, counted = _block_key(insert_block), insert_block.block.table in TABLES_WITH_BATCH_ID
        if again:
            self._unknown_until.setdefault(block, self._unknown_deadline())
        try:
            if block in self._failed:
                raise self._failed[block]
            if not (again and counted and await self.is_stored(insert_block)):
                await self._insert_until_done(insert_block)
                if again and counted and not await self._is_stored_or_soon(insert_block):
                    await self._reinsert(insert_block)
        except StoreError as error:
            await self._resolve(insert_block, error)
        self._clear(block)

    async def reinsert_if_missing(self, insert_block: InsertBlock) -> bool:
        """Insert a block of which rows were missing; whether they still were."""
        gone = not await self._is_stored_or_soon(insert_block)
        if gone:
            await self._reinsert(insert_block)
        self._clear(_block_key(insert_block))
        return gone

    async def is_stored(self, insert_block: InsertBlock) -> bool:
        """Whether the table has a row of it."""
        place = insert_block.block.table, insert_block.block.day
        while True:
            try:
                return bool(await self._context.block_checker.find_stored(place, [insert_block.batch_id]))
            except StoreError as error:
                self._context.log.warning("rows cannot be counted", table=insert_block.block.table, error=error.message)
                await asyncio.sleep(COUNT_RETRY_S)

    async def _resolve(self, sealed: InsertBlock, error: StoreError) -> None:
        """An insert failed: returns if the block is in nevertheless, else raises."""
        block = _block_key(sealed)
        until = self._unknown_until.get(block)
        if until is None:
            raise error
        if sealed.block.table in TABLES_WITH_BATCH_ID and await self._is_stored_or_soon(sealed):
            return
        if asyncio.get_running_loop().time() < until:
            self._failed[block] = error
            raise OutcomeUnknown(error.message, error.code) from error
        self._clear(block)
        raise error

    def _clear(self, block: _BlockKey) -> None:
        self._unknown_until.pop(block, None)
        self._failed.pop(block, None)

    async def _is_stored_or_soon(self, sealed: InsertBlock) -> bool:
        if await self.is_stored(sealed):
            return True
        await asyncio.sleep(CONFIRM_S)
        return await self.is_stored(sealed)

    async def _reinsert(self, sealed: InsertBlock) -> None:
        """Under another token, for the old one is known and its rows are gone. Always the same ones in turn: what is
        done twice, by this process or the next, is one insert.
        """
        block = sealed.block
        self._context.log.warning("a lost part is stored anew", table=block.table, day=block.day, rows=block.rows)
        for attempt in range(1, MAX_REINSERTS + 1):
            await self._insert_until_done(sealed.with_new_token(str(attempt)))
            if await self._is_stored_or_soon(sealed):
                return
        self._context.log.error("ClickHouse took rows and has none of them", table=block.table, day=block.day)

    async def _insert_until_done(self, sealed: InsertBlock) -> None:
        """Insert, again with the same token after a transient failure."""
        table, failures = sealed.block.table, 0
        others = self._context.inserter.inserted_blocks[table]
        while True:
            if not await self._context.availability.wait_until_up(AVAILABILITY_WAIT_S):
                continue
            try:
                return await self._attempt(sealed)
            except StoreBusy:
                pass
            except StoreUnavailable as error:
                failures += 1
                self._context.availability.failed(error, table)
                alone = self._context.inserter.inserted_blocks[table] > others or error.code == MEMORY_LIMIT_EXCEEDED
                if failures >= MAX_FAILURES and alone:
                    raise
            await asyncio.sleep(random.uniform(0.0, MAX_BACKOFF_S))  # noqa: S311 (jitter)

    async def _attempt(self, sealed: InsertBlock) -> None:
        try:
            await self._context.inserter.insert(sealed)
        except (StoreBusy, StoreRejected):
            raise
        except Exception as error:
            if not (isinstance(error, StoreUnavailable) and error.code in _NOT_WRITTEN_CODES):
                self._unknown_until[_block_key(sealed)] = self._unknown_deadline()
            raise

    def _unknown_deadline(self) -> float:
        return asyncio.get_running_loop().time() + UNKNOWN_OUTCOME_S


def _block_key(sealed: InsertBlock) -> _BlockKey:
    return sealed.batch_id, sealed.block.table, sealed.block.day
