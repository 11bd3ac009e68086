"""`/orgs/{orgSlug}/proposals`: report, list."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from enum import StrEnum
from typing import Annotated, ClassVar, Final

import msgspec
import sqlalchemy as sa
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.db.database import to_milliseconds
from chassis.errors import BadRequest, Issue
from chassis.http.access import bearer
from chassis.http.declaration import Created, PageOf, route
from chassis.http.route import Body, Query, Tag, json_content
from chassis.http.route import line as line_filter
from chassis.http.validation import Issues
from control.code.fixes.updates import Author
from control.code.proposals.store import (
    ProposalReport,
    StoredProposal,
    find_listed,
    find_short_ids,
    of_issue,
    report_proposal,
)
from control.code.releases.bodies import Ref, Repository, Sha
from control.http.field_types import TimeInput, Timestamp, Url, check_url, line, lines, parse_time
from control.issues.references import (
    MAX_REFERENCES,
    MAX_SHORT_ID_LENGTH,
    MAX_TEXT,
    SHORT_ID_PATTERN,
    NamedIssue,
    parse_short_id,
)
from control.issues.releases.tables import (
    MAX_PROPOSAL_NUMBER_LENGTH,
    MAX_REPOSITORY_LENGTH,
    MAX_TITLE_LENGTH,
    ProposalState,
    proposals,
)
from control.routing.arguments import Handlers, begin
from control.routing.resource import PageReader, shown_as
from proto.identity import MAX_NAME_LENGTH, Scope

# Of the platform's clock. After a report with a time far ahead, all later reports would count as older.
MAX_AHEAD: Final = timedelta(hours=1)
PATH: Final = "/orgs/{orgSlug}/proposals"
_Number = Annotated[str, line(MAX_PROPOSAL_NUMBER_LENGTH)]
_Title = Annotated[str, line(MAX_TITLE_LENGTH)]
ShortIdText = Annotated[
    str,
    Meta(
        max_length=MAX_SHORT_ID_LENGTH,
        pattern=SHORT_ID_PATTERN,
        description="Must be the short id of an issue, such as `WEB-12`.",
    ),
]
PROPOSAL_ID_PATTERN: Final = "^prp_[0-9a-z]{26}$"


class ReportedState(StrEnum):
    """The state of a proposal on its platform."""

    OPEN = "open"
    MERGED = "merged"
    CLOSED = "closed"


class NewProposalReport(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The current data of a proposal. Fields that are left out keep the values of earlier reports. The issues of the
    proposal are kept if both `body` and `issues` are left out.
    """

    repository: Repository
    number: Annotated[_Number, Meta(description="The number or name of the proposal in the repository.")]
    title: _Title
    state: ReportedState
    body: Annotated[str, lines(MAX_TEXT)] | None = None
    head_ref: Ref | None = None
    head_sha: Sha | None = None
    merge_sha: Annotated[
        Sha | None,
        Meta(
            description="Must be a complete hash, in hexadecimal digits. It names the commit that merged the proposal."
        ),
    ] = None
    author_name: Annotated[str, line(MAX_NAME_LENGTH)] | None = None
    url: Url | None = None
    changed_at: Annotated[
        TimeInput | None,
        Meta(
            description="Must be an RFC 3339 time, 1970 or later, not in the future. It is the time at which the "
            "platform last changed the proposal, by default the current time. A report with an earlier time changes "
            "nothing."
        ),
    ] = None
    issues: (
        Annotated[
            list[ShortIdText],
            Meta(
                max_length=MAX_REFERENCES,
                description="Issues that the proposal fixes, in addition to the issues that title and body name.",
            ),
        ]
        | None
    ) = None


class ChangeProposal(msgspec.Struct, frozen=True, rename="camel"):
    """A pull or merge request."""

    id: Annotated[str, Meta(pattern=PROPOSAL_ID_PATTERN)]
    repository: str
    number: str
    title: str
    state: Annotated[ProposalState, Meta(description="`superseded`: another proposal for the same issue was merged.")]
    head_ref: str | None
    head_sha: str | None
    merge_sha: str | None
    author_name: str | None
    url: str | None
    issues: Annotated[list[str], Meta(description="Short ids of the issues that the proposal fixes.")]
    changed_at: Timestamp
    created_at: Timestamp


class ProposalReportResult(ChangeProposal, frozen=True, rename="camel"):
    """A proposal, and the effects of the report."""

    issues_resolved: Annotated[list[str], Meta(description="Short ids of issues that the merge resolved.")]
    issues_reopened: Annotated[list[str], Meta(description="Short ids of issues whose fix the merge reverted.")]
    proposals_superseded: Annotated[
        list[str],
        Meta(description="`repository#number` of the other open proposals of these issues, which are now superseded."),
    ]


class ProposalQuery(Query, frozen=True, rename="camel"):
    """The filters of a list of proposals."""

    state: Annotated[ProposalState | None, Meta(description="Only proposals in this state.")] = None
    repository: Annotated[
        str | None, line_filter(MAX_REPOSITORY_LENGTH), Meta(description="Only proposals in this repository.")
    ] = None
    issue: Annotated[
        str | None,
        line_filter(MAX_SHORT_ID_LENGTH),
        Meta(description="Only proposals that fix the issue with this short id.", examples=["WEB-12"]),
    ] = None

    def check(self, issues: Issues) -> None:
        """Record a text that is not a short id."""
        if self.issue is not None and parse_short_id(self.issue) is None:
            issues.add("query.issue", "Must be the short id of an issue, such as WEB-12.", "format")


