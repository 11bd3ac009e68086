"""Retries: of the insert of one block (`RetryingInserter`), of records in the journal (`JournalRecorder`), and of work
that cannot be done now (`DeferredRetry`), so that no acknowledged request waits for the next start of the process.

A block is inserted until ClickHouse has it or the deadline of its requests has passed. A failed attempt may have an
unknown result: without an answer of ClickHouse the rows may be stored, or appear later. A retry with the same token is
safe, a retry with another token is not. So until the result is known, a block is neither split nor quarantined, but
retried later (`ResultUnknown`). A batch with a deadline has no later attempt: its requests are answered 503 and sent
again, so its delivery is at least once.
"""

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Iterable, Sequence
from contextvars import Context
from typing import Final, Protocol, TypeVar

import structlog

from chassis.clickhouse import StoreBusy, StoreError, StoreRejected, StoreUnavailable
from chassis.errors import ApiError
from chassis.runtime.periodic import cancel_tasks
from gateway.inserts.blocks import InsertBlock, Inserter
from gateway.inserts.pending_requests import JournalReader
from gateway.inserts.store_state import TABLES_WITH_BATCH_ID, InsertBreaker, StoredBlockChecker
from gateway.journal import Batch, JournalLike, TableDay
from gateway.metrics import REFUSED, ItemAccounting
from proto.otlp.policy import Signal

T = TypeVar("T")

MAX_BACKOFF_S: Final = 0.25
AVAILABILITY_WAIT_S: Final = 60.0  # per wait for ClickHouse; repeated until it is available
COUNT_RETRY_S: Final = 1.0
CONFIRM_S: Final = 3.0  # before rows count as lost: a replica may be behind
MAX_FAILURES: Final = 10  # of one block
UNKNOWN_RESULT_S: Final = 300.0  # after an attempt with an unknown result: its rows do not appear later than this
MAX_REINSERTS: Final = 3  # tokens under which a lost block is reinserted
PAST_DEADLINE: Final = "ClickHouse did not become available before the deadline."
MEMORY_LIMIT_EXCEEDED: Final = 241  # error code of ClickHouse; a smaller block may fit
# Error codes that ClickHouse sends before it writes or commits, so no row of the block is stored. Access rights,
# read-only, quota, concurrent queries, memory, disk space, parts, fewer live replicas than the quorum.
_NOT_WRITTEN_CODES: Final = frozenset(
    (164, 192, 193, 194, 201, 202, MEMORY_LIMIT_EXCEEDED, 242, 243, 252, 285, 497, 516)
)

_BlockKey = tuple[int, str, int]  # batch, table, day


class ResultUnknown(StoreUnavailable):
    """The insert failed, and an earlier attempt may still have stored the block."""


