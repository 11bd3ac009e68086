"""Commits in the database, by repository and hash. Every function runs in the caller's transaction."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import new_id
from control.code.messages import merge_of
from control.code.row_limits import RowLimit, delete_rows
from control.issues.references import IssueIndex, References
from control.issues.releases.tables import MAX_MESSAGE_LENGTH, code_reverts, commit_issues, commits, release_commits
from control.issues.store import in_chunks, insert_rows, read_in_chunks

MAX_COMMITS: Final = 200_000  # per organization; beyond it the commits reported first are deleted
MAX_RELEASE_COMMITS: Final = 5_000
MAX_FILES: Final = 1_000  # per commit
_PRUNED_AT_ONCE: Final = 1_000

_limit: Final = RowLimit(commits)


class CommitKey(NamedTuple):
    """Identifies a commit in an organization."""

    repository: str
    sha: str


@dataclass(frozen=True, slots=True)
class NewCommit:
    """A commit as it is reported. `files`: None if not reported. `message` may be longer than the part that is
    stored.
    """

    repository: str
    sha: str
    message: str
    author_name: str | None = None
    author_email: str | None = None
    authored_at: datetime | None = None
    url: str | None = None
    files: tuple[str, ...] | None = None
    files_truncated: bool = False

    @property
    def key(self) -> CommitKey:
        return CommitKey(self.repository, self.sha)


class DefaultBranchPush(NamedTuple):
    """A push to the default branch: its time by the platform's clock, its last commit, and the proposal that this
    commit merges.
    """

    at: datetime
    head: str
    number: str | None = None

    @classmethod
    def of(cls, pushed: Sequence[NewCommit], at: datetime) -> "DefaultBranchPush":
        """The push that consists of these commits, oldest first."""
        merge = merge_of(pushed[-1].message)
        return cls(at, pushed[-1].sha, merge.number if merge.is_merge else None)


class UpsertedCommits(NamedTuple):
    """The ids of all reported commits in their order, the ids of the new commits, and the number of commits that are
    new or had no files before.
    """

    ids: dict[CommitKey, str]
    new: frozenset[CommitKey]
    changed: int


async def make_room(connection: AsyncConnection, org_id: str, new: int) -> None:
    """Delete the commits that were reported first, so that there is room for `new` commits. Call it before any commit
    is looked up.
    """
    surplus = await _limit.find_surplus(connection, org_id, new, MAX_COMMITS, _PRUNED_AT_ONCE)
    if surplus:
        oldest = sa.select(commits.c.id).where(commits.c.org_id == org_id).order_by(commits.c.id).limit(surplus)
        references = commit_issues.c.commit_id, release_commits.c.commit_id, code_reverts.c.source_id
        await delete_rows(connection, oldest, commits.c.id, *references)


async def upsert_commits(
    connection: AsyncConnection,
    org_id: str,
    reported: Sequence[NewCommit],
    now: datetime,
    arrived_by: DefaultBranchPush | None = None,
) -> UpsertedCommits:
    """Store commits that are new, and the files of commits that were reported without files. Nothing else changes.
    `arrived_by`: how the new commits reached the default branch.
    """
    wanted = {one.key: one for one in reported}
    await make_room(connection, org_id, len(wanted))
    known = await find_known(connection, org_id, wanted)
    new = {key: new_id("cmt") for key in wanted if key not in known}
    rows = [_row(wanted[key], commit_id, org_id, arrived_by, now) for key, commit_id in new.items()]
    await insert_rows(connection, commits, rows)
    completed = [
        {"of_commit": known[key].id, "paths": list(one.files), "cut": one.files_truncated}
        for key, one in wanted.items()
        if key in known and known[key].lacks_files and one.files is not None
    ]
    if completed:
        values: dict[str, Any] = {"files": sa.bindparam("paths"), "files_truncated": sa.bindparam("cut")}
        update = commits.update().where(commits.c.id == sa.bindparam("of_commit")).values(values)
        await connection.execute(update, completed)
    return UpsertedCommits(
        {key: new.get(key) or known[key].id for key in wanted}, frozenset(new), len(rows) + len(completed)
    )


async def insert_commits(
    connection: AsyncConnection,
    org_id: str,
    new: Mapping[CommitKey, tuple[NewCommit, DefaultBranchPush | None]],
    now: datetime,
) -> None:
    """Store commits that are not stored yet, each with the push that brought it to the default branch."""
    await insert_rows(
        connection,
        commits,
        [_row(one, new_id("cmt"), org_id, arrived_by, now) for one, arrived_by in new.values()],
    )


async def find_known(
    connection: AsyncConnection, org_id: str, keys: Iterable[CommitKey]
) -> dict[CommitKey, sa.Row[Any]]:
    """Find the commits that are stored: `id`, `lacks_files`."""
    found: dict[CommitKey, sa.Row[Any]] = {}
    pair, lacks_files = sa.tuple_(commits.c.repository, commits.c.sha), commits.c.files.is_(sa.null())
    columns = (commits.c.repository, commits.c.sha, commits.c.id, lacks_files.label("lacks_files"))
    for chunk in in_chunks(sorted(set(keys))):
        by_sha = commits.c.sha.in_(sorted({key.sha for key in chunk}))  # SQLite uses no index for pairs of columns
        where = (commits.c.org_id == org_id) & by_sha & pair.in_([tuple(key) for key in chunk])
        for row in await connection.execute(sa.select(*columns).where(where)):
            found[CommitKey(row.repository, row.sha)] = row
    return found


async def link_to_release(
    connection: AsyncConnection, org_id: str, release_id: str, commit_ids: Sequence[str]
) -> list[str]:
    """Add commits to a release, newest first, behind the commits that it has. Returns the commits that are new in
    it.
    """
    position = release_commits.c.position
    of_release = release_commits.c.release_id == release_id
    last = await connection.scalar(sa.select(sa.func.max(position)).where(of_release))
    linked = sa.select(release_commits.c.commit_id).where(of_release)
    known = {row.commit_id for row in await read_in_chunks(connection, linked, release_commits.c.commit_id, commit_ids)}
    new = [commit_id for commit_id in commit_ids if commit_id not in known]
    rows = [
        {"release_id": release_id, "commit_id": commit_id, "org_id": org_id, "position": number}
        for number, commit_id in enumerate(new, 0 if last is None else last + 1)
    ]
    await insert_rows(connection, release_commits, rows)
    return new


async def link_to_issues(
    connection: AsyncConnection, org_id: str, references: Mapping[str, References], index: IssueIndex
) -> list[tuple[str, str]]:
    """Store which issues commits name, by id of the commit. Returns the new pairs of commit and issue."""
    named = {
        (commit_id, issue.id): issue.project_id for commit_id, one in references.items() for issue in index.resolve(one)
    }
    pairs = sa.select(commit_issues.c.commit_id, commit_issues.c.issue_id)
    commit_ids = sorted({commit_id for commit_id, _ in named})
    linked = await read_in_chunks(connection, pairs, commit_issues.c.commit_id, commit_ids)
    known = {(row.commit_id, row.issue_id) for row in linked}
    new = [pair for pair in named if pair not in known]
    rows = [
        {"commit_id": commit_id, "issue_id": issue_id, "org_id": org_id, "project_id": named[commit_id, issue_id]}
        for commit_id, issue_id in new
    ]
    await insert_rows(connection, commit_issues, rows)
    return new


async def put_on_default_branch(
    connection: AsyncConnection, known: Mapping[str, NewCommit], arrived_by: DefaultBranchPush
) -> list[str]:
    """Store how commits, by id, reached the default branch. The first push counts, even if it is reported after later
    pushes. Returns the ids of the changed commits.
    """
    select = sa.select(commits.c.id, commits.c.default_branch_at, commits.c.default_branch_head)
    changed = [
        row.id
        for row in await read_in_chunks(connection, select, commits.c.id, known)
        if row.default_branch_at is None
        or (arrived_by.at, arrived_by.head) < (row.default_branch_at, row.default_branch_head or "")
    ]
    if changed:
        names = ("default_branch_at", "default_branch_head", "proposal_number")
        update = commits.update().where(commits.c.id == sa.bindparam("of_commit"))
        rows_changed = [{"of_commit": one} | _default_branch_columns(known[one], arrived_by, "new_") for one in changed]
        await connection.execute(update.values({name: sa.bindparam(f"new_{name}") for name in names}), rows_changed)
    return changed


async def mark_released(connection: AsyncConnection, commit_ids: Sequence[str], now: datetime) -> None:
    """Store when a release was first reported with the commits."""
    for chunk in in_chunks(commit_ids):
        where = commits.c.id.in_(chunk) & commits.c.released_at.is_(None)
        await connection.execute(commits.update().where(where).values(released_at=now))


async def list_release_commits(
    connection: AsyncConnection, release_id: str, after: int | None, limit: int
) -> Sequence[sa.Row[Any]]:
    """At most `limit` commits of a release with their positions, newest first."""
    page = (
        sa.select(release_commits.c.position, commits)
        .join_from(release_commits, commits, commits.c.id == release_commits.c.commit_id)
        .where(release_commits.c.release_id == release_id)
        .order_by(release_commits.c.position)
        .limit(limit)
    )
    if after is not None:
        page = page.where(release_commits.c.position > after)
    return (await connection.execute(page)).all()


async def count_release_commits(connection: AsyncConnection, release_ids: Iterable[str]) -> dict[str, int]:
    """The number of commits by release. Releases without commits are missing."""
    counts = (
        sa.select(release_commits.c.release_id, sa.func.count().label("commits"))
        .where(release_commits.c.release_id.in_(list(release_ids)))
        .group_by(release_commits.c.release_id)
    )
    return {row.release_id: row.commits for row in await connection.execute(counts)}


def _row(
    one: NewCommit, commit_id: str, org_id: str, arrived_by: DefaultBranchPush | None, now: datetime
) -> dict[str, Any]:
    return {
        "id": commit_id,
        "org_id": org_id,
        "repository": one.repository,
        "sha": one.sha,
        "message": one.message[:MAX_MESSAGE_LENGTH],
        "author_name": one.author_name,
        "author_email": one.author_email,
        "authored_at": one.authored_at,
        "url": one.url,
        "files": None if one.files is None else list(one.files),
        "files_truncated": one.files_truncated,
        "created_at": now,
    } | _default_branch_columns(one, arrived_by)


def _default_branch_columns(one: NewCommit, arrived_by: DefaultBranchPush | None, prefix: str = "") -> dict[str, Any]:
    number = merge_of(one.message).number or (None if arrived_by is None else arrived_by.number)
    return {
        f"{prefix}default_branch_at": None if arrived_by is None else arrived_by.at,
        f"{prefix}default_branch_head": None if arrived_by is None else arrived_by.head,
        f"{prefix}proposal_number": number,
    }
