"""The two streams of aggregates.

ISSUE_ROLLUPS: the state of issues, one row per change, in the order of changes. Every statement that changes an issue
clears its `change_number`. Before a batch is read, issues without a number get the next numbers in a write transaction.
Only one write transaction runs at a time, so the numbers are in the order of commits, and a reader who has read up to a
number has missed no change. Several changes of an issue between two batches become one row, with the last state.

RELEASE_HEALTH_ROLLUPS: requests and new issues of a release, in an environment, in an hour. A batch covers the rows
that were stored between two storage times, the later of which is settled. All hours with such rows are computed again
from all rows that were stored up to the later time. An hour that has changed is therefore exported again, with the
later time as its higher revision. A block that was stored twice makes no difference.
"""

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.clickhouse import ClickHouse, QueryLimits
from chassis.clickhouse.storage_order import OrderedTable
from chassis.db.database import Database
from chassis.issues import issues
from control.export.streams.parquet import from_micros, new_table, to_micros
from control.export.streams.reading import MAX_ROWS, Batch, ExportSource
from control.export.streams.schemas import ISSUE_ROLLUPS, RELEASE_HEALTH_ROLLUPS
from control.export.tables import issue_change_numbers
from control.issues.references import ShortId

NUMBERED_AT_ONCE: Final = 500  # per transaction
MAX_NUMBERED: Final = 100 * NUMBERED_AT_ONCE  # per batch
_PAGE: Final = 10_000


