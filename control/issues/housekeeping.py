"""What happens to issues without an occurrence, once a minute: ignoring that is over is recorded, notifications that
were withheld are reported in sum, titles of erased occurrences are cleared, and old issues are deleted.

Each step works in small transactions and may be repeated, so several processes do no harm.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa
import structlog
from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import projects
from chassis.clickhouse import ClickHouse
from chassis.db.database import Database
from chassis.erasures.tables import ErasureKind, ErasureState, erasures
from chassis.issues.tables import IssueStatus, issues
from chassis.runtime.periodic import PeriodicTask
from control.issues import lifecycle, notifications, project_state
from control.issues.details import erased, read_current
from control.issues.model import IssueRecord
from control.issues.notifications import IssueUrls
from control.issues.tables import issue_activity, issue_links, issue_projects
from control.releases.tables import commit_issues, proposal_issues

INTERVAL_S: Final = 30.0
BATCH: Final = 200  # issues per transaction
SUM_INTERVAL: Final = timedelta(minutes=10)  # between two sums of one project

log = structlog.get_logger(__name__)


class IssueHousekeeping:
    """One task per process. `clickhouse` None: titles are left as they are until a process has it."""

    def __init__(
        self,
        database: Database,
        clickhouse: ClickHouse | None,
        links: IssueUrls,
        *,
        retention_days: int = 0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`retention_days`: how long an issue is kept after its last occurrence; 0: for ever."""
        self._database = database
        self._clickhouse = clickhouse
        self._links = links
        self._keep = timedelta(days=retention_days)
        self._now = now
        self._task = PeriodicTask(self.run_once, INTERVAL_S, log, "housekeeping of issues failed")

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Run until shutdown."""
        self._task.start()
        yield
        await self._task.close()

    async def run_once(self) -> None:
        """Raises DatabaseUnavailable, StoreError."""
        while await self._end_ignoring():
            pass
        while await self._report_sum():
            pass
        while self._keep and await self._delete_old():
            pass
        if self._clickhouse is not None:
            await self._clear_erased(self._clickhouse)

    async def _end_ignoring(self) -> bool:
        """Record that issues are no longer ignored, a batch of them. False: there are none."""
        due = _batch(issues.c.status == IssueStatus.IGNORED.value, issues.c.ignored_until <= self._now())
        if not await self._any(due):
            return False
        async with self._database.write() as connection:
            now = self._now()
            for row in (await connection.execute(due)).mappings().all():
                await lifecycle.set_unresolved(connection, IssueRecord.from_row(row), now=now, by=None)
        return True

    async def _report_sum(self) -> bool:
        """Notify of what one project had withheld. False: no project has."""
        columns = issue_projects.c
        due = (
            sa.select(columns.project_id)
            .join(projects, projects.c.id == columns.project_id)
            .where(
                columns.unannounced > 0,
                columns.summary_at.is_(None) | (columns.summary_at <= self._now() - SUM_INTERVAL),
                projects.c.deleted_at.is_(None),
            )
            .limit(1)
        )
        if not await self._any(due):
            return False
        async with self._database.write() as connection:
            project_id = await connection.scalar(due)
            found = {} if project_id is None else await project_state.load(connection, [project_id], 0)
            for state in found.values():
                await notifications.announce_sum(connection, state, self._links)
                state.unannounced, state.summary_at = 0, self._now()
                await project_state.store(connection, [state])
        return bool(found)

    async def _delete_old(self) -> bool:
        """Delete a batch of issues that nothing was seen of for long. False: there are none."""
        due = _batch(issues.c.last_seen < self._now() - self._keep)
        if not await self._any(due):
            return False
        async with self._database.write() as connection:
            await delete_issues(connection, [row.id for row in await connection.execute(due)])
        return True

    async def _clear_erased(self, clickhouse: ClickHouse) -> None:
        """Give the issues of projects in which items were erased titles of what is left."""
        async with self._database.read() as connection:
            due = (await connection.execute(_erased_projects())).all()
        for project_id, number in due:
            after: str | None = ""
            while after is not None:
                after = await self._clear_batch(clickhouse, project_id, after)
            async with self._database.write() as connection:
                where = issue_projects.c.project_id == project_id
                await connection.execute(issue_projects.update().where(where).values(erasure_number=number))

    async def _clear_batch(self, clickhouse: ClickHouse, project_id: int, after: str) -> str | None:
        """The id of the last issue of the batch; None at the end."""
        batch = (
            sa.select(issues.c.id, issues.c.fingerprint, issues.c.type)
            .where(issues.c.project_id == project_id, issues.c.id > after)
            .order_by(issues.c.id)
            .limit(BATCH)
        )
        async with self._database.read() as connection:
            rows = (await connection.execute(batch)).all()
        if not rows:
            return None
        current = await read_current(clickhouse, project_id, [bytes(row.fingerprint) for row in rows])
        values = []
        for row in rows:
            details = current.get(bytes(row.fingerprint))
            title = erased(row.type) if details is None else details.title
            values.append({"of_id": row.id, "new_title": title})
        async with self._database.write() as connection:
            update = issues.update().where(issues.c.id == sa.bindparam("of_id"))
            await connection.execute(update.values(title=sa.bindparam("new_title")), values)
        return str(rows[-1].id)

    async def _any(self, found: sa.Select[Any]) -> bool:
        """Whether there is something to do, without a write transaction."""
        async with self._database.read() as connection:
            return (await connection.execute(found.limit(1))).first() is not None


async def delete_issues(connection: AsyncConnection, issue_ids: Sequence[str]) -> None:
    """Delete issues with everything that refers to them; those that were merged into them go, too."""
    merged = await connection.scalars(sa.select(issues.c.id).where(issues.c.merged_into.in_(issue_ids)))
    ids = [*issue_ids, *merged]
    counts = sa.select(issues.c.project_id, sa.func.count()).where(issues.c.id.in_(ids)).group_by(issues.c.project_id)
    for project_id, number in (await connection.execute(counts)).all():
        where = issue_projects.c.project_id == project_id
        values = {"issues": issue_projects.c.issues - number}
        await connection.execute(issue_projects.update().where(where).values(values))
    for table in (issue_activity, issue_links, commit_issues, proposal_issues):
        await connection.execute(table.delete().where(table.c.issue_id.in_(ids)))
    await connection.execute(issues.delete().where(issues.c.id.in_(ids)))


def _batch(*where: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Issues, without those that were merged: they go with the one that counts them."""
    return sa.select(issues).where(issues.c.merged_into.is_(None), *where).limit(BATCH)


def _erased_projects() -> sa.Select[Any]:
    """Projects with issues, and the last completed erasure by filter whose items may be in titles."""
    latest = sa.func.max(erasures.c.number)
    return (
        sa.select(erasures.c.project_id, latest)
        .join(issue_projects, issue_projects.c.project_id == erasures.c.project_id)
        .where(
            erasures.c.kind == ErasureKind.FILTER.value,
            erasures.c.state == ErasureState.COMPLETED.value,
            erasures.c.dry_run.is_(False),
            erasures.c.number > issue_projects.c.erasure_number,
        )
        .group_by(erasures.c.project_id)
    )
