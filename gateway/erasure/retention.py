"""Retention of single projects: deletes the rows of days that a project does not keep.

The retention of the settings is a TTL of the tables, which drops whole parts. That of a project is shorter, and its
rows share their parts with others, so they are deleted by mutations. There is something to delete once a day, after
midnight (UTC).
"""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog

from chassis.db.database import Database
from chassis.erasures import repository
from chassis.runtime.periodic import PeriodicTask
from gateway.erasure.deleted_projects import DeletedProjects
from gateway.erasure.telemetry import DAYS, PROJECT, Condition, TelemetryErasure, of_projects

INTERVAL_S: Final = 3_600.0


class ProjectRetention:
    """Checks once an hour for rows that are too old. `clock` gives nanoseconds since 1970."""

    def __init__(
        self,
        database: Database,
        telemetry: TelemetryErasure,
        deleted_projects: DeletedProjects,
        log: structlog.stdlib.BoundLogger,
        clock: Callable[[], int],
    ) -> None:
        self._database = database
        self._telemetry = telemetry
        self._deleted_projects = deleted_projects
        self._log = log
        self._clock = clock
        self._task = PeriodicTask(self.run, INTERVAL_S, log, "rows past their project's retention cannot be deleted")

    def start(self) -> None:
        """Start; the first check is after one interval."""
        self._task.start()

    async def close(self) -> None:
        """Stop; ClickHouse continues with what it has begun."""
        await self._task.close()

    async def run(self) -> None:
        """Delete what is too old now, and what was stored of deleted projects after their erasures were complete: a
        gateway that was cut off from the database may have accepted it. Raises what the stores raise.
        """
        await self._telemetry.drop_leftovers()
        if ids := sorted(self._deleted_projects):
            await self._delete(of_projects(ids))
        async with self._database.read() as connection:
            retention_days = await repository.list_retention_days(connection)
        today = datetime.fromtimestamp(self._clock() / 10**9, UTC).date()
        for project_id, days in retention_days.items():
            condition = Condition(
                {table: f"{PROJECT} AND {day} < {{oldest:Date}}" for table, day in DAYS.items()},
                {"project": project_id, "oldest": today - timedelta(days=days)},
            )
            await self._delete(condition)

    async def _delete(self, condition: Condition) -> None:
        counts = await self._telemetry.count(condition)
        if counts and not await self._telemetry.running(list(counts)):
            self._log.info("deleting rows of deleted projects, or past their project's retention", rows=counts)
            await self._telemetry.delete(condition, list(counts))
