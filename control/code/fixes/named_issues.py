"""Finds and changes the issues that commits and proposals name, all issues together. The number of statements does not
grow with the number of issues, except for one statement per chunk, because a report holds the write transaction.

Every function runs in the caller's transaction.
"""

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import projects
from chassis.db.database import to_milliseconds
from chassis.issues import IssueStatus, issues
from control.identity.organizations.organization_store import ResolveOnMerge
from control.issues.lifecycle import OPEN_STATE, activity_row
from control.issues.references import IssueIndex, NamedIssue, References, ShortId
from control.issues.releases.store import find_latest_version
from control.issues.store import find_by_ids, in_chunks, insert_rows, read_in_chunks, without_none
from control.issues.tables import ActivityKind, IssueRecord, issue_activity


class NamedChange(NamedTuple):
    """An issue, and the data of the activity entry that explains its change."""

    issue: NamedIssue
    data: Mapping[str, object]


SELECT_NAMED: Final = sa.select(issues.c.id, issues.c.project_id, projects.c.slug, issues.c.number).join_from(
    issues, projects, projects.c.id == issues.c.project_id
)


def named_issue(row: Any) -> NamedIssue:
    """The issue in a row of SELECT_NAMED."""
    return NamedIssue(row.id, row.project_id, ShortId(row.slug, row.number))


async def find_named(connection: AsyncConnection, org_id: str, references: Iterable[References]) -> IssueIndex:
    """The issues of the organization that these texts name."""
    given = list(references)
    names = sorted({name for one in given for name in one.short_ids})
    ids = sorted({issue_id for one in given for issue_id in one.issue_ids})
    project_ids = await _find_projects(connection, org_id, sorted({name.project_slug for name in names}))
    found: list[NamedIssue] = []
    conditions: list[sa.ColumnElement[bool]] = [issues.c.id.in_(some) for some in in_chunks(ids)]
    for slug, of_slug in groupby(names, lambda name: name.project_slug):  # SQLite uses no index for pairs of columns
        if slug in project_ids:
            of_project = issues.c.project_id == project_ids[slug]
            numbers = [name.number for name in of_slug]
            conditions += [of_project & issues.c.number.in_(some) for some in in_chunks(numbers)]
    for where in conditions:
        rows = SELECT_NAMED.where(issues.c.org_id == org_id, projects.c.deleted_at.is_(None), where)
        found += [named_issue(row) for row in await connection.execute(rows)]
    return IssueIndex({one.short_id: one for one in found}, {one.id: one for one in found})


async def resolve_all(
    connection: AsyncConnection,
    changes: Sequence[NamedChange],
    *,
    now: datetime,
    by: str | None,
    in_release: str | None = None,
    decided_at: datetime | None,
) -> list[ShortId]:
    """Resolve issues in a release. By default they are resolved in the release after the latest one of their project,
    or at once, depending on the project's settings. Returns the issues that were not resolved before, in their order.
    `decided_at`: the time of the decision, if code is not the cause.
    """
    merged = await _load_merged(connection, changes)
    open_ones = _once(changes, {one: each for one, each in merged.items() if each.status is not IssueStatus.RESOLVED})
    after: dict[int, str | None] = {}
    if in_release is None:
        for project_id in await _find_waiting(connection, {issue.project_id for issue, _ in open_ones}):
            after[project_id] = await find_latest_version(connection, project_id)
    rows = []
    decided = _decided(IssueStatus.RESOLVED, decided_at)
    for version in sorted({after.get(issue.project_id) for issue, _ in open_ones}, key=lambda one: one or ""):
        values = {
            "status": IssueStatus.RESOLVED.value,
            "resolved_at": to_milliseconds(now),
            "resolved_in_release": in_release,
            "resolved_after_release": version,
        }
        of_version = [(issue, change) for issue, change in open_ones if after.get(issue.project_id) == version]
        await _set(connection, [issue.id for issue, _ in of_version], {**OPEN_STATE, **values, **decided}, now)
        releases = without_none({"inRelease": in_release, "afterRelease": version})
        rows += [
            activity_row(issue, ActivityKind.RESOLVED, now, by, {**releases, **change.data})
            for issue, change in of_version
        ]
    await insert_rows(connection, issue_activity, rows)
    return list(dict.fromkeys(change.issue.short_id for _, change in open_ones))