@dataclass(frozen=True, slots=True)
class IssueRollups:
    """The stream of one organization at a time."""

    database: Database

    async def read(self, source: ExportSource, cursor: bytes | None) -> Batch | None:
        """Read the next rows, as `StreamReader` describes."""
        await self._number_changes(source.org_id)
        rows = await self._rows(source, _decode_cursor(cursor), None, MAX_ROWS)
        if not rows:
            return None
        last, updated_us = rows[-1][1], rows[-1][-1]
        table = new_table(ISSUE_ROLLUPS, rows)
        return Batch(table, str(last).encode(), from_micros(updated_us), f"{last:020d}", len(rows) < MAX_ROWS)

    async def read_again(self, source: ExportSource, cursor: bytes | None, until: bytes) -> Any:
        """Read the same rows again, as `StreamReader` describes."""
        return new_table(
            ISSUE_ROLLUPS, await self._rows(source, _decode_cursor(cursor), _decode_cursor(until), MAX_ROWS)
        )

    async def _number_changes(self, org_id: str) -> None:
        for _ in range(MAX_NUMBERED // NUMBERED_AT_ONCE):
            async with self.database.read() as connection:
                if not await _find_unnumbered(connection, org_id, 1):
                    return
            async with self.database.write() as connection:
                await _number_some(connection, org_id)

    async def _rows(self, source: ExportSource, after: int, until: int | None, limit: int) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        while len(rows) < limit:
            count = min(_PAGE, limit - len(rows))
            where = (issues.c.org_id == source.org_id) & (issues.c.change_number > after)
            if until is not None:
                where &= issues.c.change_number <= until
            page = sa.select(issues).where(where).order_by(issues.c.change_number).limit(count)
            async with self.database.read() as connection:
                found = (await connection.execute(page)).mappings().all()
            rows += [_issue_row(row, source) for row in found if row["project_id"] in source.projects]
            if len(found) < count:
                break
            after = found[-1]["change_number"]
        return rows


async def _find_unnumbered(connection: AsyncConnection, org_id: str, limit: int) -> list[str]:
    where = (issues.c.org_id == org_id) & issues.c.change_number.is_(None)
    statement = sa.select(issues.c.id).where(where).order_by(issues.c.updated_at, issues.c.id).limit(limit)
    return list((await connection.execute(statement)).scalars())


async def _number_some(connection: AsyncConnection, org_id: str) -> None:
    ids = await _find_unnumbered(connection, org_id, NUMBERED_AT_ONCE)
    if not ids:
        return
    of_org = issue_change_numbers.c.org_id == org_id
    last = await connection.scalar(sa.select(issue_change_numbers.c.last_number).where(of_org))
    first = (last or 0) + 1
    number = sa.case({issue_id: first + place for place, issue_id in enumerate(ids)}, value=issues.c.id)
    await connection.execute(issues.update().where(issues.c.id.in_(ids)).values(change_number=number))
    reached = first + len(ids) - 1
    if last is None:
        await connection.execute(issue_change_numbers.insert().values(org_id=org_id, last_number=reached))
    else:
        await connection.execute(issue_change_numbers.update().where(of_org).values(last_number=reached))


def _decode_cursor(cursor: bytes | None) -> int:
    return 0 if cursor is None else int(cursor)


def _issue_row(row: Mapping[Any, Any], source: ExportSource) -> tuple[Any, ...]:
    slug = source.projects[row["project_id"]]
    return (
        f"{row['id']}:{row['change_number']}",
        row["change_number"],
        str(row["project_id"]),
        slug,
        row["id"],
        str(ShortId(slug, row["number"])),
        bytes(row["fingerprint"]).hex(),
        row["type"],
        row["title"],
        row["culprit"],
        row["status"],
        row["count"],
        _micros(row["first_seen"]),
        _micros(row["last_seen"]),
        row["first_release"],
        row["last_release"],
        _micros(row["resolved_at"]),
        row["resolved_in_release"],
        _micros(row["regressed_at"]),
        row["assignee_id"],
        row["merged_into"],
        _micros(row["created_at"]),
        _micros(row["updated_at"]),
    )


def _micros(time: datetime | None) -> int | None:
    return None if time is None else to_micros(time)


MAX_HOURS: Final = 10_000  # groups that a batch should have at most; one second may have more
_STEP_US: Final = 6 * 3_600 * 1_000_000
_MIN_STEP_US: Final = 1_000_000
_LIMITS: Final = QueryLimits(max_seconds=120, max_memory_bytes=2**30, max_result_rows=0, priority=3)

_STORED: Final = (
    "stored_time > fromUnixTimestamp64Micro({after:Int64}, 'UTC')"
    " AND stored_time <= fromUnixTimestamp64Micro({until:Int64}, 'UTC')"
)
_PROJECTS: Final = "project_id IN {projects:Array(UInt64)}"
_KINDS: Final = "kind IN (2, 5)"  # SERVER, CONSUMER
_HOUR: Final = "toUnixTimestamp(toStartOfHour({column}, 'UTC'))"
_CHANGED: Final = (
    "SELECT project_id, toString(release), toString(environment),"
    f" {_HOUR.format(column='start_time')} AS hour FROM spans WHERE {_PROJECTS} AND {_STORED} AND {_KINDS}"
    " GROUP BY project_id, release, environment, hour UNION DISTINCT "
    "SELECT project_id, toString(release), toString(environment),"
    f" {_HOUR.format(column='time')} AS hour FROM error_occurrences WHERE {_PROJECTS} AND {_STORED}"
    " GROUP BY project_id, release, environment, hour LIMIT {most:UInt64}"
)
_UNTIL: Final = "stored_time <= fromUnixTimestamp64Micro({until:Int64}, 'UTC')"
_IN_HOURS: Final = (
    "{column} >= fromUnixTimestamp({{first:Int64}}) AND {column} < fromUnixTimestamp({{last:Int64}})"
    " AND " + _HOUR + " IN {{hours:Array(UInt32)}}"
)
# The ceil(q * n)-th smallest value. `quantileExact` counts from 0, so the level is slightly below q.
_LEVELS: Final = "0.499999999995, 0.949999999995, 0.989999999995"
# A scrubbed id does not distinguish sessions. Neither does `null`, the text of an attribute without a value.
_HAS_SESSION: Final = "attributes['session.id'] NOT IN ('', 'null', '[scrubbed]')"
_REQUESTS: Final = (
    "SELECT project_id, toString(release), toString(environment),"
    f" {_HOUR.format(column='start_time')} AS hour, toInt64(count()), toInt64(countIf(status_code = 2)),"
    f" quantilesExact({_LEVELS})(duration),"
    f" if(countIf({_HAS_SESSION}) = 0, NULL, toInt64(uniqExactIf(attributes['session.id'], {_HAS_SESSION})))"
    f" FROM spans WHERE {_PROJECTS} AND {_UNTIL} AND {_KINDS} AND {_IN_HOURS.format(column='start_time')}"
    " GROUP BY project_id, release, environment, hour"
)
_NEW_ISSUES: Final = (
    "SELECT project_id, first_release, first_environment, hour, toInt64(count()) FROM ("
    " SELECT project_id, fingerprint, toString(argMin(release, time)) AS first_release,"
    " toString(argMin(environment, time)) AS first_environment,"
    f" {_HOUR.format(column='min(time)')} AS hour FROM error_occurrences"
    f" WHERE {_PROJECTS} AND {_UNTIL} AND (project_id, fingerprint) IN ("
    f" SELECT project_id, fingerprint FROM error_occurrences WHERE {_PROJECTS} AND {_UNTIL}"
    f" AND {_IN_HOURS.format(column='time')})"
    " GROUP BY project_id, fingerprint)"
    " WHERE hour IN {hours:Array(UInt32)} GROUP BY project_id, first_release, first_environment, hour"
)


class _Group(NamedTuple):
    project_id: int
    release: str
    environment: str
    hour: int  # the beginning of the hour, in seconds since 1970


@dataclass(frozen=True, slots=True)
class ReleaseHealth:
    """The stream of one organization at a time. The cursor is a storage time, in microseconds since 1970."""

    clickhouse: ClickHouse

    async def read(self, source: ExportSource, cursor: bytes | None) -> Batch | None:
        """Read the next rows, as `StreamReader` describes."""
        projects = sorted(source.projects)
        tables = [OrderedTable(self.clickhouse, name, project_ids=projects) for name in ("spans", "error_occurrences")]
        settled = await tables[0].settled_time()
        after = _decode_cursor(cursor)
        while after < settled:
            firsts = [await table.first_time(after, settled) for table in tables]
            known = [first for first in firsts if first is not None]
            if not known:
                return None
            until, changed = await self._changed(projects, after, min(known), settled)
            if changed:
                table = new_table(RELEASE_HEALTH_ROLLUPS, await self._rows(source, changed, until))
                return Batch(table, str(until).encode(), from_micros(until), f"{until:016d}", until == settled)
            after = until
        return None

    async def read_again(self, source: ExportSource, cursor: bytes | None, until: bytes) -> Any:
        """Read the same rows again, as `StreamReader` describes."""
        groups = await self._groups(sorted(source.projects), _decode_cursor(cursor), int(until), MAX_ROWS)
        return new_table(RELEASE_HEALTH_ROLLUPS, await self._rows(source, groups, int(until)))

    async def _changed(self, projects: list[int], after: int, first: int, settled: int) -> tuple[int, list[_Group]]:
        """The groups that have changed after a time, and the time up to which they were read, so that they fit into a
        batch.
        """
        step = _STEP_US
        while True:
            until = min(settled, first + step)
            groups = await self._groups(projects, after, until, MAX_ROWS)
            if len(groups) <= MAX_HOURS or step <= _MIN_STEP_US:
                return until, groups
            step //= 2

    async def _groups(self, projects: list[int], after: int, until: int, most: int) -> list[_Group]:
        parameters = {"projects": projects, "after": after, "until": until, "most": most}
        rows: list[Any] = await self.clickhouse.query(_CHANGED, parameters, limits=_LIMITS)
        return sorted(_Group(*row) for row in rows)

    async def _rows(self, source: ExportSource, groups: Iterable[_Group], until: int) -> list[tuple[Any, ...]]:
        wanted = list(groups)
        if not wanted:
            return []
        hours = sorted({group.hour for group in wanted})
        parameters: dict[str, object] = {
            "projects": sorted({group.project_id for group in wanted}),
            "until": until,
            "hours": hours,
            "first": hours[0],
            "last": hours[-1] + 3_600,
        }
        requests: dict[_Group, tuple[Any, ...]] = {}
        for row in await self.clickhouse.query(_REQUESTS, parameters, limits=_LIMITS):
            requests[_group(row)] = row[4:]
        new_issues: dict[_Group, Any] = {}
        for row in await self.clickhouse.query(_NEW_ISSUES, parameters, limits=_LIMITS):
            new_issues[_group(row)] = row[4]
        return [
            _health_row(group, source.projects[group.project_id], until, requests.get(group), new_issues.get(group, 0))
            for group in wanted
        ]


def _group(row: tuple[Any, ...]) -> _Group:
    return _Group(*row[:4])


def _health_row(
    group: _Group, slug: str, revision: int, requests: tuple[Any, ...] | None, new_issues: int
) -> tuple[Any, ...]:
    named = hashlib.sha256(f"{group.release}\0{group.environment}".encode()).hexdigest()[:32]
    count, failed, durations, sessions = requests or (0, 0, (None, None, None), None)
    return (
        f"{group.project_id}:{group.hour}:{named}:{revision}",
        str(group.project_id),
        slug,
        group.environment,
        group.release or None,
        group.hour * 1_000_000,
        revision,
        count,
        failed,
        *(None if duration is None else duration / 1_000_000 for duration in durations),
        sessions,
        new_issues,
    )
