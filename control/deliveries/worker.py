"""Deliveries that wait: looked for, claimed and sent, in every control process.

A round reads whether anything is due, which costs two look-ups in an index; only then it takes its turn to write. When
that gave nothing, for all places are taken, the next rounds read first whether it would. Where one of several processes
is gone, its leases end and the others take over what it had begun.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Final

import structlog
from aiohttp import web

from chassis.runtime.periodic import FailureLog, PeriodicTask
from control.deliveries import repository
from control.deliveries.leases import claim_due, has_work, requeue_expired
from control.deliveries.sender import Sender

POLL_S: Final = 1.0
RETRY_S: Final = 2.0  # until the next round after one that failed
CLEANUP_INTERVAL_S: Final = 3_600.0  # between two removals of what ended long ago
FINISH_TIMEOUT_S: Final = 5.0  # for attempts under way when the process ends
MIN_FREE_SLOTS: Final = (
    16  # places that are waited for before more is claimed, so that a claim is worth its transaction
)
CLAIM_DELAY_S: Final = 0.01  # likewise, from one attempt that has ended to the next claim

log = structlog.get_logger(__name__)


class Worker:
    """One per process."""

    def __init__(self, sender: Sender, *, retention_days: int = 0, poll_s: float = POLL_S) -> None:
        """`keep_days`: how long deliveries that have ended are kept; 0: for ever."""
        self._sender = sender
        self._retention = timedelta(days=retention_days)
        self._poll_s = poll_s
        self._last_claim_empty = False  # whether the last claim was
        self._failure_log = FailureLog(log, "deliveries could not be looked for")
        self._cleanup_task = PeriodicTask(
            self.cleanup,
            CLEANUP_INTERVAL_S,
            log,
            "deliveries that ended long ago could not be removed",
            run_immediately=True,
        )

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Work until the end; then finish what has begun."""
        working = asyncio.create_task(self._run())
        if self._retention:
            self._cleanup_task.start()
        yield
        working.cancel()
        await asyncio.gather(working, self._cleanup_task.close(), return_exceptions=True)
        await self._sender.finish(FINISH_TIMEOUT_S)

    async def _run(self) -> None:
        while True:
            try:
                wait = await self.poll_once()
            except Exception as error:  # noqa: BLE001  # whatever it is, there is a next round
                self._failure_log.failed(error)
                wait = RETRY_S
            else:
                self._failure_log.succeeded()
            await asyncio.sleep(wait)

    async def cleanup(self) -> None:
        """Remove what ended long ago, with pauses in which others write. Raises DatabaseUnavailable."""
        removed = await self.purge_batch()
        while removed == repository.PURGE_BATCH:
            await asyncio.sleep(self._poll_s)
            removed = await self.purge_batch()

    async def purge_batch(self) -> int:
        """Remove some of what ended long ago; how much. Raises DatabaseUnavailable."""
        async with self._sender.database.write() as connection:
            return await repository.purge_ended(connection, self._sender.now() - self._retention)

    async def poll_once(self) -> float:
        """Begin what is due; seconds until the next round. Raises DatabaseUnavailable."""
        await self._sender.wait_for_slots(MIN_FREE_SLOTS)
        sender, now = self._sender, self._sender.now()
        async with sender.database.read() as connection:
            due = await repository.next_due(connection)
            if self._last_claim_empty and due is not None and due <= now:
                self._last_claim_empty = not await has_work(connection, now, concurrency=sender.concurrency)
        sender.metrics.overdue.set(0.0 if due is None else max(0.0, (now - due).total_seconds()))
        if due is None or due > now:
            return self._poll_s if due is None else _bounded_wait_s(due - now, self._poll_s)
        if not self._last_claim_empty and await self._claim_and_start(now):
            return 0.0
        await sender.wait_for_progress(
            self._poll_s
        )  # what else is due has to wait for places, as far as there is anything
        return CLAIM_DELAY_S

    async def _claim_and_start(self, now: datetime) -> bool:
        """Whether all places of the process are taken by what was claimed."""
        sender, limit = self._sender, self._sender.free_slots
        async with sender.database.write() as connection:
            lost = await requeue_expired(connection, now)
            claimed = await claim_due(connection, now, limit=limit, concurrency=sender.concurrency, lease=sender.lease)
        self._last_claim_empty = not claimed and not lost
        for one in claimed:
            sender.start(one)
        return len(claimed) == limit


def _bounded_wait_s(wait: timedelta, most: float) -> float:
    return min(max(wait.total_seconds(), 0.0), most)
