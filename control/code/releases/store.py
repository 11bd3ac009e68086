"""Reported releases in the database, and the effects of a report. The API and other systems report through this module.
Every function runs in the caller's transaction.
"""

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import new_id, projects
from chassis.changes import ChangeKind
from chassis.errors import Conflict
from control.code.changes import MAX_AGE, MAX_AHEAD, RELEASE_KEYS, NewChangeEvent, create_change
from control.code.commits import (
    MAX_RELEASE_COMMITS,
    NewCommit,
    count_release_commits,
    link_to_release,
    mark_released,
    upsert_commits,
)
from control.code.fixes.updates import Author, InRelease, read_all, store_references, update_issues
from control.code.row_limits import delete_rows
from control.issues.references import ShortId
from control.issues.releases.store import settle_next_release
from control.issues.releases.tables import commit_issues, release_commits, release_projects, releases
from control.issues.store import insert_rows, without_none

MAX_RELEASES: Final = 10_000  # reported releases per organization; beyond it the releases reported first are deleted
MAX_NAMED: Final = 1_000  # issues that the commits of a release name as fixed
_PRUNED_AT_ONCE: Final = 100
SOURCE: Final = "release"  # the source of the change events


@dataclass(frozen=True, slots=True)
class ReleaseReport:
    """A report of a release. None: not reported."""

    version: str
    ref: str | None = None
    url: str | None = None
    released_at: datetime | None = None


async def upsert_release(
    connection: AsyncConnection, org_id: str, report: ReleaseReport, principal_id: str | None, now: datetime
) -> tuple[str, bool]:
    """Store the reported values of a release. Values that are not reported are not changed. Returns the release's id,
    and whether anything has changed.
    """
    where = (releases.c.org_id == org_id) & (releases.c.version == report.version)
    row = (await connection.execute(sa.select(releases).where(where))).mappings().one_or_none()
    values = without_none({"ref": report.ref, "url": report.url, "released_at": report.released_at})
    if row is None:
        await _prune(connection, org_id)
        release_id = new_id("rel")
        new = {"id": release_id, "org_id": org_id, "version": report.version, "created_by": principal_id}
        await connection.execute(releases.insert().values({**new, "reported_at": now, "created_at": now, **values}))
        return release_id, True
    values = {name: value for name, value in values.items() if row[name] != value}
    if row["reported_at"] is None:
        values |= {"reported_at": now, "created_by": principal_id}
    if values:
        await connection.execute(releases.update().where(releases.c.id == row["id"]).values(values))
    if "released_at" in values:
        of_release = release_projects.c.release_id == row["id"]
        await connection.execute(release_projects.update().where(of_release).values(ordered_at=values["released_at"]))
    return row["id"], bool(values)


async def add_projects(
    connection: AsyncConnection, org_id: str, release_id: str, project_ids: Collection[int], now: datetime
) -> list[int]:
    """Add the release to these projects. Returns the projects in which it is new."""
    of_release = release_projects.c.release_id == release_id
    known = set((await connection.execute(sa.select(release_projects.c.project_id).where(of_release))).scalars())
    new = [project_id for project_id in project_ids if project_id not in known]
    released_at = await connection.scalar(sa.select(releases.c.released_at).where(releases.c.id == release_id))
    rows = [
        {"project_id": one, "release_id": release_id, "org_id": org_id, "ordered_at": released_at or now} for one in new
    ]
    await insert_rows(connection, release_projects, rows)
    return new


async def list_releases(
    connection: AsyncConnection,
    org_id: str,
    *,
    project_id: int | None,
    prefix: str | None,
    before_id: str | None,
    limit: int,
) -> Sequence[sa.Row[Any]]:
    """List at most `limit` releases, newest first, starting with the first release older than `before_id`."""
    page = sa.select(releases).where(releases.c.org_id == org_id).order_by(releases.c.id.desc()).limit(limit)
    if project_id is not None:
        of_release = release_projects.c.release_id == releases.c.id
        page = page.where(sa.exists().where(of_release, release_projects.c.project_id == project_id))
    if prefix is not None:  # LIKE would ignore case in SQLite
        page = page.where(releases.c.version >= prefix, releases.c.version < prefix + "\U0010ffff")
    if before_id is not None:
        page = page.where(releases.c.id < before_id)
    return (await connection.execute(page)).all()


async def find_projects_of(connection: AsyncConnection, release_ids: Sequence[str]) -> dict[str, list[Any]]:
    """The projects of releases (`slug`, `first_seen`), by release, in the order of slugs."""
    statement = (
        sa.select(release_projects.c.release_id, projects.c.slug, release_projects.c.first_seen)
        .join_from(release_projects, projects, projects.c.id == release_projects.c.project_id)
        .where(release_projects.c.release_id.in_(release_ids), projects.c.deleted_at.is_(None))
        .order_by(projects.c.slug)
    )
    by_release: dict[str, list[Any]] = {}
    for row in await connection.execute(statement):
        by_release.setdefault(row.release_id, []).append(row)
    return by_release