class RetryingInserter:
    """Inserts blocks with retries, and counts the rows that an uncertain attempt has stored."""

    def __init__(
        self,
        inserter: Inserter,
        breaker: InsertBreaker,
        block_checker: StoredBlockChecker,
        log: structlog.stdlib.BoundLogger,
    ) -> None:
        self.breaker = breaker
        self._inserter = inserter
        self._block_checker = block_checker
        self._log = log
        # Time after which no attempt can store the block any more, by the loop's clock.
        self._unknown_until: dict[_BlockKey, float] = {}
        # Blocks that are not tried again until the result of earlier attempts is known.
        self._failed: dict[_BlockKey, StoreError] = {}

    async def insert(self, insert_block: InsertBlock, *, retried: bool, deadline: float = math.inf) -> None:
        """Returns when the block is stored. `retried`: the block may be stored already. ClickHouse may have dropped its
        token, or may know the token although the rows are lost, so rows of tables with a batch id are counted.

        Raises StoreRejected, and StoreUnavailable for a block that fails repeatedly while others succeed. In both cases
        no row of the block is stored. Raises ResultUnknown while this is not certain. Also raises StoreUnavailable when
        the `deadline` (of the loop's clock) has passed; in that case rows may be stored.
        """
        key, countable = _block_key(insert_block), insert_block.block.table in TABLES_WITH_BATCH_ID
        if retried:
            self._unknown_until.setdefault(key, self._unknown_deadline())
        try:
            if key in self._failed:
                raise self._failed[key]
            if not (retried and countable and await self.is_stored(insert_block)):
                await self._insert_until_done(insert_block, deadline)
                if retried and countable and not await self._is_stored_or_soon(insert_block):
                    await self._reinsert(insert_block)
        except StoreError as error:
            if deadline < math.inf:
                if isinstance(error, StoreRejected) and key in self._unknown_until:
                    raise ResultUnknown(error.message, error.code) from error
                raise
            await self._resolve(insert_block, error)
        finally:
            if deadline < math.inf:
                self._clear(key)
        self._clear(key)

    async def reinsert_if_missing(self, insert_block: InsertBlock) -> bool:
        """Insert a block whose rows were missing in a first check. Checks again after CONFIRM_S; returns whether they
        were still missing."""
        missing = not await self.is_stored(insert_block)
        if missing:
            await self._reinsert(insert_block)
        self._clear(_block_key(insert_block))
        return missing

    async def is_stored(self, insert_block: InsertBlock) -> bool:
        """Whether the table has a row of the block. Retries while ClickHouse cannot count."""
        while True:
            try:
                return bool(await self._block_checker.find_stored(insert_block.table_day, [insert_block.batch_id]))
            except StoreError as error:
                self._log.warning(
                    "counting stored rows failed; retrying", table=insert_block.block.table, error=error.message
                )
                await asyncio.sleep(COUNT_RETRY_S)

    async def find_stored(self, batch_id: int, table_days: Iterable[TableDay]) -> frozenset[TableDay]:
        """The blocks of a batch that are stored. Raises StoreError."""
        return frozenset([each for each in table_days if await self._block_checker.find_stored(each, [batch_id])])

    async def _resolve(self, insert_block: InsertBlock, error: StoreError) -> None:
        """After a failed insert: returns if the block is stored nevertheless, otherwise raises."""
        key = _block_key(insert_block)
        until = self._unknown_until.get(key)
        if until is None:
            raise error
        if insert_block.block.table in TABLES_WITH_BATCH_ID and await self._is_stored_or_soon(insert_block):
            return
        if asyncio.get_running_loop().time() < until:
            self._failed[key] = type(error)(error.message, error.code)  # without a traceback, which holds the block
            raise ResultUnknown(error.message, error.code) from error
        self._clear(key)
        raise error

    def _clear(self, key: _BlockKey) -> None:
        self._unknown_until.pop(key, None)
        self._failed.pop(key, None)

    async def _is_stored_or_soon(self, insert_block: InsertBlock) -> bool:
        if await self.is_stored(insert_block):
            return True
        await asyncio.sleep(CONFIRM_S)
        return await self.is_stored(insert_block)

    async def _reinsert(self, insert_block: InsertBlock) -> None:
        """Insert under another token, because ClickHouse knows the old token although the rows are lost. The sequence
        of tokens is fixed, so that a repetition in this process or the next is the same insert.
        """
        block = insert_block.block
        self._log.warning("reinserting missing rows", table=block.table, day=block.day, rows=block.rows)
        for attempt in range(1, MAX_REINSERTS + 1):
            await self._insert_until_done(insert_block.with_new_token(str(attempt)), math.inf)
            if await self._is_stored_or_soon(insert_block):
                return
        self._log.error("clickhouse acknowledged rows and stored none of them", table=block.table, day=block.day)

    async def _insert_until_done(self, insert_block: InsertBlock, deadline: float) -> None:
        """Insert, and retry with the same token after transient failures."""
        table, failures = insert_block.block.table, 0
        inserter, breaker, time = self._inserter, self.breaker, asyncio.get_running_loop().time
        before = inserter.inserted_blocks[table]
        while True:
            is_up = await breaker.wait_until_up(max(0.0, min(AVAILABILITY_WAIT_S, deadline - time())))
            if time() >= deadline:  # its requests were answered
                raise StoreUnavailable(PAST_DEADLINE)
            if not is_up:
                continue
            try:
                return await inserter.insert(insert_block)
            except StoreBusy:
                if time() >= deadline:
                    raise
            except Exception as error:
                self._note_failure(insert_block, error)
                if not isinstance(error, StoreUnavailable):
                    raise
                failures += 1
                breaker.failed(error, table)
                alone = inserter.inserted_blocks[table] > before or error.code == MEMORY_LIMIT_EXCEEDED
                if time() >= deadline:
                    raise
                # A block with a deadline gets no later attempt that could count what an uncertain attempt has stored,
                # so it keeps its token until the deadline.
                certain = deadline == math.inf or _block_key(insert_block) not in self._unknown_until
                if failures >= MAX_FAILURES and alone and certain:
                    raise
            await asyncio.sleep(random.uniform(0.0, MAX_BACKOFF_S))  # noqa: S311 (jitter)

    def _note_failure(self, insert_block: InsertBlock, error: Exception) -> None:
        """Note that the result of an attempt is unknown, unless its error says that nothing was written."""
        not_written = isinstance(error, StoreUnavailable) and error.code in _NOT_WRITTEN_CODES
        if not (not_written or isinstance(error, StoreRejected)):
            self._unknown_until[_block_key(insert_block)] = self._unknown_deadline()

    def _unknown_deadline(self) -> float:
        return asyncio.get_running_loop().time() + UNKNOWN_RESULT_S


