"""Proposals (pull or merge requests) in the database, and the effects of a report. The API and other systems report
through this module. Every function runs in the caller's transaction.
"""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import new_id, projects
from chassis.issues import IssueStatus, issues
from control.code.fixes.named_issues import SELECT_NAMED, NamedChange, find_named, named_issue, note_all
from control.code.fixes.updates import Author, IssueUpdate, add_reverts, find_affected, update_issues
from control.code.messages import read_proposal
from control.code.row_limits import RowLimit, delete_rows
from control.issues.references import NamedIssue, References, ShortId
from control.issues.releases.tables import ProposalState, code_reverts, proposal_issues, proposals
from control.issues.store import insert_rows, without_none
from control.issues.tables import ActivityKind

MAX_PROPOSALS: Final = 20_000  # per organization; beyond it the proposals reported first are deleted
MAX_SUPERSEDED: Final = 200  # by one merge
_PRUNED_AT_ONCE: Final = 100

_limit: Final = RowLimit(proposals)


@dataclass(frozen=True, slots=True)
class ProposalReport:
    """A platform's report of a proposal, as of `changed_at` by its clock. `text`: the description, None if not
    reported. `opened_at`, `merged_at`: by the same clock. `targets_default_branch`: False if the proposal is to be
    merged into a branch other than the default branch.
    """

    repository: str
    number: str
    title: str
    state: ProposalState
    changed_at: datetime
    text: str | None = None
    head_ref: str | None = None
    head_sha: str | None = None
    merge_sha: str | None = None
    author_name: str | None = None
    url: str | None = None
    opened_at: datetime | None = None
    merged_at: datetime | None = None
    targets_default_branch: bool = True


StoredProposal = sa.Row[Any]  # a row of `proposals`


async def find_proposal(
    connection: AsyncConnection, org_id: str, repository: str, number: str
) -> StoredProposal | None:
    """The organization's proposal with this number."""
    statement = sa.select(proposals).where(
        proposals.c.org_id == org_id, proposals.c.repository == repository, proposals.c.number == number
    )
    return (await connection.execute(statement)).one_or_none()


async def store_proposal(
    connection: AsyncConnection, org_id: str, stored: StoredProposal | None, report: ProposalReport, now: datetime
) -> str:
    """Insert or update a proposal, with the state in the report, and return its id. Values that are not reported are
    not changed.
    """
    given = {
        "title": report.title,
        "state": report.state.value,
        "head_ref": report.head_ref,
        "head_sha": report.head_sha,
        "merge_sha": report.merge_sha,
        "author_name": report.author_name,
        "url": report.url,
        "changed_at": report.changed_at,
        "targets_default_branch": report.targets_default_branch,
        "updated_at": now,
    }
    if report.state is ProposalState.MERGED:
        given["merged_at"] = report.merged_at or report.changed_at
    values = without_none(given)
    if stored is not None:
        if stored.state == ProposalState.MERGED:  # the time of the first such report
            del values["merged_at"]
            await note_merge(connection, stored, report)
        await connection.execute(proposals.update().where(proposals.c.id == stored.id).values(values))
        return str(stored.id)
    await _prune(connection, org_id)
    proposal_id = new_id("prp")
    row = {"id": proposal_id, "org_id": org_id, "repository": report.repository, "number": report.number}
    await connection.execute(proposals.insert().values(row | values | {"created_at": now}))
    return proposal_id


async def note_merge(connection: AsyncConnection, stored: StoredProposal, report: ProposalReport) -> bool:
    """Store an earlier merge time of a merged proposal. Returns whether the time has changed."""
    at = report.merged_at or report.changed_at
    is_later = (proposals.c.id == stored.id) & ((proposals.c.merged_at > at) | proposals.c.merged_at.is_(None))
    return (await connection.execute(proposals.update().where(is_later).values(merged_at=at))).rowcount > 0


