"""Records expired requests in the audit log, and notifies the channels that announced them.

Nothing depends on this: a request is EXPIRED once its time is over, whether that has been recorded or not.
"""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa
import structlog
from aiohttp import web

from chassis.auth.tables import organizations
from chassis.db.database import Database, DatabaseUnavailable, format_time
from chassis.runtime.periodic import FailureLog, PeriodicTask
from control.approvals import notifications, store
from control.approvals.notifications import LinkBuilder
from control.approvals.tables import OPEN, approval_requests
from control.audit.record import Actor, record

POLL_S: Final = 5.0
PAGE_SIZE: Final = 500  # due requests in memory at once
AUDIT_TRACE_ID: Final = "(expiry)"  # instead of a request id, like `record.COMMAND_REQUEST_ID`

log = structlog.get_logger(__name__)

_DueRequest = sa.Row[str, str, str, datetime]


class ExpiryFailed(Exception):
    """The expiry of a request cannot be recorded, for any reason in its row. `code`: the request's id."""

    def __init__(self, request_id: str, cause: Exception) -> None:
        self.code = request_id
        self.message = f"{type(cause).__name__}: {cause}"
        super().__init__(self.message)


class ExpiryTask:
    """Polls for expired requests, one task per process. If there are several, one of them records a request."""

    def __init__(
        self,
        database: Database,
        link_builder: LinkBuilder,
        *,
        poll_s: float = POLL_S,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._database = database
        self._link_builder = link_builder
        self._now = now
        self._failure_log = FailureLog(log, "recording an expired request failed")
        self._periodic_task = PeriodicTask(
            self._poll, poll_s, log, "polling for expired requests failed", run_immediately=True
        )

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Run until shutdown."""
        self._periodic_task.start()
        yield
        await self._periodic_task.close()

    async def poll_once(self) -> int:
        """Record all due requests; returns their number. Each is a transaction of its own, so that other writers wait
        for one at most, and a request that fails does not stop the others: it is retried at the next poll. Raises
        DatabaseUnavailable.
        """
        count, last, any_failed = 0, None, False
        while page := await self._next_page(last):
            for due in page:
                try:
                    count += await self._mark_expired(due)
                except DatabaseUnavailable:
                    raise
                except Exception as error:  # noqa: BLE001 (a row may hold anything)
                    any_failed = True
                    self._failure_log.failed(ExpiryFailed(due.id, error))
            last = page[-1]
        if not any_failed:
            self._failure_log.succeeded()
        return count

    async def _poll(self) -> None:
        await self.poll_once()

    async def _next_page(self, last: _DueRequest | None) -> list[_DueRequest]:
        """Due requests after the last one of the previous page, by expiry time."""
        columns = approval_requests.c
        found = (
            sa.select(columns.id, columns.org_id, organizations.c.slug, columns.expires_at)
            .join_from(approval_requests, organizations, organizations.c.id == columns.org_id)
            .where(OPEN, columns.expires_at <= self._now(), organizations.c.deleted_at.is_(None))
            .order_by(columns.expires_at, columns.id)
            .limit(PAGE_SIZE)
        )
        if last is not None:
            same_time = (columns.expires_at == last.expires_at) & (columns.id > last.id)
            found = found.where((columns.expires_at > last.expires_at) | same_time)
        async with self._database.read() as connection:
            return list((await connection.execute(found)).all())

    async def _mark_expired(self, due: _DueRequest) -> bool:
        """False when another process, or a vote by a process with a slow clock, was first."""
        async with self._database.write() as connection:
            now = self._now()
            if not await store.mark_expired(connection, due.id, now):
                return False
            request = await store.get(connection, due.org_id, due.id)
            data = {"action": request.action, "expiresAt": format_time(request.expires_at)}
            await record(connection, Actor(due.org_id), "approval_request.expire", due.id, data, AUDIT_TRACE_ID)
            await notifications.notify_resolved(connection, request, self._link_builder.for_org(due.slug), now)
        return True