REPORT: Final = Body(
    json_content(NewProposalReport),
    example={
        "repository": "shop/checkout",
        "number": "17",
        "title": "Round totals once",
        "state": "merged",
        "mergeSha": "6dcb09b5b57875f334f61aebed695e2e4193db5e",
        "issues": ["WEB-12"],
    },
)


@dataclass(frozen=True, slots=True)
class Proposals(Handlers):
    """Handlers of proposals, and their dependencies."""

    TAG: ClassVar = Tag("proposals", "Proposals: pull or merge requests, with the issues that they fix.")
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    @route("GET", PATH, bearer(Scope.RELEASES_READ), page="ProposalPage")
    async def list_proposals(
        self, caller: AuthorizationContext, query: ProposalQuery, page: PageReader
    ) -> PageOf[ChangeProposal]:
        """List proposals, newest first."""
        issue = None if query.issue is None else parse_short_id(query.issue)
        wanted = {
            proposals.c.org_id: caller.org_id,
            proposals.c.state: query.state,
            proposals.c.repository: query.repository,
        }
        conditions = [column == value for column, value in wanted.items() if value is not None]
        if issue is not None:
            conditions.append(of_issue(issue))

        async def fetch(connection: AsyncConnection, before: str | None, limit: int) -> list[ChangeProposal]:
            older = [] if before is None else [proposals.c.id < before]
            statement = sa.select(proposals).where(*conditions, *older).order_by(proposals.c.id.desc()).limit(limit)
            return await _shown(connection, (await connection.execute(statement)).all())

        return await page.read(("proposals", caller.org_id, query), fetch, lambda one: one)

    @route("PUT", PATH, bearer(Scope.RELEASES_WRITE), body=REPORT)
    async def report_proposal(self, request: web.Request) -> Created[ProposalReportResult] | ProposalReportResult:
        """Report a proposal.

        A report that is older than the last one changes nothing. A merge resolves the issues of the proposal in the
        next release, or at once if the settings of their project say so. It supersedes the other open proposals of the
        same issues.
        """
        issues, now = Issues(), to_milliseconds(self.now())
        body = await self.context.read_body(request, NewProposalReport, issues)
        report = _to_report(body, now, issues)
        async with begin(self.context, request) as transaction:
            connection, caller = transaction.connection, transaction.caller
            author = Author(caller.org_id, caller.org_slug, caller.principal_id, now)
            listed = None if body.issues is None else await _require_issues(connection, caller.org_id, body.issues)
            reported = await report_proposal(connection, author, report, listed)
            (shown,) = await _shown(connection, [reported.proposal])
            result = ProposalReportResult(
                **msgspec.structs.asdict(shown),
                issues_resolved=[str(one) for one in reported.issues_resolved],
                issues_reopened=[str(one) for one in reported.issues_reopened],
                proposals_superseded=[f"{one.repository}#{one.number}" for one in reported.superseded],
            )
            if reported.is_changed:
                data = {
                    "repository": result.repository,
                    "number": result.number,
                    "state": result.state,
                    "issuesResolved": result.issues_resolved,
                    "issuesReopened": result.issues_reopened,
                    "proposalsSuperseded": result.proposals_superseded,
                }
                await transaction.record("proposal.report", result.id, data)
        return Created(result) if reported.is_new else result


def _to_report(body: NewProposalReport, now: datetime, issues: Issues) -> ProposalReport:
    """Convert the body to a report. Raises BadRequest."""
    check_url(body.url, "body.url", issues)
    changed_at = parse_time(body.changed_at, "body.changedAt", issues) or now
    if changed_at > now + MAX_AHEAD:
        issues.add("body.changedAt", "Must not be in the future.", "range")
    issues.raise_if_any("The request body is not valid.")
    return ProposalReport(
        repository=body.repository,
        number=body.number,
        title=body.title,
        state=ProposalState(body.state),
        changed_at=changed_at,
        text=body.body,
        head_ref=body.head_ref,
        head_sha=None if body.head_sha is None else body.head_sha.lower(),
        merge_sha=None if body.merge_sha is None else body.merge_sha.lower(),
        author_name=body.author_name,
        url=body.url,
    )


async def _require_issues(connection: AsyncConnection, org_id: str, names: Sequence[str]) -> Sequence[NamedIssue]:
    """Find the issues with these short ids. Raises BadRequest for unknown ids."""
    parsed = [parse_short_id(name) for name in names]
    found = await find_listed(connection, org_id, [one for one in parsed if one is not None])
    unknown = [
        Issue(f"body.issues[{number}]", "The organization has no such issue.", "unknown")
        for number, one in enumerate(parsed)
        if one is None or one not in found
    ]
    if unknown:
        raise BadRequest("The request body is not valid.", unknown)
    return list(found.values())


async def _shown(connection: AsyncConnection, stored_proposals: Sequence[StoredProposal]) -> list[ChangeProposal]:
    short_ids = await find_short_ids(connection, [one.id for one in stored_proposals])
    return [shown_as(ChangeProposal, one, issues=short_ids.get(one.id, [])) for one in stored_proposals]
