"""The commits that may have caused an issue, and its stack trace, which is in ClickHouse."""

from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.clickhouse import ClickHouse, QueryLimits
from control.code.commits import StoredCommit, stored_commit
from control.code.suspects.rules import MAX_COMMITS
from control.issues import store
from control.issues.releases.order import load_order
from control.issues.releases.tables import commits, release_commits, release_projects, releases

MAX_EARLIER_RELEASES: Final = 2_000  # of a project, the latest, among which the one before is found
MAX_RECENT_RELEASES: Final = 50  # of a project, whose repositories are its own
MAX_REPOSITORIES: Final = 20
MAX_CHARACTERS: Final = 8_000_000  # of messages and paths that are held in memory at once
_CHUNK: Final = 100  # commits that are loaded at once
WINDOW: Final = timedelta(days=14)  # before the first occurrence


@dataclass(frozen=True, slots=True)
class SuspectedIssue:
    """An issue whose cause is looked for."""

    project_id: int
    fingerprints: tuple[bytes, ...]
    first_seen: datetime
    last_seen: datetime
    first_release: str | None


class Candidates(NamedTuple):
    """The commits, newest first; `of_release`: those of the release, else those of the time before. `complete`: no
    commit was left out.
    """

    previous_release: str | None
    of_release: bool
    commits: list[StoredCommit]
    complete: bool


async def find_issue(connection: AsyncConnection, project_id: int, issue_id: str) -> SuspectedIssue | None:
    """The issue of the project with this id."""
    issue = await store.find(connection, project_id, issue_id)
    if issue is None:
        return None
    fingerprints = (await store.find_fingerprints(connection, [issue.id])).get(issue.id, [])
    all_fingerprints = tuple(dict.fromkeys((issue.fingerprint, *fingerprints)))
    return SuspectedIssue(project_id, all_fingerprints, issue.first_seen, issue.last_seen, issue.first_release)


async def find_candidates(connection: AsyncConnection, org_id: str, issue: SuspectedIssue) -> Candidates:
    """Commits of the issue's first release that the one before does not have; without a release with commits, those
    authored in WINDOW before the first occurrence, in repositories of the project.
    """
    previous: str | None = None
    if issue.first_release is not None:
        previous = await _previous_release(connection, issue.project_id, issue.first_release)
        ids = await _of_release(connection, org_id, issue.first_release, previous)
        if ids:
            found = await _load(connection, ids[:MAX_COMMITS])
            return Candidates(previous, True, found, len(found) == len(ids))
    ids = await _of_time(connection, org_id, issue)
    found = await _load(connection, ids[:MAX_COMMITS])
    return Candidates(previous, False, found, len(found) == len(ids))


async def _previous_release(connection: AsyncConnection, project_id: int, version: str) -> str | None:
    """The latest release of the project that is earlier than this one."""
    of_project = (
        sa.select(releases.c.version)
        .join_from(release_projects, releases, releases.c.id == release_projects.c.release_id)
        .where(release_projects.c.project_id == project_id)
        .order_by(release_projects.c.ordered_at.desc(), releases.c.id.desc())
        .limit(MAX_EARLIER_RELEASES)
    )
    versions = list((await connection.execute(of_project)).scalars())
    order = await load_order(connection, project_id, [*versions, version])
    return order.latest(one for one in versions if order.is_later(version, one))


async def _of_release(connection: AsyncConnection, org_id: str, version: str, previous: str | None) -> list[str]:
    """Ids of commits, newest first; one more than are considered, if there are more."""

    def named(name: str | None) -> sa.ScalarSelect[Any]:
        return sa.select(releases.c.id).where(releases.c.org_id == org_id, releases.c.version == name).scalar_subquery()

    before = release_commits.alias()
    known = sa.exists().where(before.c.release_id == named(previous), before.c.commit_id == commits.c.id)
    found = (
        sa.select(commits.c.id)
        .join_from(release_commits, commits, commits.c.id == release_commits.c.commit_id)
        .where(release_commits.c.release_id == named(version), ~known)
        .order_by(release_commits.c.position)
        .limit(MAX_COMMITS + 1)
    )
    return list((await connection.execute(found)).scalars())