async def link_issues(
    connection: AsyncConnection, org_id: str, proposal_id: str, named: Iterable[NamedIssue]
) -> list[NamedIssue]:
    """Make these the issues of the proposal. Returns the issues that are new to it."""
    wanted = {one.id: one for one in named}
    of_proposal = proposal_issues.c.proposal_id == proposal_id
    known = set((await connection.execute(sa.select(proposal_issues.c.issue_id).where(of_proposal))).scalars())
    gone = known - set(wanted)
    if gone:
        await connection.execute(proposal_issues.delete().where(of_proposal, proposal_issues.c.issue_id.in_(gone)))
    new = [one for issue_id, one in wanted.items() if issue_id not in known]
    rows = [
        {"proposal_id": proposal_id, "issue_id": one.id, "org_id": org_id, "project_id": one.project_id} for one in new
    ]
    await insert_rows(connection, proposal_issues, rows)
    return new


async def find_linked(connection: AsyncConnection, proposal_id: str) -> list[NamedIssue]:
    """The issues of a proposal."""
    of_proposal = proposal_issues.c.issue_id == issues.c.id
    statement = SELECT_NAMED.join(proposal_issues, of_proposal).where(
        proposal_issues.c.proposal_id == proposal_id, projects.c.deleted_at.is_(None)
    )
    return [named_issue(row) for row in await connection.execute(statement)]


async def supersede_others(
    connection: AsyncConnection, org_id: str, proposal_id: str, issue_ids: Collection[str], now: datetime
) -> Sequence[StoredProposal]:
    """Supersede the other open proposals of these issues, at most MAX_SUPERSEDED. Returns them as they were before."""
    wanted = list(issue_ids)
    merged_into = sa.select(issues.c.merged_into).where(issues.c.id.in_(wanted), issues.c.merged_into.is_not(None))
    targets = sa.or_(issues.c.id.in_(wanted), issues.c.id.in_(merged_into))
    # These issues, the issues that they were merged into, and all issues merged into either.
    same = sa.select(issues.c.id).where(
        sa.or_(targets, issues.c.merged_into.in_(wanted), issues.c.merged_into.in_(merged_into))
    )
    of_issues = sa.exists().where(proposal_issues.c.proposal_id == proposals.c.id, proposal_issues.c.issue_id.in_(same))
    is_open = (proposals.c.org_id == org_id) & (proposals.c.state == ProposalState.OPEN.value)
    statement = sa.select(proposals).where(is_open, of_issues, proposals.c.id != proposal_id).order_by(proposals.c.id)
    others = (await connection.execute(statement.limit(MAX_SUPERSEDED))).all()
    if others:
        await supersede(connection, [one.id for one in others], now)
    return others


async def supersede(connection: AsyncConnection, proposal_ids: Collection[str], now: datetime) -> None:
    """Mark the proposals as superseded."""
    values = {"state": ProposalState.SUPERSEDED.value, "updated_at": now}
    await connection.execute(proposals.update().where(proposals.c.id.in_(proposal_ids)).values(values))


async def has_merged_rival(connection: AsyncConnection, proposal_id: str, since: datetime) -> bool:
    """Whether another proposal for one of the same issues was merged after this time."""
    own, other = proposal_issues.alias(), proposal_issues.alias()
    statement = (
        sa.select(proposals.c.id)
        .join_from(own, other, other.c.issue_id == own.c.issue_id)
        .join(proposals, proposals.c.id == other.c.proposal_id)
        .where(own.c.proposal_id == proposal_id, proposals.c.id != proposal_id)
        .where(proposals.c.state == ProposalState.MERGED.value, proposals.c.changed_at > since)
    )
    return await connection.scalar(statement.limit(1)) is not None


async def has_unresolved_issue(connection: AsyncConnection, proposal_id: str) -> bool:
    """Whether an issue of the proposal is not resolved. A merged issue is replaced by the issue into which it was
    merged.
    """
    target = issues.alias()
    statement = (
        sa.select(target.c.id)
        .join_from(proposal_issues, issues, issues.c.id == proposal_issues.c.issue_id)
        .join(target, target.c.id == sa.func.coalesce(issues.c.merged_into, issues.c.id))
        .where(proposal_issues.c.proposal_id == proposal_id, target.c.status != IssueStatus.RESOLVED.value)
    )
    return await connection.scalar(statement.limit(1)) is not None


