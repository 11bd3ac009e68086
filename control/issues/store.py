"""Issues in the database. Every function runs in the caller's transaction."""

import re
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any, Final, TypeVar

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import memberships, principals
from chassis.issues import IssueStatus, issue_fingerprints, issues
from control.issues.tables import IssueRecord, issue_projects

_CHUNK: Final = 500  # values per statement
MAX_FINGERPRINTS: Final = 50  # per issue
_PRINCIPAL_ID: Final = re.compile("prn_[0-9a-z]{26}")


T = TypeVar("T")


def in_chunks(values: Sequence[T], size: int = _CHUNK) -> list[Sequence[T]]:
    """Split the values into chunks, one for each statement."""
    return [values[start : start + size] for start in range(0, len(values), size)]


def without_none(values: Mapping[str, Any]) -> dict[str, Any]:
    """The values that are not None."""
    return {name: value for name, value in values.items() if value is not None}


async def read_in_chunks(
    connection: AsyncConnection, select: sa.Select[Any], column: sa.ColumnElement[Any], values: Iterable[Any]
) -> list[sa.Row[Any]]:
    """Read the rows whose column has one of the values. Each chunk of the values is read by its own statement, with its
    own order and limit.
    """
    found: list[sa.Row[Any]] = []
    for some in in_chunks(list(values)):
        found += (await connection.execute(select.where(column.in_(some)))).all()
    return found


async def insert_rows(connection: AsyncConnection, table: sa.Table, rows: Sequence[Mapping[str, Any]]) -> None:
    """Insert rows, if there are any."""
    if rows:
        await connection.execute(table.insert(), rows)


async def find(connection: AsyncConnection, project_id: int, issue_id: str) -> IssueRecord | None:
    """The issue of the project with this id."""
    return await _one(connection, issues.c.id == issue_id, issues.c.project_id == project_id)


async def find_anywhere(connection: AsyncConnection, issue_id: str) -> IssueRecord | None:
    """The issue with this id in any project, for callers that got the id from the database."""
    return await _one(connection, issues.c.id == issue_id)


async def find_fingerprints(connection: AsyncConnection, issue_ids: Sequence[str]) -> dict[str, list[bytes]]:
    """The fingerprints that lead to each issue, at most MAX_FINGERPRINTS per issue, including fingerprints of merged
    issues. Fingerprints of the current version come first.
    """
    columns = issue_fingerprints.c
    target = sa.func.coalesce(issues.c.merged_into, issues.c.id).label("target")
    order = columns.rules_version.desc(), columns.fingerprint
    found: dict[str, list[bytes]] = {}
    for some in in_chunks(issue_ids):
        ranked = (
            sa.select(target, columns.fingerprint, sa.func.row_number().over(partition_by=target, order_by=order))
            .join_from(issue_fingerprints, issues, issues.c.id == columns.issue_id)
            .where(issues.c.id.in_(some) | issues.c.merged_into.in_(some))
            .subquery()
        )
        rows = sa.select(ranked.c.target, ranked.c.fingerprint, ranked.c[2].label("position")).order_by(ranked.c[2])
        for issue_id, fingerprint, _ in await connection.execute(rows.where(ranked.c[2] <= MAX_FINGERPRINTS)):
            found.setdefault(issue_id, []).append(bytes(fingerprint))
    return found


async def find_by_ids(connection: AsyncConnection, ids: Iterable[str]) -> dict[str, IssueRecord]:
    """The issues with these ids."""
    found: dict[str, IssueRecord] = {}
    for some in in_chunks(list(ids)):
        found |= {issue.id: issue for issue in await _all(connection, sa.select(issues).where(issues.c.id.in_(some)))}
    return found


async def list_issues(
    connection: AsyncConnection,
    project_id: int,
    conditions: Sequence[sa.ColumnElement[bool]],
    order: str,
    after: tuple[datetime | int, str] | None,
    limit: int,
) -> list[IssueRecord]:
    """List at most `limit` issues, without merged ones, in descending order of the column `order`. The list starts
    behind `after`, which is a value of that column and an id.
    """
    column = issues.c[order]
    page = (
        sa.select(issues)
        .where(issues.c.project_id == project_id, issues.c.merged_into.is_(None), *conditions)
        .order_by(column.desc(), issues.c.id.desc())
        .limit(limit)
    )
    if after is not None:
        value, issue_id = after
        page = page.where((column < value) | ((column == value) & (issues.c.id < issue_id)))
    return await _all(connection, page)


def has_status(status: IssueStatus, now: datetime) -> sa.ColumnElement[bool]:
    """The condition that an issue has the status at a time. An issue that was ignored until then is unresolved."""
    ignored = issues.c.status == IssueStatus.IGNORED.value
    is_over = ignored & issues.c.ignored_until.is_not(None) & (issues.c.ignored_until <= now)
    if status is IssueStatus.IGNORED:
        return ignored & (issues.c.ignored_until.is_(None) | (issues.c.ignored_until > now))
    if status is IssueStatus.UNRESOLVED:
        return (issues.c.status == status.value) | is_over
    return issues.c.status == status.value


async def find_untracked(connection: AsyncConnection, project_id: int) -> sa.Row[Any, Any, Any] | None:
    """`occurrences`, `since` and `last` of errors of the project without an issue. None if every error got an issue."""
    columns = issue_projects.c
    statement = sa.select(
        columns.untracked_occurrences.label("occurrences"),
        columns.untracked_since.label("since"),
        columns.untracked_last.label("last"),
    ).where(columns.project_id == project_id, columns.untracked_occurrences > 0)
    return (await connection.execute(statement)).one_or_none()


async def is_assignable(connection: AsyncConnection, org_id: str, principal_id: str) -> bool:
    """Whether the principal is a member of the organization and not disabled."""
    if _PRINCIPAL_ID.fullmatch(principal_id) is None:  # a body may contain characters that no column accepts
        return False
    statement = (
        sa.select(principals.c.id)
        .join(memberships, memberships.c.principal_id == principals.c.id)
        .where(principals.c.id == principal_id, memberships.c.org_id == org_id, principals.c.disabled_at.is_(None))
    )
    return await connection.scalar(statement) is not None


async def _one(connection: AsyncConnection, *where: sa.ColumnElement[bool]) -> IssueRecord | None:
    row = (await connection.execute(sa.select(issues).where(*where))).mappings().one_or_none()
    return None if row is None else IssueRecord.from_row(row)


async def _all(connection: AsyncConnection, page: sa.Select[Any]) -> list[IssueRecord]:
    return [IssueRecord.from_row(row) for row in (await connection.execute(page)).mappings()]
