"""Records a report of a proposal, in the caller's transaction; the API and other systems report through it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from control.code.fixes.named_issues import NamedChange, find_named, note_all
from control.code.fixes.updates import Author, IssueUpdate, add_reverts, find_affected, update_issues
from control.code.messages import Revert, read_proposal
from control.code.proposals.store import (
    ProposalReport,
    StoredProposal,
    find_linked,
    find_proposal,
    has_merged_rival,
    has_unresolved_issue,
    link_issues,
    note_merge,
    store_proposal,
    supersede,
    supersede_others,
)
from control.issues.references import NamedIssue, References, ShortId
from control.issues.releases.tables import ProposalState, code_reverts
from control.issues.tables import ActivityKind


class ReportedProposal(NamedTuple):
    """The proposal as it is stored, and what the report did. `is_changed` False: it was not newer than the last one.
    `is_merged`: by this report.
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
    """Store what a platform says of a proposal, if that is newer than what is known. Its issues are those that its text
    names as fixed, and those `listed`; where neither is given, those that it had before stay. A merge resolves them in
    the next release or at once, as their project says, or reopens what the proposal reverts. It supersedes the other
    open proposals of these issues. What was merged stays merged.
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
    index = await find_named(connection, org_id, [References(short_ids=tuple(names))])
    return dict(index.by_name)


def _is_news(known: StoredProposal, report: ProposalReport) -> bool:
    """Platforms deliver out of order. A report of the same time counts if it says something else: their clocks may have
    whole seconds only.
    """
    if known.state == ProposalState.MERGED and report.state is not ProposalState.MERGED:
        return False
    if report.changed_at != known.changed_at:
        return bool(report.changed_at > known.changed_at)
    return known.state not in (report.state, ProposalState.SUPERSEDED)


async def _stays_superseded(connection: AsyncConnection, known: StoredProposal, report: ProposalReport) -> bool:
    """Platforms know only that it is open; it is open again once one of its issues is unresolved again."""
    if report.state is not ProposalState.OPEN or known.state != ProposalState.SUPERSEDED:
        return False
    return not await has_unresolved_issue(connection, known.id)


async def _was_superseded(
    connection: AsyncConnection, proposal_id: str, known: StoredProposal | None, report: ProposalReport
) -> bool:
    """Whether another proposal of its issues was merged before the report of this one arrived, and after what it says;
    or after this one was opened, if nothing else has happened to the issues since.
    """
    if await has_merged_rival(connection, proposal_id, report.changed_at):
        return True
    if known is not None or report.opened_at is None:
        return False
    was_open = await has_merged_rival(connection, proposal_id, report.opened_at)
    return was_open and not await has_unresolved_issue(connection, proposal_id)


async def _report_again(
    connection: AsyncConnection, author: Author, known: StoredProposal, report: ProposalReport
) -> ReportedProposal:
    """An older report tells nothing but when the proposal was merged."""
    update = IssueUpdate([], [])
    if known.state == report.state == ProposalState.MERGED and await note_merge(connection, known, report):
        update = await update_issues(connection, author, [known.id])
    return ReportedProposal(known, False, False, False, *update, [])


async def _store_references(
    connection: AsyncConnection,
    author: Author,
    proposal_id: str,
    report: ProposalReport,
    listed: Sequence[NamedIssue] | None,
) -> dict[str, NamedIssue]:
    """Store which issues the proposal fixes, with an activity for each that is new, and what it reverts; returns the
    issues by id.
    """
    parsed = read_proposal(report.title, report.text, author.org_slug, report.repository)
    index = await find_named(connection, author.org_id, [parsed.fixed])
    kept = await find_linked(connection, proposal_id) if listed is None and report.text is None else []
    named = {one.id: one for one in [*kept, *index.resolve(parsed.fixed), *(listed or ())]}
    new = await link_issues(connection, author.org_id, proposal_id, named.values())
    data = author.activity_data(
        repository=report.repository, proposal=report.number, title=report.title, url=report.url
    )
    changes = [NamedChange(one, data) for one in new]
    await note_all(connection, changes, ActivityKind.PROPOSAL, now=author.now, by=author.principal_id)
    if report.text is not None:
        await connection.execute(code_reverts.delete().where(code_reverts.c.source_id == proposal_id))
    reverts: dict[tuple[str, str], Sequence[Revert]] = {(proposal_id, report.repository): parsed.reverts}
    await add_reverts(connection, author.org_id, reverts)
    return named
