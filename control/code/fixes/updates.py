"""Resolves and reopens issues after reports of commits and proposals. An issue is resolved while code fixes it, and is
reopened when the code no longer fixes it.

Every report first stores its references (`store_references`), and then updates the issues that may depend on the report
(`update_issues`). The state of each issue is computed from everything that is known (`graph`, `rules`), so the order of
reports makes no difference. Every function runs in the caller's transaction, with a number of statements that the
limits below bound.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import projects
from chassis.issues import IssueStatus, issues
from control.code.commits import CommitKey, NewCommit, link_to_issues
from control.code.fixes.graph import (
    SELECT_COMMITS,
    SELECT_PROPOSALS,
    CodeChange,
    CodeGraph,
    split_by_kind,
    to_commit,
    to_proposal,
)
from control.code.fixes.named_issues import (
    SELECT_NAMED,
    NamedChange,
    find_named,
    named_issue,
    note_all,
    reopen_all,
    resolve_all,
)
from control.code.fixes.rules import CodeHistory, StatusDecision, StatusVerdict, decide_status
from control.code.messages import SHORTEST_HASH, ParsedMessage, Revert, read_commit
from control.issues.references import References, ShortId
from control.issues.releases.tables import (
    code_reverts,
    commit_issues,
    commits,
    proposal_issues,
    proposals,
    release_commits,
    release_projects,
)
from control.issues.store import in_chunks, insert_rows, read_in_chunks
from control.issues.tables import ActivityKind

MAX_REVERTS: Final = 200  # reverts that a report adds, of its newest commits
MAX_REPORT_REFERENCES: Final = 1_000  # references of all commits of a report, newest first
MAX_REPORT_TEXT: Final = 2**19  # characters of messages that are searched, newest first: other writers wait meanwhile
MAX_CHANGED: Final = 1_000  # issues that a report resolves or reopens
MAX_FIXES: Final = 5_000  # changes that fix these issues, the newest


@dataclass(frozen=True, slots=True)
class Author:
    """The reporter, the organization, and the time of the report. `integration_id`: the integration of a system that
    reports by webhook.
    """

    org_id: str
    org_slug: str
    principal_id: str | None
    now: datetime
    integration_id: str | None = None

    def activity_data(self, **data: object) -> dict[str, object]:
        """The data of an activity entry: why an issue changes, and which integration reported it."""
        return data if self.integration_id is None else data | {"integrationId": self.integration_id}


class InRelease(NamedTuple):
    """The release in which the issues of these projects are resolved."""

    version: str
    project_ids: Collection[int]


class IssueUpdate(NamedTuple):
    """The issues whose state a report has changed, in order."""

    resolved: list[ShortId]
    reopened: list[ShortId]


def read_all(newest_first: Iterable[NewCommit], org_slug: str) -> dict[CommitKey, ParsedMessage]:
    """Parse the messages of the commits, of which the first MAX_REPORT_TEXT characters are read. Commits whose message
    names nothing are left out.
    """
    parsed = {one.key: read_commit(one.message, org_slug, one.repository) for one in _searched(newest_first)}
    return {key: one for key, one in parsed.items() if one}


async def store_references(
    connection: AsyncConnection, author: Author, parsed: Mapping[CommitKey, ParsedMessage], ids: Mapping[CommitKey, str]
) -> None:
    """Store the references of commits: the issues that they fix, with an activity entry for each new one, and the
    changes that they revert.
    """
    references = _bounded({ids[key]: one.fixed for key, one in parsed.items()})
    if references:
        index = await find_named(connection, author.org_id, references.values())
        keys = {commit_id: key for key, commit_id in ids.items()}
        new = [
            NamedChange(index.by_id[issue_id], author.activity_data(**keys[commit_id]._asdict()))
            for commit_id, issue_id in await link_to_issues(connection, author.org_id, references, index)
        ]
        await note_all(connection, new, ActivityKind.COMMIT, now=author.now, by=author.principal_id)
    room = MAX_REVERTS
    reverts: dict[tuple[str, str], Sequence[Revert]] = {}
    for key, one in parsed.items():
        reverts[ids[key], key.repository] = one.reverts[:room]
        room -= len(reverts[ids[key], key.repository])
    await add_reverts(connection, author.org_id, reverts)


async def add_reverts(
    connection: AsyncConnection, org_id: str, reverts: Mapping[tuple[str, str], Sequence[Revert]]
) -> None:
    """Store the reverts of changes, by id and repository of the change, unless they are already stored."""
    sources = sorted({source_id for (source_id, _), each in reverts.items() if each})
    pairs = sa.select(code_reverts.c.source_id, code_reverts.c.target)
    rows = await read_in_chunks(connection, pairs, code_reverts.c.source_id, sources)
    known = {(row.source_id, row.target) for row in rows}
    new = [
        {
            "source_id": source_id,
            "target": one.target,
            "reverts_merge": one.reverts_merge,
            "target_key": one.target if one.is_number else one.target[:SHORTEST_HASH],
            "repository": repository,
            "org_id": org_id,
        }
        for (source_id, repository), each in reverts.items()
        for one in {one.target: one for one in sorted(each)}.values()
        if (source_id, one.target) not in known
    ]
    await insert_rows(connection, code_reverts, new)


async def find_affected(connection: AsyncConnection, author: Author, change_ids: Collection[str]) -> list[str]:
    """Find the issues whose state may depend on these changes, at most MAX_CHANGED."""
    graph = CodeGraph(connection, author.org_id)
    of_commits, of_proposals = split_by_kind(await graph.affected_by(await graph.load(change_ids)))
    found: dict[str, None] = {}
    for column, ids in ((commit_issues.c.commit_id, of_commits), (proposal_issues.c.proposal_id, of_proposals)):
        issue_id = column.table.c.issue_id
        for some in in_chunks(ids):
            named = sa.select(issue_id).distinct().where(column.in_(some)).order_by(issue_id).limit(MAX_CHANGED)
            found |= dict.fromkeys((await connection.execute(named)).scalars())
    return list(found)[:MAX_CHANGED]


async def update_issues(
    connection: AsyncConnection,
    author: Author,
    change_ids: Collection[str],
    issue_ids: Collection[str] = (),
    release: InRelease | None = None,
) -> IssueUpdate:
    """Resolve and reopen `issue_ids` and the issues that depend on `change_ids`. `change_ids` are new changes, or
    changes whose report differs from an earlier one. Issues are resolved in `release` if it is given, otherwise
    according to the settings of their project.
    """
    affected = {*issue_ids, *(await find_affected(connection, author, change_ids) if change_ids else ())}
    status_changes = await _find_status_changes(connection, author, sorted(affected)[:MAX_CHANGED], set(change_ids))
    to_resolve = [change for change, status in status_changes if status is IssueStatus.RESOLVED]
    in_release = [one for one in to_resolve if release is not None and one.issue.project_id in release.project_ids]
    others = [one for one in to_resolve if one not in in_release]
    now, by = author.now, author.principal_id
    version = release and release.version
    resolved = await resolve_all(connection, in_release, now=now, by=by, in_release=version, decided_at=None)
    resolved += await resolve_all(connection, others, now=now, by=by, decided_at=None)
    to_reopen = [change for change, status in status_changes if status is IssueStatus.UNRESOLVED]
    reopened = await reopen_all(connection, to_reopen, now=now, by=by, decided_at=None)
    return IssueUpdate(sorted(resolved), sorted(reopened))


def _searched(reported: Iterable[NewCommit]) -> Iterator[NewCommit]:
    """The first commits, whose messages together have at most MAX_REPORT_TEXT characters."""
    room = MAX_REPORT_TEXT
    for one in reported:
        room -= len(one.message)
        if room < 0:
            return
        yield one


def _bounded(named: Mapping[str, References]) -> dict[str, References]:
    """The references of commits, by id, together at most MAX_REPORT_REFERENCES."""
    references: dict[str, References] = {}
    room = MAX_REPORT_REFERENCES
    for commit_id, one in named.items():
        short_ids = one.short_ids[:room]
        issue_ids = one.issue_ids[: room - len(short_ids)]
        if short_ids or issue_ids:
            references[commit_id] = References(short_ids, issue_ids)
            room -= len(short_ids) + len(issue_ids)
    return references


async def _find_status_changes(
    connection: AsyncConnection, author: Author, issue_ids: Sequence[str], reported_ids: Collection[str]
) -> list[tuple[NamedChange, IssueStatus]]:
    """Find the issues whose status differs from the status that they should have, with that status, in order. A merged
    issue is replaced by the issue into which it was merged.
    """
    targets = await _find_targets(connection, issue_ids)
    fixes = await _find_fixes(connection, targets)
    graph = CodeGraph(connection, author.org_id)
    history = await graph.history({one.id: one for each in fixes.values() for one in each}.values())
    status_changes: list[tuple[NamedChange, IssueStatus]] = []
    statement = SELECT_NAMED.add_columns(issues.c.status, issues.c.decided_status, issues.c.decided_at)
    in_order = statement.where(projects.c.deleted_at.is_(None)).order_by(issues.c.project_id, issues.c.number)
    for row in await read_in_chunks(connection, in_order, issues.c.id, targets):
        decision = None if row.decided_at is None else StatusDecision(IssueStatus(row.decided_status), row.decided_at)
        verdict = decide_status(history, [one.id for one in fixes.get(row.id, ())], decision)
        if verdict.status in (IssueStatus.IGNORED, IssueStatus(row.status)):
            continue
        data = author.activity_data(**_why(graph, history, verdict, reported_ids))
        status_changes.append((NamedChange(named_issue(row), data), verdict.status))
    return status_changes


def _why(
    graph: CodeGraph, history: CodeHistory, verdict: StatusVerdict, reported_ids: Collection[str]
) -> dict[str, object]:
    """The data of the activity entry: the change that fixes the issue, or the change that reverts the fix or the revert
    of the fix.
    """
    changes = sorted((graph.changes[one] for one in verdict.causes), key=_order(reported_ids))
    wanted = verdict.status is IssueStatus.UNRESOLVED
    for one in changes:
        if not wanted and (one.id in reported_ids or not history.reverted_by.get(one.id)):
            return dict(one.activity_data)
        reverts = [(other, one) for other in _reverting(graph, history, one)]
        if not wanted:
            reverts = [(other, each) for each, _ in reverts for other in _reverting(graph, history, each)]
        lasting = [pair for pair in reverts if pair[0].id not in history.reverted([pair[0].id])]
        if lasting:
            by, what = min(lasting, key=lambda pair: _order(reported_ids)(pair[0]))
            name = what.sha if not what.is_proposal else f"#{what.number}"
            return {**by.activity_data, "reverts": name}
    return dict(changes[0].activity_data) if changes and not wanted else {}


def _reverting(graph: CodeGraph, history: CodeHistory, change: CodeChange) -> list[CodeChange]:
    return [graph.changes[one] for one in history.reverted_by.get(change.id, ()) if one in history.times]


def _order(reported_ids: Collection[str]) -> Any:
    """Sort changes of this report first, then by time, commits before proposals."""
    return lambda change: (change.id not in reported_ids, change.at, change.is_proposal, change.id)


async def _find_targets(connection: AsyncConnection, issue_ids: Sequence[str]) -> dict[str, list[str]]:
    """The issues with all issues that were merged into them and themselves. A merged issue is replaced by the issue
    into which it was merged.
    """
    target = sa.select(sa.func.coalesce(issues.c.merged_into, issues.c.id))
    targets = {one: [one] for (one,) in await read_in_chunks(connection, target, issues.c.id, issue_ids)}
    merged = sa.select(issues.c.id, issues.c.merged_into).order_by(issues.c.id).limit(MAX_FIXES)
    for row in await read_in_chunks(connection, merged, issues.c.merged_into, targets):
        targets[row.merged_into].append(row.id)
    return targets


async def _find_fixes(connection: AsyncConnection, targets: Mapping[str, Sequence[str]]) -> dict[str, list[CodeChange]]:
    """The changes that fix the issues. A commit that is on no default branch counts if a release contains it."""
    target_of = {one: target for target, each in targets.items() for one in each}
    is_released = (
        sa.select(sa.literal(1))
        .join_from(release_commits, release_projects, release_projects.c.release_id == release_commits.c.release_id)
        .where(release_commits.c.commit_id == commits.c.id, release_projects.c.project_id == commit_issues.c.project_id)
    )
    fixes: dict[str, list[CodeChange]] = {}
    for some in in_chunks(sorted(target_of)):
        of_commits = (
            SELECT_COMMITS.add_columns(commit_issues.c.issue_id)
            .join(commit_issues, commit_issues.c.commit_id == commits.c.id)
            .where(
                commit_issues.c.issue_id.in_(some), commits.c.default_branch_at.is_not(None) | sa.exists(is_released)
            )
            .order_by(commits.c.id.desc())
        )
        of_proposals = (
            SELECT_PROPOSALS.add_columns(proposal_issues.c.issue_id)
            .join(proposal_issues, proposal_issues.c.proposal_id == proposals.c.id)
            .where(proposal_issues.c.issue_id.in_(some))
            .order_by(proposals.c.id.desc())
        )
        for select, to_change in ((of_commits, to_commit), (of_proposals, to_proposal)):
            for row in await connection.execute(select.limit(MAX_FIXES)):
                change = to_change(row)
                if change.at is not None:
                    fixes.setdefault(target_of[row.issue_id], []).append(change)
    return fixes
