"""ISSUE_ROLLUPS: the state of issues, a row for each change, in the order of changes.

Whatever changes an issue clears its `change_number`. Before a batch is read, issues without a number get the next ones,
in a write transaction, of which there is one at a time: so numbers are in the order of commits, and whoever has read up
to a number has missed nothing. Changes of an issue between two batches are one row, with its last state.
"""

from collections.abc import Mapping
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import Database
from chassis.issues import issues
from control.export.streams import arrow
from control.export.streams.reader import MAX_ROWS, Batch, Scope, from_micros, to_micros
from control.export.streams.schemas import ISSUE_ROLLUPS
from control.export.tables import issue_change_numbers
from control.issues.references import ShortId

NUMBERED_AT_ONCE: Final = 500  # in one transaction
MAX_NUMBERED: Final = 100 * NUMBERED_AT_ONCE  # before one batch
_PAGE: Final = 10_000


class IssueRollups:
    """The stream of one organization at a time."""

    def __init__(self, database: Database) -> None:
        self._database = database

    async def read(self, scope: Scope, cursor: bytes | None) -> Batch | None:
        """As `StreamReader` has it."""
        await self._number(scope.org_id)
        after = _number(cursor)
        rows = await self._rows(scope, after, None, MAX_ROWS)
        if not rows:
            return None
        last, updated_us = rows[-1][1], rows[-1][-1]
        table = arrow.new_table(ISSUE_ROLLUPS, rows)
        return Batch(table, str(last).encode(), from_micros(updated_us), f"{last:020d}", len(rows) < MAX_ROWS)

    async def read_again(self, scope: Scope, cursor: bytes | None, until: bytes) -> Any:
        """As `StreamReader` has it."""
        rows = await self._rows(scope, _number(cursor), _number(until), MAX_ROWS)
        return arrow.new_table(ISSUE_ROLLUPS, rows)

    async def _number(self, org_id: str) -> None:
        for _ in range(MAX_NUMBERED // NUMBERED_AT_ONCE):
            async with self._database.read() as connection:
                if not await _find_unnumbered(connection, org_id, 1):
                    return
            async with self._database.write() as connection:
                await _number_some(connection, org_id)

    async def _rows(self, scope: Scope, after: int, until: int | None, limit: int) -> list[tuple[Any, ...]]:
        rows: list[tuple[Any, ...]] = []
        while len(rows) < limit:
            count = min(_PAGE, limit - len(rows))
            where = (issues.c.org_id == scope.org_id) & (issues.c.change_number > after)
            if until is not None:
                where &= issues.c.change_number <= until
            page = sa.select(issues).where(where).order_by(issues.c.change_number).limit(count)
            async with self._database.read() as connection:
                found = (await connection.execute(page)).mappings().all()
            rows += [_row(row, scope) for row in found if row["project_id"] in scope.projects]
            if len(found) < count:
                break
            after = found[-1]["change_number"]
        return rows


async def _find_unnumbered(connection: AsyncConnection, org_id: str, limit: int) -> list[str]:
    where = (issues.c.org_id == org_id) & issues.c.change_number.is_(None)
    found = sa.select(issues.c.id).where(where).order_by(issues.c.updated_at, issues.c.id).limit(limit)
    return list((await connection.execute(found)).scalars())


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


def _number(cursor: bytes | None) -> int:
    return 0 if cursor is None else int(cursor)


def _row(row: Mapping[Any, Any], scope: Scope) -> tuple[Any, ...]:
    slug = scope.projects[row["project_id"]]
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
