"""Deliveries that wait: looked for, claimed and sent, in every control process.

A round reads whether anything is due, which costs two look-ups in an index; only then it takes its turn to write. Where
one of several processes is gone, its leases end and the others take over what it had begun.
"""

import asyncio
from collections.abc import AsyncIterator
from datetime import timedelta
from typing import Final

import structlog
from aiohttp import web

from chassis.relational import DatabaseUnavailable
from control.deliveries import store
from control.deliveries.sending import PER_CHANNEL, Sender

POLL_S: Final = 1.0
AWAY_S: Final = 2.0  # until the next look at a store that was away
TIDY_S: Final = 3_600.0  # between two removals of what ended long ago
FINISH_S: Final = 5.0  # for attempts under way when the process ends
BATCH: Final = 16  # places that are waited for before more is claimed, so that a claim is worth its transaction

log = structlog.get_logger(__name__)


class Worker:
    """One per process."""

    def __init__(
        self, sender: Sender, *, keep_days: int = 0, poll_s: float = POLL_S, per_channel: int = PER_CHANNEL
    ) -> None:
        """`keep_days`: how long deliveries that have ended are kept; 0: for ever."""
        self._sender = sender
        self._keep = timedelta(days=keep_days)
        self._poll_s = poll_s
        self._per_channel = per_channel

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Work until the end; then finish what has begun."""
        tasks = [asyncio.create_task(self._work())]
        if self._keep:
            tasks.append(asyncio.create_task(self._tidy()))
        yield
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
        await self._sender.finish(FINISH_S)

    async def _work(self) -> None:
        while True:
            try:
                await asyncio.sleep(await self.round())
            except DatabaseUnavailable:
                await asyncio.sleep(AWAY_S)  # it was logged where it was raised
            except Exception:
                log.exception("deliveries could not be looked for")
                await asyncio.sleep(AWAY_S)

    async def _tidy(self) -> None:
        while True:
            try:
                removed = await self.expire()
            except DatabaseUnavailable:
                removed = 0  # it was logged where it was raised
            await asyncio.sleep(TIDY_S if removed < store.EXPIRED_AT_ONCE else self._poll_s)

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
        if due is None or due > now:
            return self._poll_s if due is None else _until(due - now, self._poll_s)
        async with sender.database.write() as connection:
            await store.reap(connection, now)
            claimed = await store.claim_due(
                connection, now, limit=sender.free, per_channel=self._per_channel, lease=sender.lease
            )
        for one in claimed:
            sender.begin(one)
        # Nothing although something is due: its channels have all their places taken.
        return 0.0 if claimed else self._poll_s


def _until(wait: timedelta, most: float) -> float:
    return min(max(wait.total_seconds(), 0.0), most)
