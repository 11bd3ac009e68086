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

from chassis.rounds import Complaints, Rounds
from control.deliveries import store
from control.deliveries.claims import claim_due, is_any_left, reap
from control.deliveries.sending import Sender

POLL_S: Final = 1.0
AWAY_S: Final = 2.0  # until the next round after one that failed
TIDY_S: Final = 3_600.0  # between two removals of what ended long ago
FINISH_S: Final = 5.0  # for attempts under way when the process ends
BATCH: Final = 16  # places that are waited for before more is claimed, so that a claim is worth its transaction
GATHER_S: Final = 0.01  # likewise, from one attempt that has ended to the next claim

log = structlog.get_logger(__name__)


class Worker:
    """One per process."""

    def __init__(self, sender: Sender, *, keep_days: int = 0, poll_s: float = POLL_S) -> None:
        """`keep_days`: how long deliveries that have ended are kept; 0: for ever."""
        self._sender = sender
        self._keep = timedelta(days=keep_days)
        self._poll_s = poll_s
        self._in_vain = False  # whether the last claim was
        self._complaints = Complaints(log, "deliveries could not be looked for")
        self._tidying = Rounds(
            self.tidy, TIDY_S, log, "deliveries that ended long ago could not be removed", at_once=True
        )

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Work until the end; then finish what has begun."""
        working = asyncio.create_task(self._work())
        if self._keep:
            self._tidying.start()
        yield
        working.cancel()
        await asyncio.gather(working, self._tidying.close(), return_exceptions=True)
        await self._sender.finish(FINISH_S)

    async def _work(self) -> None:
        while True:
            try:
                wait = await self.round()
            except Exception as error:  # noqa: BLE001  # whatever it is, there is a next round
                self._complaints.failed(error)
                wait = AWAY_S
            else:
                self._complaints.succeeded()
            await asyncio.sleep(wait)

    async def tidy(self) -> None:
        """Remove what ended long ago, with pauses in which others write. Raises DatabaseUnavailable."""
        removed = await self.expire()
        while removed == store.EXPIRED_AT_ONCE:
            await asyncio.sleep(self._poll_s)
            removed = await self.expire()

    async def expire(self) -> int:
        """Remove some of what ended long ago; how much. Raises DatabaseUnavailable."""
        async with self._sender.database.write() as connection:
            return await store.expire(connection, self._sender.now() - self._keep)

    async def round(self) -> float:
        """Begin what is due; seconds until the next round. Raises DatabaseUnavailable."""
        await self._sender.room(BATCH)
        sender, now = self._sender, self._sender.now()
        async with sender.database.read() as connection:
            due = await store.next_due(connection)
            if self._in_vain and due is not None and due <= now:
                self._in_vain = not await is_any_left(connection, now, places=sender.places)
        sender.metrics.overdue.set(0.0 if due is None else max(0.0, (now - due).total_seconds()))
        if due is None or due > now:
            return self._poll_s if due is None else _until(due - now, self._poll_s)
        if not self._in_vain and await self._begin(now):
            return 0.0
        await sender.progress(self._poll_s)  # what else is due has to wait for places, as far as there is anything
        return GATHER_S

    async def _begin(self, now: datetime) -> bool:
        """Whether all places of the process are taken by what was claimed."""
        sender, limit = self._sender, self._sender.free
        async with sender.database.write() as connection:
            lost = await reap(connection, now)
            claimed = await claim_due(connection, now, limit=limit, places=sender.places, lease=sender.lease)
        self._in_vain = not claimed and not lost
        for one in claimed:
            sender.begin(one)
        return len(claimed) == limit


def _until(wait: timedelta, most: float) -> float:
    return min(max(wait.total_seconds(), 0.0), most)
