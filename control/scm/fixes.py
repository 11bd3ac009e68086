"""What commits do to issues: a release with a commit that names an issue resolves it, a revert reopens it.

Every function runs in the caller's transaction.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import projects
from chassis.issues.tables import issues
from control.issues.lifecycle import add_activity, reopen, resolve
from control.issues.references import (
    NamedIssue,
    References,
    ShortId,
    find_issues,
    fixed_by_commit,
    reverted_commits,
)
from control.issues.tables import ActivityKind
from control.releases.tables import (
    ProposalState,
    commit_issues,
    commits,
    proposal_issues,
    proposals,
    release_commits,
    release_projects,
)
from control.scm.commit_repository import CommitKey, NewCommit, StoredCommit, find_by_hash, link_to_issues

MAX_REVERTS: Final = 200  # commits that revert others, of one report
_REVERT_LIKE: Final = "%This reverts commit %"


@dataclass(frozen=True, slots=True)
class Author:
    """Who reports, in which organization, and when."""

    org_id: str
    org_slug: str
    principal_id: str | None
    now: datetime


class ReleaseScope(NamedTuple):
    """A release, what a report added to it, and the projects in which it is known: all of them, and those new to it."""

    id: str
    version: str
    new_commits: Collection[str]
    project_ids: Collection[int]
    new_project_ids: Collection[int]


class _Fix(NamedTuple):
    """A commit of a release that names an issue."""

    issue: NamedIssue
    commit_id: str
    key: CommitKey


async def note_references(
    connection: AsyncConnection, author: Author, reported: Sequence[NewCommit], ids: Mapping[CommitKey, str]
) -> None:
    """Store which issues the commits name as fixed, with an activity for each that is new."""
    references = {ids[one.key]: fixed_by_commit(one.message, author.org_slug) for one in reported}
    references = {commit_id: named for commit_id, named in references.items() if named != References()}
    if not references:
        return
    index = await find_issues(connection, author.org_id, references.values())
    keys = {commit_id: key for key, commit_id in ids.items()}
    for commit_id, issue_id in await link_to_issues(connection, author.org_id, references, index):
        data = {"repository": keys[commit_id].repository, "sha": keys[commit_id].sha}
        await _note(connection, author, issue_id, ActivityKind.COMMIT, data)


async def resolve_fixed(connection: AsyncConnection, author: Author, release: ReleaseScope) -> list[ShortId]:
    """Resolve in the release what its commits fix: the issues of its projects that its new commits name, and those of
    its new projects that any of its commits name. Not what an earlier release of the project has with the same commit,
    nor what another commit of the release reverts.
    """
    fixes = await _find_fixes(connection, release)
    if not fixes:
        return []
    reverted = await _reverted_in(connection, release.id)
    resolved: dict[ShortId, None] = {}
    for fix in fixes:
        if any(fix.key.repository == key.repository and fix.key.sha.startswith(key.sha) for key in reverted):
            continue
        data = {"repository": fix.key.repository, "sha": fix.key.sha}
        if await resolve(
            connection,
            fix.issue.id,
            now=author.now,
            by=author.principal_id,
            in_release=release.version,
            data=data,
        ):
            resolved[fix.issue.short_id] = None
    return list(resolved)


async def reopen_reverted(connection: AsyncConnection, author: Author, new: Iterable[NewCommit]) -> list[ShortId]:
    """Reopen what the commits fixed that these revert: issues that the reverted commit names, and those of the proposal
    that it merged, unless a later commit fixes them again.
    """
    reverts = [one for one in new if reverted_commits(one.message)][:MAX_REVERTS]
    reopened: dict[ShortId, None] = {}
    for one in reverts:
        for start in reverted_commits(one.message):
            for issue in await _fixed_by_hash(connection, author.org_id, one.repository, start):
                data = {"repository": one.repository, "sha": one.sha, "reverts": start}
                if await reopen(connection, issue.id, now=author.now, by=author.principal_id, data=data):
                    reopened[issue.short_id] = None
    return list(reopened)


async def _find_fixes(connection: AsyncConnection, release: ReleaseScope) -> list[_Fix]:
    """In order of commits and issues."""
    if not release.new_commits and not release.new_project_ids:
        return []
    other, known = release_commits.alias(), release_projects.alias()
    earlier = (
        sa.select(sa.literal(1))
        .join_from(other, known, known.c.release_id == other.c.release_id)
        .where(
            other.c.commit_id == commit_issues.c.commit_id,
            other.c.release_id < release.id,
            known.c.project_id == issues.c.project_id,
        )
    )
    found = (
        _SELECT_ISSUES.add_columns(commits.c.id.label("commit_id"), commits.c.repository, commits.c.sha)
        .join(commit_issues, commit_issues.c.issue_id == issues.c.id)
        .join(commits, commits.c.id == commit_issues.c.commit_id)
        .join(release_commits, release_commits.c.commit_id == commits.c.id)
        .where(
            release_commits.c.release_id == release.id,
            issues.c.project_id.in_(list(release.project_ids)),
            ~sa.exists(earlier),
        )
        .order_by(release_commits.c.position, issues.c.id)
    )
    return [
        _Fix(_named(row), row.commit_id, CommitKey(row.repository, row.sha))
        for row in await connection.execute(found)
        if row.commit_id in release.new_commits or row.project_id in release.new_project_ids
    ]


async def _reverted_in(connection: AsyncConnection, release_id: str) -> set[CommitKey]:
    """What commits of the release revert: repositories, and the beginnings of hashes."""
    found = (
        sa.select(commits.c.repository, commits.c.message)
        .join_from(release_commits, commits, commits.c.id == release_commits.c.commit_id)
        .where(release_commits.c.release_id == release_id, commits.c.message.like(_REVERT_LIKE))
        .limit(MAX_REVERTS)
    )
    return {
        CommitKey(row.repository, start)
        for row in await connection.execute(found)
        for start in reverted_commits(row.message)
    }


async def _fixed_by_hash(connection: AsyncConnection, org_id: str, repository: str, start: str) -> list[NamedIssue]:
    commit = await find_by_hash(connection, org_id, repository, start)
    found = [] if commit is None else await _fixed_by_commit(connection, commit)
    merge = (proposals.c.org_id == org_id) & (proposals.c.repository == repository)
    merge &= (proposals.c.merge_sha >= start) & (proposals.c.merge_sha < start + "g")
    merged = (
        _SELECT_ISSUES.join(proposal_issues, proposal_issues.c.issue_id == issues.c.id)
        .join(proposals, proposals.c.id == proposal_issues.c.proposal_id)
        .where(merge, proposals.c.state == ProposalState.MERGED.value)
        .order_by(issues.c.id)
    )
    return [*found, *(_named(row) for row in await connection.execute(merged))]


async def _fixed_by_commit(connection: AsyncConnection, commit: StoredCommit) -> list[NamedIssue]:
    """The issues that the commit names, and that no commit names that was reported later."""
    later = commit_issues.alias()
    again = sa.exists().where(later.c.issue_id == issues.c.id, later.c.commit_id > commit.id)
    found = (
        _SELECT_ISSUES.join(commit_issues, commit_issues.c.issue_id == issues.c.id)
        .where(commit_issues.c.commit_id == commit.id, ~again)
        .order_by(issues.c.id)
    )
    return [_named(row) for row in await connection.execute(found)]


_SELECT_ISSUES: Final = sa.select(issues.c.id, issues.c.project_id, projects.c.slug, issues.c.number).join_from(
    issues, projects, projects.c.id == issues.c.project_id
)


def _named(row: Any) -> NamedIssue:
    return NamedIssue(row.id, row.project_id, ShortId(row.slug, row.number))


async def _note(
    connection: AsyncConnection, author: Author, issue_id: str, kind: ActivityKind, data: Mapping[str, object]
) -> None:
    await add_activity(connection, issue_id, kind, now=author.now, by=author.principal_id, data=data)
