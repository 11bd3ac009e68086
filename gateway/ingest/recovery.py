"""Completes batches that an earlier process began, and restores rows that ClickHouse lost.

A batch whose boundaries are on disk is rebuilt from its requests: the same blocks under the same tokens (attribute keys
may differ), so blocks that were stored are not stored twice. Several batches are rebuilt at a time, the newest first,
because users mostly look at new data. `RecoveryProgress` reports how many batches are left.

A finished batch is checked as long as its requests are held: after every start, and when ClickHouse becomes available
again or has restarted, because it may have lost parts that it had acknowledged. Until a check has completed, the
journal removes no request because of its age.
"""

import asyncio
import time
from collections import deque
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from types import TracebackType
from typing import Final, Self

import structlog
from prometheus_client import Gauge

from chassis.clickhouse import StoreError
from gateway.inserts import retries
from gateway.inserts.batch_writer import BatchWriter
from gateway.inserts.pending_requests import JournalReader
from gateway.inserts.store_state import InsertBreaker, StoredBlockChecker
from gateway.journal import Batch, JournalLike, RecoveredState, TableDay
from proto.otlp.policy import NANOS_PER_DAY

LOG_INTERVAL_S: Final = 10.0  # between two log lines


class RecoveryProgress:
    """Unfinished batches of one journal, counted down while they are completed. Several journals may recover at once,
    so the metric is changed by differences.
    """

    def __init__(self, gauge: Gauge, log: structlog.stdlib.BoundLogger, batches: int) -> None:
        self._gauge = gauge
        self._log = log
        self._batches = self._remaining = batches
        self._started_at = self._logged_at = time.monotonic()

    def __enter__(self) -> Self:
        self._gauge.inc(self._remaining)
        self._log.info("recovery started", batches_total=self._batches, batches_left=self._remaining)
        return self

    def completed(self) -> None:
        """Count a batch that is stored or deferred; logs at most every LOG_INTERVAL_S."""
        self._remaining -= 1
        self._gauge.dec()
        now = time.monotonic()
        if self._remaining and now - self._logged_at >= LOG_INTERVAL_S:
            self._logged_at = now
            self._log.info("recovery in progress", batches_total=self._batches, batches_left=self._remaining)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._gauge.dec(self._remaining)
        if not self._remaining:
            seconds = round(time.monotonic() - self._started_at, 3)
            self._log.info("recovery finished", batches_total=self._batches, batches_left=0, seconds=seconds)


RETRY_S: Final = 5.0