def _block_key(insert_block: InsertBlock) -> _BlockKey:
    return insert_block.batch_id, insert_block.block.table, insert_block.block.day


RECORD_TRIES: Final = 30
RECORD_RETRY_S: Final = 1.0


class JournalRecorder:
    """Records batches in a journal. Retries for half a minute, in case a full disk or memory is freed; then raises."""

    def __init__(self, journal: JournalLike, reader: JournalReader, accounting: ItemAccounting) -> None:
        self._journal = journal
        self._reader = reader
        self._accounting = accounting

    async def begin(self, batch: Batch) -> None:
        """Record a batch before any block of it is sent."""
        await self._retry(lambda: self._journal.begin(batch))

    async def split(self, batch_id: int, parts: Sequence[Batch]) -> None:
        """Record that `parts` replace a batch."""
        await self._retry(lambda: self._journal.split(batch_id, parts))

    async def quarantine(self, batch: Batch, reason: str, signal: Signal, items: int) -> None:
        """Quarantine the only request of a batch, and count its items; without a journal they are lost."""
        quarantined = await self._retry(lambda: self._journal.quarantine(batch, reason))
        if not self._journal.durable:
            self._accounting.lost(signal, items, REFUSED)
        elif quarantined:
            self._accounting.quarantined(signal, items)
        else:  # the request can no longer be read
            self._reader.count_damaged()

    async def _retry(self, record: Callable[[], Awaitable[T]]) -> T:
        for _ in range(RECORD_TRIES):
            try:
                return await record()
            except (ApiError, OSError, MemoryError):
                await asyncio.sleep(RECORD_RETRY_S)
        return await record()


PAUSE_S: Final = 15.0
DEFERRED_EVENT: Final = "storing acknowledged requests failed; retrying"


class RetryableWork(Protocol):
    """Work that may be repeated. `retried`: it was tried before, and a part of it may be done."""

    def __call__(self, *, retried: bool) -> Awaitable[None]: ...


class DeferredRetry:
    """Retries failed work every PAUSE_S: `in_background` in a task for each, where waiting takes no memory; otherwise
    while the caller waits.
    """

    def __init__(self, log: structlog.stdlib.BoundLogger, *, in_background: bool) -> None:
        self._log = log
        self._in_background = in_background
        self._tasks: set[asyncio.Task[None]] = set()

    @property
    def waiting(self) -> int:
        """How many pieces of work wait for a retry in the background."""
        return len(self._tasks)

    async def attempt(self, work: RetryableWork) -> None:
        """Do `work`; returns when it is done or deferred to the background. Raises nothing."""
        try:
            await work(retried=False)
        except Exception as error:  # noqa: BLE001 (whatever it is, the work is retried)
            self.log_failure(error)
        else:
            return
        await self.defer(work)  # not in the `except` block: the traceback of the error holds the work's data

    async def defer(self, work: RetryableWork) -> None:
        """Retry `work`, whose failure is logged; returns when it is done or deferred to the background. Raises
        nothing. Call it where no exception is being handled.
        """
        if not self._in_background:
            await self._until_done(work)
            return
        task = asyncio.get_running_loop().create_task(self._until_done(work), context=Context())
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def close(self) -> None:
        """Cancel deferred work; the next start does it."""
        await cancel_tasks(*self._tasks)

    async def _until_done(self, work: RetryableWork) -> None:
        while True:
            await asyncio.sleep(PAUSE_S)
            try:
                return await work(retried=True)
            except Exception as error:  # noqa: BLE001 (as above)
                self.log_failure(error)

    def log_failure(self, error: Exception) -> None:
        """Log why work has failed; it will be retried."""
        if isinstance(error, StoreError):  # expected, so without a traceback
            self._log.warning(DEFERRED_EVENT, pause_s=PAUSE_S, error=error.message, code=error.code)
        else:
            self._log.error(DEFERRED_EVENT, pause_s=PAUSE_S, exc_info=error)
