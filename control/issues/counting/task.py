"""Changes to issues that no occurrence causes. Every 30 seconds this task ends the ignoring of issues whose time is
over, reports withheld notifications, clears the titles of erased occurrences, and deletes old issues.

Each step works in small transactions and may be repeated, so several processes do no harm.
"""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any, Final

import sqlalchemy as sa
import structlog
from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import projects
from chassis.clickhouse import ClickHouse
from chassis.db.database import Database
from chassis.erasures.tables import ErasureKind, ErasureState, erasures
from chassis.issues import IssueStatus, issues
from chassis.runtime.periodic import PeriodicTask
from control.issues import lifecycle, store
from control.issues.counting import project_state
from control.issues.counting.occurrences import erased, read_current, search_text
from control.issues.counting.project_state import IssueUrls
from control.issues.releases.tables import commit_issues, proposal_issues
from control.issues.tables import IssueRecord, issue_activity, issue_erasures, issue_links, issue_projects

INTERVAL_S: Final = 30.0
BATCH: Final = 200  # issues per transaction
PAUSE_S: Final = 0.01  # between two batches, for other writers
# A page that was read before an erasure is counted within this time, unless its process has lost the database.
ERASURE_DELAY: Final = timedelta(seconds=60)
SUM_INTERVAL: Final = timedelta(minutes=10)  # between two such messages of one project

log = structlog.get_logger(__name__)