async def _of_time(connection: AsyncConnection, org_id: str, issue: SuspectedIssue) -> list[str]:
    """The same of the time before the issue."""
    recent = (
        sa.select(release_projects.c.release_id)
        .where(release_projects.c.project_id == issue.project_id)
        .order_by(release_projects.c.ordered_at.desc(), release_projects.c.release_id.desc())
        .limit(MAX_RECENT_RELEASES)
    )
    of_recent = sa.select(release_commits.c.commit_id).where(release_commits.c.release_id.in_(recent))
    names = sa.select(commits.c.repository).distinct().where(commits.c.id.in_(of_recent))
    named = await connection.execute(names.order_by(commits.c.repository).limit(MAX_REPOSITORIES))
    repositories = list(named.scalars())
    if not repositories:
        return []
    found = sa.select(commits.c.id).where(
        commits.c.org_id == org_id,
        commits.c.repository.in_(repositories),
        commits.c.authored_at >= issue.first_seen - WINDOW,
        commits.c.authored_at <= issue.first_seen,
    )
    newest_first = found.order_by(commits.c.authored_at.desc(), commits.c.id.desc()).limit(MAX_COMMITS + 1)
    return list((await connection.execute(newest_first)).scalars())


async def _load(connection: AsyncConnection, ids: list[str]) -> list[StoredCommit]:
    """The commits in this order; fewer, if they are too large together."""
    found: list[StoredCommit] = []
    room = MAX_CHARACTERS
    for start in range(0, len(ids), _CHUNK):
        chunk = ids[start : start + _CHUNK]
        rows = await connection.execute(sa.select(commits).where(commits.c.id.in_(chunk)))
        by_id = {row["id"]: stored_commit(row) for row in rows.mappings()}
        for commit_id in chunk:
            room -= len(by_id[commit_id].message) + sum(map(len, by_id[commit_id].files or ()))
            if room < 0:
                return found
            found.append(by_id[commit_id])
    return found


LIMITS: Final = QueryLimits(max_seconds=10.0, max_memory_bytes=512 * 2**20, max_result_rows=1, max_threads=1)
NEAR: Final = timedelta(hours=1)  # around the times of the issue, which are exact in milliseconds

_SELECT: Final = (
    "SELECT stacktrace, release FROM error_occurrences WHERE project_id = {project:UInt64}"
    " AND hex(fingerprint) IN {fingerprints:Array(String)} AND stacktrace != ''"
    " AND time >= fromUnixTimestamp64Milli({from:Int64}, 'UTC') AND time < fromUnixTimestamp64Milli({to:Int64}, 'UTC')"
)
_FIRST: Final = f"{_SELECT} ORDER BY time, batch_id, row LIMIT 1"
_LAST: Final = f"{_SELECT} ORDER BY time DESC, batch_id DESC, row DESC LIMIT 1"


class StackTrace(NamedTuple):
    """A stack trace as it was sent, and the release that it is of; empty if it was not sent."""

    text: str
    release: str


async def read_stack_trace(clickhouse: ClickHouse, issue: SuspectedIssue) -> StackTrace | None:
    """That of the first occurrence with any of the issue's fingerprints, else of the latest; None if neither is stored
    with one. Raises StoreError.
    """
    begin, end = issue.first_seen, issue.last_seen + timedelta(milliseconds=1)
    for statement, since, until in ((_FIRST, begin, begin + NEAR), (_LAST, end - NEAR, end)):
        parameters = {
            "project": issue.project_id,
            "fingerprints": [one.hex().upper() for one in issue.fingerprints],
            "from": round(since.timestamp() * 1_000),
            "to": round(until.timestamp() * 1_000),
        }
        rows = await clickhouse.query(statement, parameters, limits=LIMITS)
        if rows:
            text, release = rows[0]
            return StackTrace(text.decode("utf-8", "replace") if isinstance(text, bytes) else str(text), str(release))
    return None
