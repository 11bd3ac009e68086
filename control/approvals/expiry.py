"""Notes what has expired: in the audit, and for the channels that were told of it.

Nothing waits for this: a request is EXPIRED when its time is over, whether that has been noted or not.
"""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime
from typing import Final

import sqlalchemy as sa
import structlog
from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.identity.tables import organizations
from chassis.relational import Database, DatabaseUnavailable, format_time
from chassis.rounds import Complaints, Rounds
from control.approvals import store, telling
from control.approvals.tables import OPEN, approval_requests
from control.approvals.telling import Links
from control.audit.record import Actor, record

POLL_S: Final = 5.0
PAGE: Final = 500  # of what is due, in memory at once
NOTED_BY: Final = "(expiry)"  # in the place of a request id, as BY_COMMAND

log = structlog.get_logger(__name__)

_Due = sa.Row[str, str, str, datetime]


class Unnotable(Exception):
    """A request cannot be noted, whatever is in its row. `code`: its id."""

    def __init__(self, request_id: str, cause: Exception) -> None:
        self.code = request_id
        self.message = f"{type(cause).__name__}: {cause}"
        super().__init__(self.message)


class Expiry:
    """One per process; of several, one notes a request."""

    def __init__(
        self,
        database: Database,
        links: Links,
        *,
        poll_s: float = POLL_S,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._database = database
        self._links = links
        self._now = now
        self._complaints = Complaints(log, "expired request not noted")
        self._rounds = Rounds(self._work, poll_s, log, "expired requests not noted", at_once=True)

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Work until the end."""
        self._rounds.start()
        yield
        await self._rounds.close()

    async def round(self) -> int:
        """Note what is due; how many. Each is a transaction of its own, so that others wait for one at most, and what
        cannot be noted keeps nothing else from it: it is left for the next round. Raises DatabaseUnavailable.
        """
        noted, last, faulty = 0, None, False
        while page := await self._page(last):
            for due in page:
                try:
                    noted += await self._note(due)
                except DatabaseUnavailable:
                    raise
                except Exception as error:  # noqa: BLE001 (a row may hold anything)
                    faulty = True
                    self._complaints.failed(Unnotable(due.id, error))
            last = page[-1]
        if not faulty:
            self._complaints.succeeded()
        return noted

    async def _work(self) -> None:
        await self.round()

    async def _page(self, last: _Due | None) -> list[_Due]:
        """What is due behind the last one that was looked at, the longest first."""
        columns = approval_requests.c
        found = (
            sa.select(columns.id, columns.org_id, organizations.c.slug, columns.expires_at)
            .join_from(approval_requests, organizations, organizations.c.id == columns.org_id)
            .where(OPEN, columns.expires_at <= self._now())
            .order_by(columns.expires_at, columns.id)
            .limit(PAGE)
        )
        if last is not None:
            behind = (columns.expires_at == last.expires_at) & (columns.id > last.id)
            found = found.where((columns.expires_at > last.expires_at) | behind)
        async with self._database.read() as connection:
            return list((await connection.execute(found)).all())

    async def _note(self, due: _Due) -> bool:
        """False when another process, or a vote of a clock that is behind, was first."""
        async with self._database.write() as connection:
            now = self._now()
            if not await store.note_expiry(connection, due.id, now):
                return False
            await self._tell(connection, due, now)
        return True

    async def _tell(self, connection: AsyncConnection, due: _Due, now: datetime) -> None:
        request = await store.existing(connection, due.org_id, due.id)
        data = {"action": request.action, "expiresAt": format_time(request.expires_at)}
        await record(connection, Actor(due.org_id), "approval_request.expire", due.id, data, NOTED_BY)
        await telling.tell_ended(connection, request, self._links.of(due.slug), now)
