"""Deletes what inbound webhooks leave behind: old deliveries and events.

A delivery that is sent again after it was deleted is applied again: what it reports is then older than what is known.
"""

from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Final

import sqlalchemy as sa
import structlog
from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import Database
from chassis.runtime.periodic import PeriodicTask
from control.inbound.integrations import store
from control.inbound.integrations.tables import inbound_deliveries
from control.inbound.webhooks import platform_events
from control.inbound.webhooks.platform_events import EventSource
from control.inbound.webhooks.platform_events import platform_events as events

INTERVAL_S: Final = 300.0
BATCH: Final = 500  # rows in one transaction
MAX_BATCHES: Final = 2_000  # of one kind in one run
KEPT_DELIVERIES: Final = timedelta(days=30)
KEPT_EVENTS: Final = MappingProxyType(
    {
        EventSource.CHAT_A: timedelta(days=1),
        EventSource.CHAT_B: timedelta(days=1),
        EventSource.PAYMENTS: timedelta(days=30),
    }
)
MAX_DELIVERIES: Final = 10_000  # of an integration
MAX_BODIES: Final = 1_000  # of them with the body
MAX_BODY_BYTES: Final = 256 * 2**20  # of all bodies of an organization, as stored

log = structlog.get_logger(__name__)

Delete = Callable[[AsyncConnection], Awaitable[int]]


class WebhookHousekeeping:
    """One task per process."""

    def __init__(self, database: Database, *, now: Callable[[], datetime] = lambda: datetime.now(UTC)) -> None:
        self._database = database
        self._now = now
        self._periodic_task = PeriodicTask(
            self.run_once, INTERVAL_S, log, "housekeeping of webhooks failed", run_immediately=True
        )

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Run until shutdown."""
        self._periodic_task.start()
        yield
        await self._periodic_task.close()

    async def run_once(self) -> None:
        """Raises DatabaseUnavailable."""
        now = self._now()
        received = inbound_deliveries.c.received_at < now - KEPT_DELIVERIES
        await self._delete_if(
            received, lambda connection: store.delete_before(connection, now - KEPT_DELIVERIES, BATCH)
        )
        for source, kept in KEPT_EVENTS.items():
            await self._delete_events(source, now - kept)
        await self._delete_surplus()

    async def _delete_events(self, source: EventSource, before: datetime) -> None:
        old = (events.c.source == source.value) & (events.c.received_at < before)
        await self._delete_if(old, lambda connection: platform_events.delete_before(connection, source, before, BATCH))

    async def _delete_surplus(self) -> None:
        async with self._database.read() as connection:
            crowded = await store.list_crowded(connection, MAX_BODIES)
        for integration_id in crowded:
            await self._delete_older(integration_id)
            await self._drop_older_bodies(integration_id)
        async with self._database.read() as connection:
            heavy = await store.list_heavy(connection, MAX_BODY_BYTES)
        for org_id in heavy:
            await self._drop_bodies(org_id)

    async def _delete_older(self, integration_id: str) -> None:
        async with self._database.read() as connection:
            last = await store.find_last_kept(connection, integration_id, MAX_DELIVERIES)
        if last is not None:
            older = store.is_older(integration_id, last)
            await self._delete_if(older, lambda connection: store.delete_older(connection, integration_id, last, BATCH))

    async def _drop_older_bodies(self, integration_id: str) -> None:
        async with self._database.read() as connection:
            last = await store.find_last_kept(connection, integration_id, MAX_BODIES)
        if last is not None:
            older = store.is_older(integration_id, last) & inbound_deliveries.c.body.is_not(None)
            await self._delete_if(
                older, lambda connection: store.drop_older_bodies(connection, integration_id, last, BATCH)
            )

    async def _drop_bodies(self, org_id: str) -> None:
        async with self._database.read() as connection:
            last = await store.find_newest_surplus(connection, org_id, MAX_BODY_BYTES)
        if last is not None:
            await self._repeat(lambda connection: store.drop_bodies(connection, org_id, last, BATCH))

    async def _delete_if(self, where: sa.ColumnElement[bool], delete: Delete) -> None:
        """Delete in batches, unless nothing is to be deleted: then there is no write transaction."""
        async with self._database.read() as connection:
            if not await connection.scalar(sa.select(sa.exists().where(where))):
                return
        await self._repeat(delete)

    async def _repeat(self, delete: Delete) -> None:
        for _ in range(MAX_BATCHES):
            async with self._database.write() as connection:
                if await delete(connection) < BATCH:
                    return
