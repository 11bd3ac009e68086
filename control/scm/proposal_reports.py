"""Records a report of a proposal, in the caller's transaction; the API and other systems report through it."""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

from sqlalchemy.ext.asyncio import AsyncConnection

from control.issues.references import NamedIssue, References, ShortId, fixed_by
from control.issues.tables import ActivityKind
from control.releases.tables import ProposalState
from control.scm.commit_repository import CommitKey
from control.scm.fixes import Author, find_reverted_since, is_reverted
from control.scm.issue_changes import NamedChange, find_named, note_all, resolve_all
from control.scm.proposal_repository import (
    ProposalReport,
    StoredProposal,
    find_linked,
    find_proposal,
    has_merged_rival,
    has_unresolved_issue,
    link_issues,
    store_proposal,
    supersede,
    supersede_others,
)


class ReportedProposal(NamedTuple):
    """The proposal as it is stored, and what the report did. `is_changed` False: it was not newer than the last one.
    `is_merged`: by this report.
    """

    proposal: StoredProposal
    is_new: bool
    is_changed: bool
    is_merged: bool
    issues_resolved: list[ShortId]
    superseded: list[StoredProposal]


async def report_proposal(
    connection: AsyncConnection, author: Author, report: ProposalReport, listed: Sequence[NamedIssue] | None = None
) -> ReportedProposal:
    """Store what a platform says of a proposal, if that is newer than what is known. Its issues are those that its text
    names as fixed, and those `listed`; where neither is given, those that it had before stay. A merge resolves them in
    the next release or at once, as their project says, and supersedes the other open proposals of these issues. What
    was merged stays merged, and a merge that was reverted meanwhile resolves nothing.
    """
    known = await find_proposal(connection, author.org_id, report.repository, report.number)
    if known is not None and not _is_news(known, report):
        return ReportedProposal(known, False, False, False, [], [])
    if known is not None and await _stays_superseded(connection, known, report):
        report = replace(report, state=ProposalState.SUPERSEDED)
    proposal_id = await store_proposal(connection, author.org_id, known, report, author.now)
    text = fixed_by(f"{report.title}\n{report.text or ''}", author.org_slug)
    index = await find_named(connection, author.org_id, [text])
    kept = await find_linked(connection, proposal_id) if listed is None and report.text is None else []
    named = {one.id: one for one in [*kept, *index.resolve(text), *(listed or ())]}
    new = await link_issues(connection, author.org_id, proposal_id, named.values())
    await _note(connection, author, new, report)
    resolved: list[ShortId] = []
    superseded: list[StoredProposal] = []
    is_merged = report.state is ProposalState.MERGED and (known is None or known.state is not ProposalState.MERGED)
    if is_merged and report.is_fix:
        resolved = await _resolve(connection, author, report, list(named.values()))
        superseded = await supersede_others(connection, author.org_id, proposal_id, list(named), author.now)
    is_late = report.state is ProposalState.OPEN and await _was_superseded(connection, proposal_id, known, report)
    if is_late:
        await supersede(connection, proposal_id, author.now)
    stored = await find_proposal(connection, author.org_id, report.repository, report.number)
    if stored is None:
        raise LookupError(proposal_id)
    if is_late and (known is None or known.state is not ProposalState.SUPERSEDED):
        superseded.append(stored)
    return ReportedProposal(stored, known is None, True, is_merged, resolved, superseded)


async def find_listed(connection: AsyncConnection, org_id: str, names: Sequence[ShortId]) -> dict[ShortId, NamedIssue]:
    """The issues of the organization with these short ids."""
    index = await find_named(connection, org_id, [References(short_ids=tuple(names))])
    return dict(index.by_name)


def _is_news(known: StoredProposal, report: ProposalReport) -> bool:
    """Platforms deliver out of order. A report of the same time counts if it says something else: their clocks may have
    whole seconds only.
    """
    if known.state is ProposalState.MERGED and report.state is not ProposalState.MERGED:
        return False
    if report.changed_at != known.changed_at:
        return report.changed_at > known.changed_at
    return report.state is not known.state and known.state is not ProposalState.SUPERSEDED


async def _stays_superseded(connection: AsyncConnection, known: StoredProposal, report: ProposalReport) -> bool:
    """Platforms know only that it is open; it is open again once one of its issues is unresolved again."""
    if report.state is not ProposalState.OPEN or known.state is not ProposalState.SUPERSEDED:
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


async def _resolve(
    connection: AsyncConnection, author: Author, report: ProposalReport, named: Sequence[NamedIssue]
) -> list[ShortId]:
    if report.merge_sha is not None and named:
        reverted = await find_reverted_since(connection, author.org_id, report.changed_at)
        if is_reverted(CommitKey(report.repository, report.merge_sha), reverted):
            return []
    data = author.activity_data(repository=report.repository, proposal=report.number)
    changes = [NamedChange(one, data) for one in sorted(named)]
    return await resolve_all(connection, changes, now=author.now, by=author.principal_id)


async def _note(connection: AsyncConnection, author: Author, new: Sequence[NamedIssue], report: ProposalReport) -> None:
    named = {"repository": report.repository, "proposal": report.number, "title": report.title, "url": report.url}
    data = author.activity_data(**named)
    changes = [NamedChange(one, data) for one in new]
    await note_all(connection, changes, ActivityKind.PROPOSAL, now=author.now, by=author.principal_id)