class IssueHousekeeping:
    """One task per process. If `clickhouse` is None, this process does not clear titles of erased occurrences."""

    def __init__(
        self,
        database: Database,
        clickhouse: ClickHouse | None,
        links: IssueUrls,
        *,
        retention_days: int = 0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`retention_days`: how long an issue is kept after its last occurrence, in days. 0: for ever."""
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
        """Run every step, even if another step fails. Raises DatabaseUnavailable, StoreError."""
        steps: list[Callable[[], Awaitable[bool]]] = [self._end_ignoring, self._report_sum]
        if self._keep:
            steps.append(self._delete_old)
        if self._clickhouse is not None:
            steps.insert(0, partial(self._clear_erased, self._clickhouse))
        failed: Exception | None = None
        for step in steps:
            try:
                await _repeat(step)
            except Exception as error:  # noqa: BLE001 (raised when all are done)
                failed = failed or error
        if failed is not None:
            raise failed

    async def _end_ignoring(self) -> bool:
        """Unignore a batch of issues whose time is over. Returns False if there are none."""
        due = _batch(issues.c.status == IssueStatus.IGNORED.value, issues.c.ignored_until <= self._now())
        if not await self._any(due):
            return False
        async with self._database.write() as connection:
            now = self._now()
            for row in (await connection.execute(due)).mappings().all():
                await lifecycle.set_unresolved(connection, IssueRecord.from_row(row), now=now, by=None)
        return True

    async def _report_sum(self) -> bool:
        """Report the withheld notifications of one project. Returns False if no project has any."""
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
                await project_state.announce_sum(connection, state, self._links)
                state.unannounced, state.summary_at = 0, self._now()
                await project_state.store(connection, [state])
        return bool(found)

    async def _delete_old(self) -> bool:
        """Delete a batch of rows of one issue that had no occurrence and no change for the retention time. Returns
        False if there is no such issue.
        """
        due = _batch(issues.c.updated_at < self._now() - self._keep).limit(1)
        if not await self._any(due):
            return False
        async with self._database.write() as connection:
            row = (await connection.execute(due)).mappings().one_or_none()
            if row is not None:
                await delete_some(connection, IssueRecord.from_row(row))
        return True

    async def _clear_erased(self, clickhouse: ClickHouse) -> bool:
        """Replace the titles of issues in a project from which items were erased, using the remaining occurrences.
        Returns False if there is no such project.
        """
        async with self._database.read() as connection:
            due = (await connection.execute(_due_erasure(self._now() - ERASURE_DELAY))).one_or_none()
        if due is None:
            return False
        after: str | None = ""
        while after is not None:
            after = await self._clear_batch(clickhouse, due.project_id, after)
        async with self._database.write() as connection:
            statement = sa.select(issue_erasures.c.erasure_id).where(issue_erasures.c.erasure_id == due.id)
            if await connection.scalar(statement) is None:
                await connection.execute(
                    issue_erasures.insert().values(erasure_id=due.id, org_id=due.org_id, project_id=due.project_id)
                )
        return True

    async def _clear_batch(self, clickhouse: ClickHouse, project_id: int, after: str) -> str | None:
        """Replace the titles of a batch. Returns the id of the last issue of the batch, or None at the end."""
        batch = (
            sa.select(issues.c.id, issues.c.fingerprint, issues.c.type, issues.c.culprit)
            .where(issues.c.project_id == project_id, issues.c.id > after)
            .order_by(issues.c.id)
            .limit(BATCH)
        )
        async with self._database.read() as connection:
            rows = (await connection.execute(batch)).all()
            if not rows:
                return None
            linked = await store.find_fingerprints(connection, [row.id for row in rows])
        of_issue = {row.id: (bytes(row.fingerprint), *linked.get(row.id, ())) for row in rows}
        current = await read_current(clickhouse, project_id, {one for some in of_issue.values() for one in some})
        values = []
        for row in rows:
            details = next((current[one] for one in of_issue[row.id] if one in current), None)
            title = erased(row.type) if details is None else details.title
            values.append({"of_id": row.id, "new_title": title, "new_search_text": search_text(title, row.culprit)})
        async with self._database.write() as connection:
            update = issues.update().where(issues.c.id == sa.bindparam("of_id"))
            changed: dict[str, Any] = {
                "title": sa.bindparam("new_title"),
                "search_text": sa.bindparam("new_search_text"),
            }
            await connection.execute(update.values(changed), values)
        return str(rows[-1].id)

    async def _any(self, found: sa.Select[Any]) -> bool:
        """Whether there are rows to process, without a write transaction."""
        async with self._database.read() as connection:
            return (await connection.execute(found.limit(1))).first() is not None


async def _repeat(step: Callable[[], Awaitable[bool]]) -> None:
    """Repeat a step until nothing is left to do."""
    is_left = await step()
    while is_left:
        await asyncio.sleep(PAUSE_S)
        is_left = await step()


async def delete_some(connection: AsyncConnection, issue: IssueRecord) -> None:
    """Delete at most BATCH rows of an issue: first the issues that were merged into it, then the rows that refer to it,
    then the issue. Call it repeatedly, each time in a new transaction, until the issue is deleted.
    """
    merged = sa.select(issues.c.id).where(issues.c.merged_into == issue.id).limit(1)
    issue_id = await connection.scalar(merged) or issue.id
    for table in (issue_activity, issue_links, commit_issues, proposal_issues):
        key = tuple(table.primary_key.columns)
        some = sa.select(*key).where(table.c.issue_id == issue_id).limit(BATCH)
        rows = [tuple(row) for row in await connection.execute(some)]
        if rows:
            condition = key[0].in_([row[0] for row in rows]) if len(key) == 1 else sa.tuple_(*key).in_(rows)
            await connection.execute(table.delete().where(condition))
        if len(rows) == BATCH:
            return
    await connection.execute(issues.delete().where(issues.c.id == issue_id))
    where = issue_projects.c.project_id == issue.project_id
    await connection.execute(issue_projects.update().where(where).values(issues=issue_projects.c.issues - 1))


def _batch(*where: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Select issues, without merged ones: these are deleted with the issue that counts their occurrences."""
    return sa.select(issues).where(issues.c.merged_into.is_(None), *where).limit(BATCH)


def _due_erasure(before: datetime) -> sa.Select[Any]:
    """A completed erasure by filter whose items may still be in titles."""
    return (
        sa.select(erasures.c.id, erasures.c.org_id, erasures.c.project_id)
        .join(issue_projects, issue_projects.c.project_id == erasures.c.project_id)
        .outerjoin(issue_erasures, issue_erasures.c.erasure_id == erasures.c.id)
        .where(
            erasures.c.kind == ErasureKind.FILTER.value,
            erasures.c.state == ErasureState.COMPLETED.value,
            erasures.c.dry_run.is_(False),
            erasures.c.completed_at <= before,
            issue_erasures.c.erasure_id.is_(None),
        )
        .limit(1)
    )
