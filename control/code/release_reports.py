"""Records a report of a release, in the caller's transaction; the API and other systems report through it."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.changes.tables import ChangeKind
from chassis.errors import Conflict
from control.code.changes.repository import MAX_AGE, MAX_AHEAD, RELEASE_KEYS, NewChangeEvent, create_change
from control.code.commit_repository import (
    MAX_RELEASE_COMMITS,
    NewCommit,
    count_release_commits,
    link_to_release,
    mark_released,
    upsert_commits,
)
from control.code.fixes import Author, InRelease, read_all, store_references, update_issues
from control.code.release_repository import (
    ReleaseReport,
    add_projects,
    find_issues_of_release,
    list_project_ids,
    upsert_release,
)
from control.issues.references import ShortId
from control.issues.releases.repository import settle_next_release

SOURCE: Final = "release"  # of change events


class ReportedRelease(NamedTuple):
    """What a report did. `is_new`: in one of its projects."""

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
    nothing, one with more adds it. Raises Conflict for too many commits.
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
    is_new = bool(new_projects)
    return ReportedRelease(release_id, is_new, is_changed, upserted.changed, resolved, reopened, announced)


async def _require_room(connection: AsyncConnection, release_id: str) -> None:
    counts = await count_release_commits(connection, [release_id])
    if counts.get(release_id, 0) > MAX_RELEASE_COMMITS:
        raise Conflict(
            f"A release has at most {MAX_RELEASE_COMMITS} commits: report another version, "
            "or a shorter range of commits."
        )


async def _announce(
    connection: AsyncConnection,
    author: Author,
    release_id: str,
    report: ReleaseReport,
    project_ids: Mapping[str, int],
    environment: str | None,
) -> int:
    """Put the release on the time line of each project, once for each environment; returns the number of new change
    events. A release of long ago is left out.
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