async def reopen_all(
    connection: AsyncConnection,
    changes: Sequence[NamedChange],
    *,
    now: datetime,
    by: str | None,
    decided_at: datetime | None,
) -> list[ShortId]:
    """Reopen issues. Returns the issues that were not open before, in their order. `decided_at`: the time of the
    decision, if code is not the cause.
    """
    merged = await _load_merged(connection, changes)
    closed = {one: each for one, each in merged.items() if each.status_at(now) is not IssueStatus.UNRESOLVED}
    reopened = _once(changes, closed)
    decided = _decided(IssueStatus.UNRESOLVED, decided_at)
    await _set(connection, [issue.id for issue, _ in reopened], {**OPEN_STATE, **decided}, now)
    await insert_rows(
        connection,
        issue_activity,
        [activity_row(issue, ActivityKind.UNRESOLVED, now, by, change.data) for issue, change in reopened],
    )
    return list(dict.fromkeys(change.issue.short_id for _, change in reopened))


async def note_all(
    connection: AsyncConnection, changes: Sequence[NamedChange], kind: ActivityKind, *, now: datetime, by: str | None
) -> None:
    """Append an entry to the activity of each issue."""
    merged = await _load_merged(connection, changes)
    found = [(merged[change.issue.id], change) for change in changes if change.issue.id in merged]
    await insert_rows(
        connection, issue_activity, [activity_row(issue, kind, now, by, change.data) for issue, change in found]
    )


def _decided(status: IssueStatus, at: datetime | None) -> dict[str, object]:
    return {} if at is None else {"decided_status": status.value, "decided_at": to_milliseconds(at)}


async def _find_projects(connection: AsyncConnection, org_id: str, slugs: Sequence[str]) -> dict[str, int]:
    of_org = sa.select(projects.c.slug, projects.c.id).where(
        projects.c.org_id == org_id, projects.c.deleted_at.is_(None)
    )
    return {row.slug: row.id for row in await read_in_chunks(connection, of_org, projects.c.slug, slugs)}


async def _find_waiting(connection: AsyncConnection, project_ids: Iterable[int]) -> list[int]:
    """Find the projects in which a merge resolves issues in the next release."""
    waiting = sa.select(projects.c.id).where(projects.c.resolve_on_merge == ResolveOnMerge.NEXT_RELEASE.value)
    return sorted(row.id for row in await read_in_chunks(connection, waiting, projects.c.id, sorted(project_ids)))


async def _load_merged(connection: AsyncConnection, changes: Sequence[NamedChange]) -> dict[str, IssueRecord]:
    """Load the issues by id. A merged issue is replaced by the issue into which it was merged."""
    own = await find_by_ids(connection, sorted({change.issue.id for change in changes}))
    targets = await find_by_ids(
        connection, sorted({one.merged_into for one in own.values() if one.merged_into is not None})
    )
    merged: dict[str, IssueRecord] = {}
    for issue_id, issue in own.items():
        target = issue if issue.merged_into is None else targets.get(issue.merged_into)
        if target is not None:
            merged[issue_id] = target
    return merged


def _once(changes: Sequence[NamedChange], merged: Mapping[str, IssueRecord]) -> list[tuple[IssueRecord, NamedChange]]:
    """The issues among `merged`, each with its first change."""
    found: dict[str, tuple[IssueRecord, NamedChange]] = {}
    for change in changes:
        issue = merged.get(change.issue.id)
        if issue is not None:
            found.setdefault(issue.id, (issue, change))
    return list(found.values())


async def _set(connection: AsyncConnection, ids: Sequence[str], values: Mapping[str, Any], now: datetime) -> None:
    for some in in_chunks(ids):
        await connection.execute(
            issues.update().where(issues.c.id.in_(some)).values({**values, "updated_at": to_milliseconds(now)})
        )
