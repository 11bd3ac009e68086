"""Projects that keep less data than others: deleted projects, and projects with a retention of their own.

`DeletedProjects`: ids of deleted projects, known while the database is unavailable too. Missing rows of these projects
are no loss.

`ProjectRetention` deletes the rows of days that a project does not keep. The retention of the settings is a TTL of the
tables, which drops whole parts. The retention of a project is shorter, and its rows share parts with rows of other
projects, so its rows are deleted by mutations. Rows become too old once a day, at midnight (UTC).
"""

import asyncio
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final

import msgspec
import structlog

from chassis.db.database import Database
from chassis.erasures import repository
from chassis.runtime.periodic import PeriodicTask
from gateway.erasure.telemetry import DAYS, PROJECT, Condition, TelemetryErasure, of_projects
from gateway.journal.storage.files import Files, write_atomic

FILE: Final = "deleted-projects.json"  # in the directory of the journals
_PAGE: Final = 1_000

log = structlog.get_logger(__name__)


class _Known(msgspec.Struct, frozen=True):
    """The content of the file: the latest erasure that was read, and the ids of deleted projects."""

    version: int
    projects: tuple[int, ...]


class DeletedProjects:
    """The ids of deleted projects, as last read from the database. They are also kept in a file in the journals'
    directory."""

    def __init__(self, directory: Path, files: Files | None = None) -> None:
        self._path = directory / FILE
        self._files = files or Files()
        self._known = self._load()
        self._ids = frozenset(self._known.projects)

    def __iter__(self) -> Iterator[int]:
        return iter(self._ids)

    def __contains__(self, project_id: object) -> bool:
        return project_id in self._ids

    async def refresh(self, database: Database) -> None:
        """Read new tombstones. Raises the errors of the database, and OSError if the file cannot be written."""
        async with database.read() as connection:
            version = await repository.tombstone_version(connection)
            if version == self._known.version:
                return
            # A restored database has an older version: all tombstones are read again, and known ids are kept.
            found, last = set(self._ids), self._known.version if version > self._known.version else 0
            while page := await repository.list_tombstones(connection, last, _PAGE):
                found |= {tombstone.project_id for tombstone in page if tombstone.received_before is None}
                last = page[-1].number
        known = _Known(version, tuple(sorted(found)))
        await asyncio.to_thread(self._save, known)
        self._known, self._ids = known, frozenset(found)

    def _load(self) -> _Known:
        try:
            return msgspec.json.decode(self._path.read_bytes(), type=_Known)
        except FileNotFoundError:
            pass
        except (OSError, msgspec.MsgspecError) as error:
            log.warning(
                "the file with the ids of deleted projects cannot be read; the ids are read from the database instead",
                error=str(error),
            )
        return _Known(0, ())

    def _save(self, known: _Known) -> None:
        self._files.make_directory(self._path.parent)
        self._files.close(write_atomic(self._files, self._path, [msgspec.json.encode(known)]))


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
        self.task = PeriodicTask(self.run, INTERVAL_S, log, "rows past their project's retention cannot be deleted")

    async def run(self) -> None:
        """Delete rows that are too old now, and rows of deleted projects that were stored after their erasures were
        complete: a gateway without a connection to the database may have accepted them. Raises the errors of the
        stores.
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
        if counts and not await self._telemetry.unfinished_mutations(list(counts)):
            self._log.info("deleting rows of deleted projects, or past their project's retention", rows=counts)
            await self._telemetry.delete(condition, list(counts))
