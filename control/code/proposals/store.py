"""Proposals (pull or merge requests) in the database. Every function runs in the caller's transaction."""

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.id_generation import new_id
from chassis.auth.tables import projects
from chassis.issues import IssueStatus, issues
from control.code.fixes.named_issues import SELECT_NAMED, named_issue
from control.code.row_limits import RowLimit
from control.issues.references import NamedIssue, ShortId
from control.issues.releases.tables import ProposalState, code_reverts, proposal_issues, proposals
from control.issues.store import insert_rows

MAX_PROPOSALS: Final = 20_000  # of an organization; beyond it those reported first are deleted
MAX_SUPERSEDED: Final = 200  # by one merge
_PRUNED_AT_ONCE: Final = 100

_limit: Final = RowLimit(proposals)


@dataclass(frozen=True, slots=True)
class ProposalReport:
    """What a platform says of a proposal, as of `changed_at` by its clock. `text`: its description; None: not said.
    `opened_at`, `merged_at`: by the same clock. `targets_default_branch` False: it is to be merged into another
    branch than the default one.
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


StoredProposal = sa.Row[Any]  # of `proposals`


async def find_proposal(
    connection: AsyncConnection, org_id: str, repository: str, number: str
) -> StoredProposal | None:
    """The organization's proposal with this number."""
    found = sa.select(proposals).where(
        proposals.c.org_id == org_id, proposals.c.repository == repository, proposals.c.number == number
    )
    return (await connection.execute(found)).one_or_none()


async def store_proposal(
    connection: AsyncConnection, org_id: str, known: StoredProposal | None, report: ProposalReport, now: datetime
) -> str:
    """Insert or update a proposal, whose state is that of the report; returns its id. What is not reported stays."""
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
    values: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
    if known is not None:
        if known.state == ProposalState.MERGED:  # when it was first said to be
            del values["merged_at"]
            await note_merge(connection, known, report)
        await connection.execute(proposals.update().where(proposals.c.id == known.id).values(values))
        return str(known.id)
    await _prune(connection, org_id)
    proposal_id = new_id("prp")
    row = {"id": proposal_id, "org_id": org_id, "repository": report.repository, "number": report.number}
    await connection.execute(proposals.insert().values(row | values | {"created_at": now}))
    return proposal_id


async def note_merge(connection: AsyncConnection, known: StoredProposal, report: ProposalReport) -> bool:
    """Note when a proposal was merged that is known to be, if it was earlier; whether it was."""
    at = report.merged_at or report.changed_at
    is_later = (proposals.c.id == known.id) & ((proposals.c.merged_at > at) | proposals.c.merged_at.is_(None))
    return (await connection.execute(proposals.update().where(is_later).values(merged_at=at))).rowcount > 0


async def link_issues(
    connection: AsyncConnection, org_id: str, proposal_id: str, named: Iterable[NamedIssue]
) -> list[NamedIssue]:
    """Make these the issues of the proposal; returns those that are new to it."""
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
    found = SELECT_NAMED.join(proposal_issues, of_proposal).where(
        proposal_issues.c.proposal_id == proposal_id, projects.c.deleted_at.is_(None)
    )
    return [named_issue(row) for row in await connection.execute(found)]


async def supersede_others(
    connection: AsyncConnection, org_id: str, proposal_id: str, issue_ids: Collection[str], now: datetime
) -> Sequence[StoredProposal]:
    """The other open proposals of these issues become superseded, at most MAX_SUPERSEDED; returns them as they were."""
    wanted = list(issue_ids)
    merged_into = sa.select(issues.c.merged_into).where(issues.c.id.in_(wanted), issues.c.merged_into.is_not(None))
    targets = sa.or_(issues.c.id.in_(wanted), issues.c.id.in_(merged_into))
    same = sa.select(issues.c.id).where(  # these, those that they were merged into, and those merged into either
        sa.or_(targets, issues.c.merged_into.in_(wanted), issues.c.merged_into.in_(merged_into))
    )
    of_issues = sa.exists().where(proposal_issues.c.proposal_id == proposals.c.id, proposal_issues.c.issue_id.in_(same))
    is_open = (proposals.c.org_id == org_id) & (proposals.c.state == ProposalState.OPEN.value)
    found = sa.select(proposals).where(is_open, of_issues, proposals.c.id != proposal_id).order_by(proposals.c.id)
    others = (await connection.execute(found.limit(MAX_SUPERSEDED))).all()
    if others:
        await supersede(connection, [one.id for one in others], now)
    return others


async def supersede(connection: AsyncConnection, proposal_ids: Collection[str], now: datetime) -> None:
    """The proposals are superseded."""
    values = {"state": ProposalState.SUPERSEDED.value, "updated_at": now}
    await connection.execute(proposals.update().where(proposals.c.id.in_(proposal_ids)).values(values))


async def has_merged_rival(connection: AsyncConnection, proposal_id: str, since: datetime) -> bool:
    """Whether another proposal of an issue of this one was merged after this time."""
    own, other = proposal_issues.alias(), proposal_issues.alias()
    found = (
        sa.select(proposals.c.id)
        .join_from(own, other, other.c.issue_id == own.c.issue_id)
        .join(proposals, proposals.c.id == other.c.proposal_id)
        .where(own.c.proposal_id == proposal_id, proposals.c.id != proposal_id)
        .where(proposals.c.state == ProposalState.MERGED.value, proposals.c.changed_at > since)
    )
    return await connection.scalar(found.limit(1)) is not None


async def has_unresolved_issue(connection: AsyncConnection, proposal_id: str) -> bool:
    """Whether an issue of the proposal, or the one that it was merged into, is not resolved."""
    target = issues.alias()
    found = (
        sa.select(target.c.id)
        .join_from(proposal_issues, issues, issues.c.id == proposal_issues.c.issue_id)
        .join(target, target.c.id == sa.func.coalesce(issues.c.merged_into, issues.c.id))
        .where(proposal_issues.c.proposal_id == proposal_id, target.c.status != IssueStatus.RESOLVED.value)
    )
    return await connection.scalar(found.limit(1)) is not None


_ISSUES_OF_PROPOSALS: Final = (
    sa.select(proposal_issues.c.proposal_id, projects.c.slug, issues.c.number)
    .join_from(proposal_issues, issues, issues.c.id == proposal_issues.c.issue_id)
    .join(projects, projects.c.id == issues.c.project_id)
    .where(projects.c.deleted_at.is_(None))
)


def of_issue(issue: ShortId) -> sa.ColumnElement[bool]:
    """Proposals that fix the issue."""
    found = _ISSUES_OF_PROPOSALS.where(projects.c.slug == issue.project_slug, issues.c.number == issue.number)
    return proposals.c.id.in_(found.with_only_columns(proposal_issues.c.proposal_id))


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
    if not surplus:
        return
    oldest = sa.select(proposals.c.id).where(proposals.c.org_id == org_id).order_by(proposals.c.id).limit(surplus)
    ids = list((await connection.execute(oldest)).scalars())
    await connection.execute(proposal_issues.delete().where(proposal_issues.c.proposal_id.in_(ids)))
    await connection.execute(code_reverts.delete().where(code_reverts.c.source_id.in_(ids)))
    await connection.execute(proposals.delete().where(proposals.c.id.in_(ids)))
