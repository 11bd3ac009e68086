"""Issues in the database. Every function runs in the caller's transaction."""

import re
from collections.abc import Collection, Iterable, Sequence
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import memberships, principals, projects
from chassis.issues import IssueStatus, issue_fingerprints, issues
from control.issues.counting.occurrences import IssueKey
from control.issues.counting.regrouping import FingerprintLink, oldest_upgraded
from control.issues.tables import IssueRecord, issue_projects
from proto.grouping.fingerprint import FINGERPRINT_VERSION

MAX_KEYS: Final = 500  # of one statement
MAX_FINGERPRINTS: Final = 50  # of one issue
_PRINCIPAL_ID: Final = re.compile("prn_[0-9a-z]{26}")


async def find(connection: AsyncConnection, project_id: int, issue_id: str) -> IssueRecord | None:
    """The issue of the project with this id."""
    return await _one(connection, issues.c.id == issue_id, issues.c.project_id == project_id)


async def find_anywhere(connection: AsyncConnection, issue_id: str) -> IssueRecord | None:
    """The issue with this id, of any project: for callers that know it from the database."""
    return await _one(connection, issues.c.id == issue_id)


async def find_links(connection: AsyncConnection, keys: Iterable[IssueKey]) -> dict[IssueKey, FingerprintLink]:
    """The issues that count the occurrences of fingerprints, by project and fingerprint."""
    by_project: dict[int, list[bytes]] = {}
    for project_id, fingerprint in keys:
        by_project.setdefault(project_id, []).append(fingerprint)
    found: dict[IssueKey, FingerprintLink] = {}
    own, columns = issues.alias(), issue_fingerprints.c
    select = (
        sa.select(columns.fingerprint.label("of_fingerprint"), columns.rules_version, columns.since_us, *issues.c)
        .join_from(issue_fingerprints, own, own.c.id == columns.issue_id)
        .join(issues, issues.c.id == sa.func.coalesce(own.c.merged_into, own.c.id))
    )
    for project_id, fingerprints in by_project.items():  # SQLite finds pairs of columns by reading the whole table
        for start in range(0, len(fingerprints), MAX_KEYS):
            in_chunk = columns.fingerprint.in_(fingerprints[start : start + MAX_KEYS])
            rows = await connection.execute(select.where(columns.project_id == project_id, in_chunk))
            for row in rows.mappings():
                link = FingerprintLink(IssueRecord.from_row(row), row["rules_version"], row["since_us"])
                found[project_id, bytes(row["of_fingerprint"])] = link
    return found


async def find_pending(connection: AsyncConnection, project_ids: Collection[int], stored_us: int) -> set[int]:
    """Those of the projects that have a pending fingerprint: one of an earlier version of which nothing shows what it
    has become, and which is not left to itself at this storage time, in microseconds.
    """
    columns = issue_fingerprints.c
    is_earlier = columns.rules_version.in_(range(1, FINGERPRINT_VERSION))
    is_pending = is_earlier & (columns.since_us > oldest_upgraded(stored_us))
    of_project = sa.exists().where(columns.project_id == projects.c.id, is_pending)
    found = sa.select(projects.c.id).where(projects.c.id.in_(project_ids), of_project)
    return set((await connection.execute(found)).scalars())


async def find_fingerprints(connection: AsyncConnection, issue_ids: Sequence[str]) -> dict[str, list[bytes]]:
    """The fingerprints that lead to each issue, at most MAX_FINGERPRINTS, also those of issues merged into it. Those of
    the current version come first.
    """
    columns = issue_fingerprints.c
    target = sa.func.coalesce(issues.c.merged_into, issues.c.id).label("target")
    order = columns.rules_version.desc(), columns.fingerprint
    found: dict[str, list[bytes]] = {}
    for start in range(0, len(issue_ids), MAX_KEYS):
        some = issue_ids[start : start + MAX_KEYS]
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
    wanted, found = list(ids), {}
    for start in range(0, len(wanted), MAX_KEYS):
        for issue in await _all(connection, sa.select(issues).where(issues.c.id.in_(wanted[start : start + MAX_KEYS]))):
            found[issue.id] = issue
    return found


async def list_issues(
    connection: AsyncConnection,
    project_id: int,
    conditions: Sequence[sa.ColumnElement[bool]],
    order: str,
    after: tuple[datetime | int, str] | None,
    limit: int,
) -> list[IssueRecord]:
    """At most `limit` issues, without those that were merged, by the column `order`, descending, starting with the
    first one behind `after`: the value of that column, and the id.
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
    """The status at a time: what is ignored until then is unresolved."""
    ignored = issues.c.status == IssueStatus.IGNORED.value
    is_over = ignored & issues.c.ignored_until.is_not(None) & (issues.c.ignored_until <= now)
    if status is IssueStatus.IGNORED:
        return ignored & (issues.c.ignored_until.is_(None) | (issues.c.ignored_until > now))
    if status is IssueStatus.UNRESOLVED:
        return (issues.c.status == status.value) | is_over
    return issues.c.status == status.value


async def find_untracked(connection: AsyncConnection, project_id: int) -> sa.Row[Any, Any, Any] | None:
    """`occurrences`, `since`, `last` of errors of the project without an issue; None if every one got its issue."""
    columns = issue_projects.c
    found = sa.select(
        columns.untracked_occurrences.label("occurrences"),
        columns.untracked_since.label("since"),
        columns.untracked_last.label("last"),
    ).where(columns.project_id == project_id, columns.untracked_occurrences > 0)
    return (await connection.execute(found)).one_or_none()


async def is_assignable(connection: AsyncConnection, org_id: str, principal_id: str) -> bool:
    """Whether the principal is a member of the organization and not disabled."""
    if _PRINCIPAL_ID.fullmatch(principal_id) is None:  # a body may hold characters that no column accepts
        return False
    found = (
        sa.select(principals.c.id)
        .join(memberships, memberships.c.principal_id == principals.c.id)
        .where(principals.c.id == principal_id, memberships.c.org_id == org_id, principals.c.disabled_at.is_(None))
    )
    return await connection.scalar(found) is not None


async def _one(connection: AsyncConnection, *where: sa.ColumnElement[bool]) -> IssueRecord | None:
    row = (await connection.execute(sa.select(issues).where(*where))).mappings().one_or_none()
    return None if row is None else IssueRecord.from_row(row)


async def _all(connection: AsyncConnection, page: sa.Select[Any]) -> list[IssueRecord]:
    return [IssueRecord.from_row(row) for row in (await connection.execute(page)).mappings()]