class Recovery:
    """Recovery of one journal. Missing rows that are older than `retention_days` (0: no limit) count as expired, not as
    lost. At most `max_concurrent` batches are completed or reinserted at a time.
    """

    def __init__(
        self,
        journal: JournalLike,
        reader: JournalReader,
        writer: BatchWriter,
        block_checker: StoredBlockChecker,
        breaker: InsertBreaker,
        deleted_projects: Container[int],
        gauge: Gauge,
        clock: Callable[[], int],
        log: structlog.stdlib.BoundLogger,
        *,
        retention_days: int,
        max_concurrent: int,
    ) -> None:
        """`gauge` has the batches that are not completed yet; `clock` gives nanoseconds since 1970."""
        self._journal = journal
        self._reader = reader
        self._writer = writer
        self._block_checker = block_checker
        self._breaker = breaker
        self._deleted_projects = deleted_projects
        self._gauge = gauge
        self._clock = clock
        self._log = log
        self._retention_days = retention_days
        self._max_concurrent = max_concurrent
        self._check_due = asyncio.Event()
        self._needs_check = True  # ClickHouse may have lost rows, and no check has completed since
        self.is_idle = False  # every batch is completed, and no check is due

    async def run(self, recovered: RecoveredState) -> None:
        """Complete the batches that were begun; then check the finished ones, now and after every possible loss."""
        self._check_due.set()
        await self._complete_all(recovered.unfinished)
        while True:
            self.is_idle = not self._check_due.is_set()
            await self._check_due.wait()
            self.is_idle = False
            self._check_due.clear()
            if not await self._check():
                await asyncio.sleep(RETRY_S)
                self._check_due.set()
            if not self._check_due.is_set():
                self._needs_check = False
                self._resume_retention()

    def on_down(self) -> None:
        """ClickHouse is unavailable, so no check is possible: pause retention."""
        self._journal.pause_retention(on=True)

    def on_up(self, *, lost: bool) -> None:
        """ClickHouse is available again: check for lost rows (`lost`), or resume retention."""
        if lost:
            self._journal.pause_retention(on=True)
            self._needs_check = True
            self._check_due.set()
        self._resume_retention()

    def _resume_retention(self) -> None:
        if not self._needs_check and self._breaker.is_up:
            self._journal.pause_retention(on=False)

    async def _complete_all(self, batches: Sequence[Batch]) -> None:
        if batches:
            newest_first = sorted(batches, key=lambda batch: (batch.made_ms, batch.ranges[-1]), reverse=True)
            await self._run_all(newest_first, self._complete)

    async def _run_all(self, batches: Sequence[Batch], work: Callable[[Batch], Awaitable[None]]) -> None:
        """Do `work` for each batch in order, several at a time."""
        waiting = deque(batches)

        async def work_on_next() -> None:
            while waiting:
                await work(waiting.popleft())
                progress.completed()

        with RecoveryProgress(self._gauge, self._log, len(batches)) as progress:
            async with asyncio.TaskGroup() as workers:
                for _ in range(min(self._max_concurrent, len(batches))):
                    workers.create_task(work_on_next())

    async def _complete(self, batch: Batch) -> None:
        while True:
            try:
                good, bad, _ = await self._reader.read_batch(batch)
            except Exception:  # noqa: BLE001 (out of memory or threads: no fault of the batch)
                self._log.exception("a batch cannot be rebuilt; retrying", batch=batch.batch_id)
                await asyncio.sleep(RETRY_S)
                continue
            for request in good:
                self._reader.count_recovered(request.sequence, request.signal, request.items)
            for entry, _ in bad:
                self._reader.count_recovered(entry.sequence, entry.request.signal, entry.request.accepted)
            if bad:
                await self._writer.split_off_undecodable(batch, good, bad)
            elif good:
                await self._writer.store(batch, good, retried=True)
            return

    async def _check(self) -> bool:
        """Reinsert the missing rows of finished batches; returns whether all rows are stored afterwards. Missing rows
        of deleted projects are ignored.
        """
        retained = self._journal.retained_batches()
        missing = await self._find_missing(retained)
        if not missing:
            return True
        # One wait for all batches: after a restore from a backup many may lack rows.
        await asyncio.sleep(retries.CONFIRM_S)
        missing = await self._find_missing([batch for batch in retained if batch.batch_id in missing])
        batches = [batch for batch in retained if batch.batch_id in missing]
        return not batches or await self._reinsert_all(batches, missing)

    async def _reinsert_all(self, batches: Sequence[Batch], missing: Mapping[int, set[TableDay]]) -> bool:
        """Reinsert the missing rows of these batches, several at a time; returns whether none failed."""
        failed = False

        async def reinsert(batch: Batch) -> None:
            nonlocal failed
            try:
                await self._reinsert_missing(batch, missing[batch.batch_id])
            except Exception:  # noqa: BLE001 (the other batches do not wait for this one)
                self._log.exception("reinserting missing rows failed; retrying", batch=batch.batch_id)
                failed = True

        await self._run_all(batches, reinsert)
        return not failed

    async def _reinsert_missing(self, batch: Batch, table_days: set[TableDay]) -> None:
        good = (await self._reader.read_batch(batch)).good
        if all(request.decoded.project_id in self._deleted_projects for request in good):
            return
        # If rows of other projects are missing, rows of deleted projects are reinserted with them, so that rows keep
        # their numbers. Erasures delete them again.
        reinserted = await self._writer.reinsert(batch, good, table_days)
        if reinserted:
            self._log.error(
                "missing rows were reinserted; run `sluice repair` to rebuild the rows derived from them",
                table_days=sorted(reinserted),
            )

    async def _find_missing(self, retained: Sequence[Batch]) -> Mapping[int, set[TableDay]]:
        while True:
            try:
                return await self._block_checker.find_missing(retained, self._oldest_day())
            except Exception as error:  # noqa: BLE001 (whatever it is, nothing is removed before the check)
                reason = error.message if isinstance(error, StoreError) else repr(error)
                self._log.warning("checking batches for missing rows failed; retrying", error=reason)
                await asyncio.sleep(RETRY_S)

    def _oldest_day(self) -> int:
        if not self._retention_days:
            return 0
        return self._clock() // NANOS_PER_DAY - self._retention_days + 1