_ISSUES_OF_PROPOSALS: Final = (
    sa.select(proposal_issues.c.proposal_id, projects.c.slug, issues.c.number)
    .join_from(proposal_issues, issues, issues.c.id == proposal_issues.c.issue_id)
    .join(projects, projects.c.id == issues.c.project_id)
    .where(projects.c.deleted_at.is_(None))
)


def of_issue(issue: ShortId) -> sa.ColumnElement[bool]:
    """The condition that a proposal fixes the issue."""
    statement = _ISSUES_OF_PROPOSALS.where(projects.c.slug == issue.project_slug, issues.c.number == issue.number)
    return proposals.c.id.in_(statement.with_only_columns(proposal_issues.c.proposal_id))


async def find_short_ids(connection: AsyncConnection, proposal_ids: Sequence[str]) -> dict[str, list[str]]:
    """The short ids of the issues that proposals fix, by proposal."""
    named = _ISSUES_OF_PROPOSALS.where(proposal_issues.c.proposal_id.in_(proposal_ids))
    by_proposal: dict[str, list[str]] = {}
    for row in await connection.execute(named.order_by(projects.c.slug, issues.c.number)):
        by_proposal.setdefault(row.proposal_id, []).append(str(ShortId(row.slug, row.number)))
    return by_proposal


async def _prune(connection: AsyncConnection, org_id: str) -> None:
    """Delete the proposals that were reported first, so that there is room for one more."""
    surplus = await _limit.find_surplus(connection, org_id, 1, MAX_PROPOSALS, _PRUNED_AT_ONCE)
    if surplus:
        oldest = sa.select(proposals.c.id).where(proposals.c.org_id == org_id).order_by(proposals.c.id).limit(surplus)
        await delete_rows(connection, oldest, proposals.c.id, proposal_issues.c.proposal_id, code_reverts.c.source_id)


class ReportedProposal(NamedTuple):
    """The proposal as it is stored, and the effects of the report. `is_changed`: False if the report was not newer than
    the last one. `is_merged`: the report said that the proposal was merged.
    """

    proposal: StoredProposal
    is_new: bool
    is_changed: bool
    is_merged: bool
    issues_resolved: list[ShortId]
    issues_reopened: list[ShortId]
    superseded: Sequence[StoredProposal]


async def report_proposal(
    connection: AsyncConnection, author: Author, report: ProposalReport, listed: Sequence[NamedIssue] | None = None
) -> ReportedProposal:
    """Store a platform's report of a proposal if it is newer than what is known. The issues of the proposal are the
    issues that its text names as fixed, and those in `listed`. If neither is given, its earlier issues are kept. A
    merge resolves the issues in the next release or at once, according to the settings of their project, or reopens the
    issues whose fix the proposal reverts. A merge also supersedes the other open proposals of these issues. A merged
    proposal stays merged.
    """
    known = await find_proposal(connection, author.org_id, report.repository, report.number)
    if known is not None and not _is_news(known, report):
        return await _report_again(connection, author, known, report)
    if known is not None and await _stays_superseded(connection, known, report):
        report = replace(report, state=ProposalState.SUPERSEDED)
    was_merged = known is not None and known.state == ProposalState.MERGED
    before = await find_affected(connection, author, [known.id]) if known is not None and was_merged else []
    proposal_id = await store_proposal(connection, author.org_id, known, report, author.now)
    named = await _store_references(connection, author, proposal_id, report, listed)
    update, superseded = IssueUpdate([], []), list[StoredProposal]()
    is_merged = report.state is ProposalState.MERGED and not was_merged
    if is_merged or was_merged:
        update = await update_issues(connection, author, [proposal_id], before)
    if is_merged and report.targets_default_branch:
        superseded += await supersede_others(connection, author.org_id, proposal_id, list(named), author.now)
    is_late = report.state is ProposalState.OPEN and await _was_superseded(connection, proposal_id, known, report)
    if is_late:
        await supersede(connection, [proposal_id], author.now)
    stored = await find_proposal(connection, author.org_id, report.repository, report.number)
    if stored is None:
        raise LookupError(proposal_id)
    if is_late and (known is None or known.state != ProposalState.SUPERSEDED):
        superseded.append(stored)
    return ReportedProposal(stored, known is None, True, is_merged, *update, superseded)


