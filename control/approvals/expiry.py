"""Notes what has expired: in the audit, and for the channels that were told of it.

Nothing waits for this: a request is EXPIRED when its time is over, whether that has been noted or not.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa
import structlog
from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.identity.tables import organizations
from chassis.relational import Database, DatabaseUnavailable, format_time
from control.approvals import store, telling
from control.approvals.model import Status
from control.approvals.tables import approval_requests
from control.audit.record import Actor, record

POLL_S: Final = 5.0
BATCH: Final = 50  # of one transaction, which others wait for
NOTED_BY: Final = "expiry"  # in the place of a request id

log = structlog.get_logger(__name__)

_columns: Final = approval_requests.c
_DUE: Final = (
    sa.select(_columns.id, _columns.org_id, organizations.c.slug)
    .join_from(approval_requests, organizations, organizations.c.id == _columns.org_id)
    .where(
        _columns.status == Status.PENDING.value,
        _columns.expiry_noted.is_(False),
        _columns.expires_at <= sa.bindparam("now", type_=_columns.expires_at.type),
    )
    .order_by(_columns.expires_at)
    .limit(BATCH)
)


class Expiry:
    """One per process; of several, one notes a request."""

    def __init__(
        self,
        database: Database,
        base_url: str,
        *,
        poll_s: float = POLL_S,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._database = database
        self._base_url = base_url
        self._poll_s = poll_s
        self._now = now

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Work until the end."""
        task = asyncio.create_task(self._work())
        yield
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)

    async def round(self) -> int:
        """Note at most BATCH requests; how many. Raises DatabaseUnavailable."""
        async with self._database.read() as connection:
            if (await connection.execute(_DUE, {"now": self._now()})).first() is None:
                return 0
        async with self._database.write() as connection:
            now = self._now()
            due = (await connection.execute(_DUE, {"now": now})).all()
            for row in due:
                await self._note(connection, row.id, row.org_id, row.slug, now)
        return len(due)

    async def _note(
        self, connection: AsyncConnection, request_id: str, org_id: str, org_slug: str, now: datetime
    ) -> None:
        request = await store.existing(connection, org_id, request_id)
        await connection.execute(approval_requests.update().where(_columns.id == request_id).values(expiry_noted=True))
        data = {"action": request.action, "expiresAt": format_time(request.expires_at)}
        await record(connection, Actor(org_id), "approval_request.expire", request_id, data, NOTED_BY)
        await telling.tell_ended(connection, request, telling.link(self._base_url, org_slug) + request_id, now)

    async def _work(self) -> None:
        while True:
            try:
                full = await self.round() == BATCH
            except DatabaseUnavailable:
                full = False  # it was logged where it was raised
            except Exception:
                log.exception("expired requests could not be noted")
                full = False
            await asyncio.sleep(0 if full else self._poll_s)
