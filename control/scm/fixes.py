"""What commits do to issues: a release with a commit that names an issue resolves it, a revert reopens it.

Every function runs in the caller's transaction, in a number of statements that is bounded by the limits below.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import projects
from chassis.issues.tables import issues
from control.issues.references import NamedIssue, References, ShortId, fixed_by_commit, reverted_commits
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
from control.scm.commit_repository import CommitKey, NewCommit, find_by_hashes, link_to_issues
from control.scm.issue_changes import (
    SELECT_NAMED,
    NamedChange,
    chunks,
    find_named,
    named_issue,
    note_all,
    reopen_all,
    resolve_all,
)

MAX_REVERTS: Final = 200  # different hashes that the commits of a report revert, newest first
MAX_REPORT_REFERENCES: Final = 1_000  # of all commits of a report, newest first
MAX_REPORT_TEXT: Final = 2**19  # characters of their messages that are searched, newest first: others wait meanwhile
MAX_CHANGED: Final = 1_000  # issues that a report resolves, and that it reopens
_MERGES: Final = 20  # proposals with the same merge commit
_UNION: Final = 100  # look-ups in one statement
_SHORTEST_HASH: Final = 7


@dataclass(frozen=True, slots=True)
class Author:
    """Who reports, in which organization, and when. `integration_id`: of a system that reports by webhook."""

    org_id: str
    org_slug: str
    principal_id: str | None
    now: datetime
    integration_id: str | None = None

    def activity_data(self, **data: object) -> dict[str, object]:
        """The data of an activity: why an issue changes, and which integration reported it."""
        return data if self.integration_id is None else data | {"integrationId": self.integration_id}


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
    key: CommitKey


async def note_references(
    connection: AsyncConnection, author: Author, reported: Sequence[NewCommit], ids: Mapping[CommitKey, str]
) -> Collection[str]:
    """Store which issues the commits name as fixed, with an activity for each that is new. Returns the ids of those
    that name some.
    """
    references = _references(author, reported, ids)
    if not references:
        return ()
    index = await find_named(connection, author.org_id, references.values())
    keys = {commit_id: key for key, commit_id in ids.items()}
    new = [
        NamedChange(index.by_id[issue_id], author.activity_data(**keys[commit_id]._asdict()))
        for commit_id, issue_id in await link_to_issues(connection, author.org_id, references, index)
    ]
    await note_all(connection, new, ActivityKind.COMMIT, now=author.now, by=author.principal_id)
    return references


def names_nothing(reported: Sequence[NewCommit], org_slug: str) -> bool:
    """Whether the commits, oldest first, name no issue as fixed, and revert no commit."""
    for one in _searched(reversed(reported)):
        fixed = fixed_by_commit(one.message, org_slug)
        if fixed.short_ids or fixed.issue_ids or reverted_commits(one.message):
            return False
    return True


async def resolve_fixed(connection: AsyncConnection, author: Author, release: ReleaseScope) -> list[ShortId]:
    """Resolve in the release what its commits fix: the issues of its projects that its new commits name, and those of
    its new projects that any of its commits name. Not what an earlier release of the project has with the same commit,
    nor what another commit of the release reverts.
    """
    fixes = await _find_fixes(connection, release)
    if not fixes:
        return []
    reverted = await _reverted_in(connection, release.id)
    kept = [fix for fix in fixes if not is_reverted(fix.key, reverted)]
    changes = [NamedChange(fix.issue, author.activity_data(**fix.key._asdict())) for fix in kept]
    return await resolve_all(connection, changes, now=author.now, by=author.principal_id, in_release=release.version)


async def resolve_pushed(
    connection: AsyncConnection, author: Author, commit_ids: Sequence[str], at: datetime
) -> list[ShortId]:
    """Resolve what the commits fix that reached the default branch at this time, unless a commit that reached it then
    or later reverts the fix: pushes may be reported late.
    """
    fixes: list[_Fix] = []
    for some in chunks(commit_ids):
        found = (
            SELECT_NAMED.add_columns(commits.c.repository, commits.c.sha)
            .join(commit_issues, commit_issues.c.issue_id == issues.c.id)
            .join(commits, commits.c.id == commit_issues.c.commit_id)
            .where(commits.c.id.in_(some), projects.c.deleted_at.is_(None))
            .order_by(issues.c.id, commits.c.id.desc())
            .limit(MAX_CHANGED)
        )
        fixes += [_Fix(named_issue(row), CommitKey(row.repository, row.sha)) for row in await connection.execute(found)]
    if not fixes:
        return []
    reverted = await find_reverted_since(connection, author.org_id, at)
    kept = [fix for fix in fixes[:MAX_CHANGED] if not is_reverted(fix.key, reverted)]
    changes = [NamedChange(fix.issue, author.activity_data(**fix.key._asdict())) for fix in kept]
    return await resolve_all(connection, changes, now=author.now, by=author.principal_id)


async def reopen_reverted(
    connection: AsyncConnection, author: Author, new: Iterable[NewCommit], at: datetime | None = None
) -> list[ShortId]:
    """Reopen what the commits fixed that these revert: issues that the reverted commit names, and those of the proposal
    that it merged, unless a later commit fixes them again. `at`: when they reached the default branch; what was fixed
    there later stays.
    """
    reverts = _reverts(new)
    if not reverts:
        return []
    by_start = await _fixed_by(connection, author.org_id, list(reverts))
    named = sorted({issue.id for each in by_start.values() for issue in each})[:MAX_CHANGED]
    fixed = set() if at is None or not named else await _fixed_since(connection, named, at)
    changes = [
        NamedChange(issue, author.activity_data(repository=by.repository, sha=by.sha, reverts=reverted.sha))
        for reverted, by in reverts.items()
        for issue in by_start.get(reverted, ())
        if issue.id not in fixed
    ]
    return await reopen_all(connection, changes[:MAX_CHANGED], now=author.now, by=author.principal_id)


def is_reverted(key: CommitKey, reverted: Collection[CommitKey]) -> bool:
    """Whether one of the beginnings of hashes is that of this commit."""
    lengths = range(_SHORTEST_HASH, len(key.sha) + 1)
    return any(CommitKey(key.repository, key.sha[:length]) in reverted for length in lengths)


async def find_reverted_since(connection: AsyncConnection, org_id: str, at: datetime) -> set[CommitKey]:
    """What commits revert that reached a default branch at this time or later: repositories, and beginnings of hashes;
    at most MAX_REVERTS commits.
    """
    found = (
        sa.select(commits.c.repository, commits.c.message)
        .where(commits.c.org_id == org_id, commits.c.default_branch_at >= at, commits.c.is_revert)
        .order_by(commits.c.default_branch_at)
        .limit(MAX_REVERTS)
    )
    return _reverted_by(await connection.execute(found))


def _references(author: Author, reported: Sequence[NewCommit], ids: Mapping[CommitKey, str]) -> dict[str, References]:
    """What the commits name, by id of the commit; in all at most MAX_REPORT_REFERENCES."""
    references: dict[str, References] = {}
    room = MAX_REPORT_REFERENCES
    for one in _searched(reported):
        named = fixed_by_commit(one.message, author.org_slug)
        short_ids = named.short_ids[:room]
        issue_ids = named.issue_ids[: room - len(short_ids)]
        if short_ids or issue_ids:
            references[ids[one.key]] = References(short_ids, issue_ids)
            room -= len(short_ids) + len(issue_ids)
        if not room:
            break
    return references


def _searched(reported: Iterable[NewCommit]) -> Iterator[NewCommit]:
    """The first of the commits, with messages of MAX_REPORT_TEXT in all."""
    room = MAX_REPORT_TEXT
    for one in reported:
        room -= len(one.message)
        if room < 0:
            return
        yield one


def _reverts(new: Iterable[NewCommit]) -> dict[CommitKey, CommitKey]:
    """Beginnings of the hashes that commits revert, each with the first commit that reverts it; at most MAX_REVERTS."""
    found: dict[CommitKey, CommitKey] = {}
    for one in _searched(new):
        for start in reverted_commits(one.message):
            found.setdefault(CommitKey(one.repository, start), one.key)
            if len(found) == MAX_REVERTS:
                return found
    return found


async def _find_fixes(connection: AsyncConnection, release: ReleaseScope) -> list[_Fix]:
    """In order of commits and issues; at most MAX_CHANGED."""
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
    is_new = commits.c.id.in_(list(release.new_commits)) | issues.c.project_id.in_(list(release.new_project_ids))
    found = (
        SELECT_NAMED.add_columns(commits.c.repository, commits.c.sha)
        .join(commit_issues, commit_issues.c.issue_id == issues.c.id)
        .join(commits, commits.c.id == commit_issues.c.commit_id)
        .join(release_commits, release_commits.c.commit_id == commits.c.id)
        .where(
            release_commits.c.release_id == release.id,
            issues.c.project_id.in_(list(release.project_ids)),
            is_new,
            ~sa.exists(earlier),
        )
        .order_by(release_commits.c.position, issues.c.id)
        .limit(MAX_CHANGED)
    )
    return [_Fix(named_issue(row), CommitKey(row.repository, row.sha)) for row in await connection.execute(found)]


async def _reverted_in(connection: AsyncConnection, release_id: str) -> set[CommitKey]:
    """What commits of the release revert: repositories, and the beginnings of hashes."""
    found = (
        sa.select(commits.c.repository, commits.c.message)
        .join_from(release_commits, commits, commits.c.id == release_commits.c.commit_id)
        .where(release_commits.c.release_id == release_id, commits.c.is_revert)
        .order_by(release_commits.c.position)
        .limit(MAX_REVERTS)
    )
    return _reverted_by(await connection.execute(found))


def _reverted_by(rows: Iterable[Any]) -> set[CommitKey]:
    return {CommitKey(row.repository, start) for row in rows for start in reverted_commits(row.message)}


async def _fixed_since(connection: AsyncConnection, issue_ids: Sequence[str], at: datetime) -> set[str]:
    """Those of the issues that a commit fixes which reached the default branch after this time, or a proposal that was
    merged after it.
    """
    found: set[str] = set()
    for some in chunks(issue_ids):
        by_commits = (
            sa.select(commit_issues.c.issue_id)
            .join_from(commit_issues, commits, commits.c.id == commit_issues.c.commit_id)
            .where(commit_issues.c.issue_id.in_(some), commits.c.default_branch_at > at)
        )
        is_merged = proposals.c.state == ProposalState.MERGED.value
        by_proposals = (
            sa.select(proposal_issues.c.issue_id)
            .join_from(proposal_issues, proposals, proposals.c.id == proposal_issues.c.proposal_id)
            .where(proposal_issues.c.issue_id.in_(some), is_merged, proposals.c.changed_at > at)
        )
        found |= set((await connection.execute(sa.union(by_commits, by_proposals))).scalars())
    return found


async def _fixed_by(
    connection: AsyncConnection, org_id: str, starts: Sequence[CommitKey]
) -> dict[CommitKey, list[NamedIssue]]:
    """What the commits fix whose hashes begin so, and the proposals that they merged."""
    by_start: dict[CommitKey, list[NamedIssue]] = {}
    found = await find_by_hashes(connection, org_id, starts)
    named = await _named_by_commits(connection, list(found.values()))
    for start, commit_id in found.items():
        by_start.setdefault(start, []).extend(named.get(commit_id, ()))
    merged = await _merged_by_hashes(connection, org_id, starts)
    of_proposals = await _issues_of_proposals(connection, sorted({one for ids in merged.values() for one in ids}))
    for start, proposal_ids in merged.items():
        for proposal_id in proposal_ids:
            by_start.setdefault(start, []).extend(of_proposals.get(proposal_id, ()))
    return by_start


async def _named_by_commits(connection: AsyncConnection, commit_ids: Sequence[str]) -> dict[str, list[NamedIssue]]:
    """The issues that each commit names, and that no commit names that was reported later."""
    later = commit_issues.alias()
    again = sa.exists().where(later.c.issue_id == issues.c.id, later.c.commit_id > commit_issues.c.commit_id)
    found: dict[str, list[NamedIssue]] = {}
    for some in chunks(commit_ids):
        named = (
            SELECT_NAMED.add_columns(commit_issues.c.commit_id)
            .join(commit_issues, commit_issues.c.issue_id == issues.c.id)
            .where(commit_issues.c.commit_id.in_(some), ~again)
            .order_by(issues.c.id)
            .limit(MAX_CHANGED)
        )
        for row in await connection.execute(named):
            found.setdefault(row.commit_id, []).append(named_issue(row))
    return found


async def _merged_by_hashes(
    connection: AsyncConnection, org_id: str, starts: Sequence[CommitKey]
) -> dict[CommitKey, list[str]]:
    """The proposals that a commit has merged whose hash begins so; at most _MERGES of each."""
    found: dict[CommitKey, list[str]] = {}
    is_merged = (proposals.c.org_id == org_id) & (proposals.c.state == ProposalState.MERGED.value)
    for first in range(0, len(starts), _UNION):
        each = [
            sa.select(sa.literal(number).label("number"), proposals.c.id)
            .where(is_merged, proposals.c.repository == one.repository)
            .where(proposals.c.merge_sha >= one.sha, proposals.c.merge_sha < one.sha + "g")
            .limit(_MERGES)
            .subquery()
            for number, one in enumerate(starts[first : first + _UNION], first)
        ]
        for row in await connection.execute(sa.union_all(*(sa.select(one) for one in each))):
            found.setdefault(starts[row.number], []).append(row.id)
    return found


async def _issues_of_proposals(connection: AsyncConnection, proposal_ids: Sequence[str]) -> dict[str, list[NamedIssue]]:
    found: dict[str, list[NamedIssue]] = {}
    for some in chunks(proposal_ids):
        named = (
            SELECT_NAMED.add_columns(proposal_issues.c.proposal_id)
            .join(proposal_issues, proposal_issues.c.issue_id == issues.c.id)
            .where(proposal_issues.c.proposal_id.in_(some))
            .order_by(issues.c.id)
            .limit(MAX_CHANGED)
        )
        for row in await connection.execute(named):
            found.setdefault(row.proposal_id, []).append(named_issue(row))
    return found
