"""The worker of every control process. It polls for due deliveries, claims them and sends them.

A poll first reads whether a delivery is due, which costs two index look-ups. Only then it opens a write transaction. If
a claim was empty because all slots were taken, the next polls first read whether a claim would find anything. When a
process stops, its leases expire and the other processes take over its deliveries.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import datetime, timedelta
from typing import Final

import structlog
from aiohttp import web

from chassis.runtime.periodic import FailureLog, PeriodicTask
from control.notify.deliveries import store
from control.notify.deliveries.leases import claim_due, has_work, requeue_expired
from control.notify.deliveries.sender import Sender

POLL_S: Final = 1.0
RETRY_S: Final = 2.0  # until the next poll after a failed one
CLEANUP_INTERVAL_S: Final = 3_600.0  # between two purges of old ended deliveries
FINISH_TIMEOUT_S: Final = 5.0  # for running attempts when the process stops
MIN_FREE_SLOTS: Final = 16  # free slots to wait for before claiming more, so that a claim is worth its transaction
CLAIM_DELAY_S: Final = 0.01  # from the end of an attempt to the next claim, for the same reason

log = structlog.get_logger(__name__)


class Worker:
    """Sends waiting deliveries. One per process."""

    def __init__(self, sender: Sender, *, retention_days: int = 0, poll_s: float = POLL_S) -> None:
        """`retention_days`: how long ended deliveries are kept, in days. 0: for ever."""
        self._sender = sender
        self._retention = timedelta(days=retention_days)
        self._poll_s = poll_s
        self._last_claim_empty = False
        self._failure_log = FailureLog(log, "polling for due deliveries failed")
        self._cleanup_task = PeriodicTask(
            self.cleanup,
            CLEANUP_INTERVAL_S,
            log,
            "deleting ended deliveries failed",
            run_immediately=True,
        )

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Run until shutdown, then finish running attempts."""
        task = asyncio.create_task(self._run())
        if self._retention:
            self._cleanup_task.start()
        yield
        task.cancel()
        await asyncio.gather(task, self._cleanup_task.close(), return_exceptions=True)
        await self._sender.finish(FINISH_TIMEOUT_S)

    async def _run(self) -> None:
        while True:
            try:
                wait = await self.poll_once()
            except Exception as error:  # noqa: BLE001  # any failure is retried at the next poll
                self._failure_log.failed(error)
                wait = RETRY_S
            else:
                self._failure_log.succeeded()
            await asyncio.sleep(wait)

    async def cleanup(self) -> None:
        """Delete old ended deliveries, in batches with pauses for other writers. Raises DatabaseUnavailable."""
        removed = await self.purge_batch()
        while removed == store.PURGE_BATCH:
            await asyncio.sleep(self._poll_s)
            removed = await self.purge_batch()

    async def purge_batch(self) -> int:
        """Delete one batch of old ended deliveries. Returns its size. Raises DatabaseUnavailable."""
        async with self._sender.database.write() as connection:
            return await store.purge_ended(connection, self._sender.now() - self._retention)

    async def poll_once(self) -> float:
        """Start the due deliveries. Returns the seconds until the next poll. Raises DatabaseUnavailable."""
        await self._sender.wait_for_slots(MIN_FREE_SLOTS)
        sender, now = self._sender, self._sender.now()
        async with sender.database.read() as connection:
            due = await store.next_due(connection)
            if self._last_claim_empty and due is not None and due <= now:
                self._last_claim_empty = not await has_work(connection, now, concurrency=sender.concurrency)
        sender.metrics.overdue.set(0.0 if due is None else max(0.0, (now - due).total_seconds()))
        if due is None or due > now:
            return self._poll_s if due is None else min(max((due - now).total_seconds(), 0.0), self._poll_s)
        if not self._last_claim_empty and await self._claim_and_start(now):
            return 0.0
        await sender.wait_for_progress(self._poll_s)  # more deliveries are due than slots are free
        return CLAIM_DELAY_S

    async def _claim_and_start(self, now: datetime) -> bool:
        """Claim and start due deliveries. Returns whether they filled all slots of the process."""
        sender, limit = self._sender, self._sender.free_slots
        async with sender.database.write() as connection:
            requeued = await requeue_expired(connection, now)
            claimed = await claim_due(connection, now, limit=limit, concurrency=sender.concurrency, lease=sender.lease)
        self._last_claim_empty = not claimed and not requeued
        for one in claimed:
            sender.start(one)
        return len(claimed) == limit
