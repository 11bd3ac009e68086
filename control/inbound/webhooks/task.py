"""Deletes bodies of older webhook events, and old events.

An event that is sent again after it was deleted is applied again. Its report is then older than the known state.
"""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

import sqlalchemy as sa
import structlog
from aiohttp import web

from chassis.db.database import Database
from chassis.runtime.periodic import PeriodicTask
from control.inbound.integrations.tables import inbound_deliveries
from control.inbound.webhooks.platform_events import EventSource, platform_events

INTERVAL_S: Final = 300.0
BATCH: Final = 500  # rows per transaction
MAX_BATCHES: Final = 2_000  # of one kind, per run
KEPT_EVENTS: Final = timedelta(days=30)
KEPT_PLATFORM_EVENTS: Final = MappingProxyType(
    {
        EventSource.CHAT_A: timedelta(days=1),
        EventSource.CHAT_B: timedelta(days=1),
        EventSource.PAYMENTS: timedelta(days=30),
    }
)
MAX_EVENTS: Final = 10_000  # events per integration
MAX_BODIES: Final = 1_000  # events per integration that keep their body
MAX_BODY_BYTES: Final = 256 * 2**20  # of all bodies of an organization, in stored size

log = structlog.get_logger(__name__)

_EVENTS: Final = inbound_deliveries.c
_HAS_BODY: Final = _EVENTS.body.is_not(None)
_DELETE: Final = inbound_deliveries.delete()
_DROP_BODY: Final = inbound_deliveries.update().values(body=None)


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
        """Delete once. Raises DatabaseUnavailable."""
        now = self._now()
        await self._repeat(_DELETE, _EVENTS.id, _EVENTS.received_at < now - KEPT_EVENTS)
        for source, kept in KEPT_PLATFORM_EVENTS.items():
            columns, of_source = platform_events.c, platform_events.c.source == source.value
            old = of_source & (columns.received_at < now - kept)
            await self._repeat(platform_events.delete().where(of_source), columns.event_id, old)
        for integration_id in await self._read(_crowded(MAX_BODIES)):
            of_integration = _EVENTS.integration_id == integration_id
            for last in await self._read(_newest(of_integration, MAX_EVENTS)):
                await self._repeat(_DELETE, _EVENTS.id, of_integration & (_EVENTS.id < last))
            for last in await self._read(_newest(of_integration, MAX_BODIES)):
                await self._repeat(_DROP_BODY, _EVENTS.id, of_integration & (_EVENTS.id < last) & _HAS_BODY)
        for org_id in await self._read(_heavy(MAX_BODY_BYTES)):
            has_body = (_EVENTS.org_id == org_id) & _HAS_BODY
            for newest in await self._read(_surplus(has_body, MAX_BODY_BYTES)):
                await self._repeat(_DROP_BODY, _EVENTS.id, has_body & (_EVENTS.id <= newest))

    async def _read(self, statement: sa.Select[Any]) -> list[str]:
        async with self._database.read() as connection:
            return list((await connection.execute(statement)).scalars())

    async def _repeat(self, change: sa.Update | sa.Delete, key: sa.Column[str], where: sa.ColumnElement[bool]) -> None:
        """Change rows in batches. If there are none, no write transaction is opened."""
        some = sa.select(key).where(where).limit(BATCH)
        if not await self._read(some.limit(1)):
            return
        for _ in range(MAX_BATCHES):
            async with self._database.write() as connection:
                if (await connection.execute(change.where(key.in_(some)))).rowcount < BATCH:
                    return


def _crowded(kept: int) -> sa.Select[Any]:
    """The integrations that have more than this number of events."""
    return (
        sa.select(_EVENTS.integration_id)
        .group_by(_EVENTS.integration_id)
        .having(sa.func.count() > kept)
        .order_by(_EVENTS.integration_id)
    )


def _newest(where: sa.ColumnElement[bool], kept: int) -> sa.Select[Any]:
    """The last of the newest `kept` events. No row if there are fewer."""
    return sa.select(_EVENTS.id).where(where).order_by(_EVENTS.id.desc()).offset(kept - 1).limit(1)


def _heavy(max_bytes: int) -> sa.Select[Any]:
    """The organizations whose stored bodies have more than `max_bytes` bytes."""
    size = sa.func.sum(sa.func.length(_EVENTS.body))
    return sa.select(_EVENTS.org_id).group_by(_EVENTS.org_id).having(size > max_bytes).order_by(_EVENTS.org_id)


def _surplus(where: sa.ColumnElement[bool], max_bytes: int) -> sa.Select[Any]:
    """The newest event that exceeds `max_bytes`, when the bodies are summed from the newest event on. No row if there
    is none.
    """
    size = sa.func.sum(sa.func.length(_EVENTS.body)).over(order_by=_EVENTS.id.desc())
    sized = sa.select(_EVENTS.id, size.label("size")).where(where).subquery()
    return sa.select(sized.c.id).where(sized.c.size > max_bytes).order_by(sized.c.id.desc()).limit(1)