async def list_project_ids(connection: AsyncConnection, release_id: str) -> list[int]:
    """The ids of the projects that have the release."""
    statement = sa.select(release_projects.c.project_id).where(release_projects.c.release_id == release_id)
    return list((await connection.execute(statement.order_by(release_projects.c.project_id))).scalars())


async def find_issues_of_release(
    connection: AsyncConnection, release_id: str, project_ids: Collection[int]
) -> list[str]:
    """The issues of the projects that commits of the release name as fixed; at most MAX_NAMED."""
    statement = (
        sa.select(commit_issues.c.issue_id)
        .distinct()
        .join_from(release_commits, commit_issues, commit_issues.c.commit_id == release_commits.c.commit_id)
        .where(release_commits.c.release_id == release_id, commit_issues.c.project_id.in_(list(project_ids)))
        .order_by(commit_issues.c.issue_id)
    )
    return list((await connection.execute(statement.limit(MAX_NAMED))).scalars())


async def _prune(connection: AsyncConnection, org_id: str) -> None:
    """Delete the releases that were reported first, so that there is room for one more."""
    reported = (releases.c.org_id == org_id) & releases.c.reported_at.is_not(None)
    count = await connection.scalar(sa.select(sa.func.count()).select_from(releases).where(reported)) or 0
    surplus = min(count + 1 - MAX_RELEASES, _PRUNED_AT_ONCE)
    if surplus > 0:
        oldest = sa.select(releases.c.id).where(reported).order_by(releases.c.id).limit(surplus)
        await delete_rows(
            connection, oldest, releases.c.id, release_commits.c.release_id, release_projects.c.release_id
        )


class ReportedRelease(NamedTuple):
    """The effects of a report. `is_new`: the release is new in one of its projects."""

    id: str
    is_new: bool
    is_changed: bool
    commits_upserted: int
    issues_resolved: list[ShortId]
    issues_reopened: list[ShortId]
    changes_created: int


async def report_release(
    connection: AsyncConnection,
    author: Author,
    report: ReleaseReport,
    project_ids: Mapping[str, int],
    commits: Sequence[NewCommit],
    environment: str | None = None,
) -> ReportedRelease:
    """Store a release in these projects (ids by slug) with its commits, newest first. A repeated report changes
    nothing. A report with further data adds them. Raises Conflict for too many commits.
    """
    release_id, is_changed = await upsert_release(connection, author.org_id, report, author.principal_id, author.now)
    new_projects = await add_projects(connection, author.org_id, release_id, list(project_ids.values()), author.now)
    upserted = await upsert_commits(connection, author.org_id, commits, author.now)
    new_commits = await link_to_release(connection, author.org_id, release_id, list(upserted.ids.values()))
    if new_commits:
        await _require_room(connection, release_id)
    await mark_released(connection, new_commits, author.now)
    await store_references(connection, author, read_all(commits, author.org_slug), upserted.ids)
    scope = InRelease(report.version, await list_project_ids(connection, release_id))
    named = await find_issues_of_release(connection, release_id, new_projects) if new_projects else ()
    resolved, reopened = await update_issues(connection, author, new_commits, named, scope)
    for project_id in project_ids.values():
        await settle_next_release(connection, project_id, [report.version], author.now)
    announced = await _announce(connection, author, release_id, report, project_ids, environment)
    is_changed = is_changed or bool(announced or new_projects or new_commits or upserted.changed)
    return ReportedRelease(release_id, bool(new_projects), is_changed, upserted.changed, resolved, reopened, announced)


async def _require_room(connection: AsyncConnection, release_id: str) -> None:
    counts = await count_release_commits(connection, [release_id])
    if counts.get(release_id, 0) > MAX_RELEASE_COMMITS:
        raise Conflict(
            f"A release has at most {MAX_RELEASE_COMMITS} commits. Report another version, or a shorter range of "
            "commits."
        )


async def _announce(
    connection: AsyncConnection,
    author: Author,
    release_id: str,
    report: ReleaseReport,
    project_ids: Mapping[str, int],
    environment: str | None,
) -> int:
    """Put the release on the time line of each project, once per environment. Returns the number of new change events.
    A release of long ago is left out.
    """
    at = report.released_at or author.now
    if not author.now - MAX_AGE <= at <= author.now + MAX_AHEAD:
        return 0
    place = "" if environment is None else hashlib.sha256(environment.encode()).hexdigest()[:32]
    created = 0
    for project_id in project_ids.values():
        event = NewChangeEvent(
            kind=ChangeKind.RELEASE,
            title=report.version,
            at=at,
            source=SOURCE,
            project_id=project_id,
            environment=environment,
            release=report.version,
            url=report.url,
            dedupe_key=f"{RELEASE_KEYS}{release_id}:{project_id}:{place}",
            created_by=author.principal_id,
        )
        created += (await create_change(connection, author.org_id, event, author.now)).is_new
    return created