async def find_listed(connection: AsyncConnection, org_id: str, names: Sequence[ShortId]) -> dict[ShortId, NamedIssue]:
    """The issues of the organization with these short ids."""
    return dict((await find_named(connection, org_id, [References(short_ids=tuple(names))])).by_name)


def _is_news(stored: StoredProposal, report: ProposalReport) -> bool:
    """Whether the report is newer than what is known: platforms deliver out of order. A report of the same time counts
    if its state differs, because the platform's clock may only have whole seconds.
    """
    if stored.state == ProposalState.MERGED and report.state is not ProposalState.MERGED:
        return False
    if report.changed_at != stored.changed_at:
        return bool(report.changed_at > stored.changed_at)
    return stored.state not in (report.state, ProposalState.SUPERSEDED)


async def _stays_superseded(connection: AsyncConnection, stored: StoredProposal, report: ProposalReport) -> bool:
    """Whether a proposal that its platform reports as open is still superseded. It is open again once one of its issues
    is unresolved again.
    """
    if report.state is not ProposalState.OPEN or stored.state != ProposalState.SUPERSEDED:
        return False
    return not await has_unresolved_issue(connection, stored.id)


async def _was_superseded(
    connection: AsyncConnection, proposal_id: str, stored: StoredProposal | None, report: ProposalReport
) -> bool:
    """Whether another proposal for the same issues was merged before this report arrived, but after its time. If the
    report is the first one, a merge after the proposal was opened counts too, unless an issue is unresolved now.
    """
    if await has_merged_rival(connection, proposal_id, report.changed_at):
        return True
    if stored is not None or report.opened_at is None:
        return False
    return await has_merged_rival(connection, proposal_id, report.opened_at) and not await has_unresolved_issue(
        connection, proposal_id
    )


async def _report_again(
    connection: AsyncConnection, author: Author, stored: StoredProposal, report: ProposalReport
) -> ReportedProposal:
    """Take only the merge time from an older report."""
    update = IssueUpdate([], [])
    if stored.state == report.state == ProposalState.MERGED and await note_merge(connection, stored, report):
        update = await update_issues(connection, author, [stored.id])
    return ReportedProposal(stored, False, False, False, *update, [])


async def _store_references(
    connection: AsyncConnection,
    author: Author,
    proposal_id: str,
    report: ProposalReport,
    listed: Sequence[NamedIssue] | None,
) -> dict[str, NamedIssue]:
    """Store the issues that the proposal fixes, with an activity entry for each new one, and the changes that it
    reverts. Returns the issues by id.
    """
    parsed = read_proposal(report.title, report.text, author.org_slug, report.repository)
    index = await find_named(connection, author.org_id, [parsed.fixed])
    kept = await find_linked(connection, proposal_id) if listed is None and report.text is None else []
    named = {one.id: one for one in [*kept, *index.resolve(parsed.fixed), *(listed or ())]}
    new = await link_issues(connection, author.org_id, proposal_id, named.values())
    data = author.activity_data(
        repository=report.repository, proposal=report.number, title=report.title, url=report.url
    )
    await note_all(
        connection,
        [NamedChange(one, data) for one in new],
        ActivityKind.PROPOSAL,
        now=author.now,
        by=author.principal_id,
    )
    if report.text is not None:
        await connection.execute(code_reverts.delete().where(code_reverts.c.source_id == proposal_id))
    await add_reverts(connection, author.org_id, {(proposal_id, report.repository): parsed.reverts})
    return named
