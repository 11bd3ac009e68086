"""`/orgs/{orgSlug}/proposals`: report, list."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.db.database import to_milliseconds
from chassis.errors import BadRequest, Issue
from chassis.http.access import bearer
from chassis.http.declaration import Created, PageOf, declared_routes, route
from chassis.http.operation import Body, Tag, json_content
from chassis.http.query import Query, line
from chassis.http.validation import Issues
from chassis.http.web import Route, request_id
from control.audit.record import record
from control.code.fixes import Author
from control.code.proposal_reports import find_listed, report_proposal
from control.code.proposal_repository import ProposalReport, list_proposals
from control.code.proposal_schemas import (
    ChangeProposal,
    NewProposalReport,
    ProposalReportResult,
    proposal_body,
)
from control.http.context import HandlerContext
from control.http.field_types import check_url
from control.http.time_input import parse_time
from control.issues.references import MAX_SHORT_ID_LENGTH, NamedIssue, parse_short_id
from control.issues.releases.tables import MAX_REPOSITORY_LENGTH, ProposalState
from control.routing.arguments import control_arguments
from control.routing.resource import PageReader
from proto.identity import Scope

MAX_AHEAD: Final = timedelta(hours=1)  # of the platform's clock: a time far ahead would outdate every later report
TAG: Final = Tag("proposals", "Proposals: pull or merge requests, with the issues that they fix.")
PATH: Final = "/orgs/{orgSlug}/proposals"
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


class ProposalQuery(Query, frozen=True, rename="camel"):
    """Which proposals a list has."""

    state: Annotated[ProposalState | None, Meta(description="Only proposals in this state.")] = None
    repository: Annotated[
        str | None, line(MAX_REPOSITORY_LENGTH), Meta(description="Only proposals in this repository.")
    ] = None
    issue: Annotated[
        str | None,
        line(MAX_SHORT_ID_LENGTH),
        Meta(description="Only proposals that fix the issue with this short id.", examples=["WEB-12"]),
    ] = None

    def check(self, issues: Issues) -> None:
        """Record a text that is no short id."""
        if self.issue is not None and parse_short_id(self.issue) is None:
            issues.add("query.issue", "Must be the short id of an issue, such as WEB-12.", "format")


@dataclass(frozen=True, slots=True)
class Proposals:
    """Handlers of proposals, and their dependencies."""

    context: HandlerContext
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def routes(self) -> list[Route]:
        """Every route of this resource."""
        return declared_routes(self, TAG, control_arguments(self.context))

    @route("GET", PATH, bearer(Scope.RELEASES_READ), page="ProposalPage")
    async def list_proposals(
        self, caller: AuthorizationContext, query: ProposalQuery, page: PageReader
    ) -> PageOf[ChangeProposal]:
        """List proposals, newest first."""
        issue = None if query.issue is None else parse_short_id(query.issue)
        fetch = partial(
            list_proposals, org_id=caller.org_id, state=query.state, repository=query.repository, issue=issue
        )
        return await page.read(("proposals", caller.org_id, query), fetch, proposal_body)

    @route("PUT", PATH, bearer(Scope.RELEASES_WRITE), body=REPORT)
    async def report_proposal(self, request: web.Request) -> Created[ProposalReportResult] | ProposalReportResult:
        """Report a proposal.

        A report that is older than the last one changes nothing. A merge resolves the issues of the proposal in the
        next release, or at once if their project says so, and supersedes the other open proposals of the same issues.
        """
        issues, now = Issues(), to_milliseconds(self.now())
        body = await self.context.read_body(request, NewProposalReport, issues)
        report = _to_report(body, now, issues)
        async with self.context.write_transaction(request) as (connection, caller):
            author = Author(caller.org_id, caller.org_slug, caller.principal_id, now)
            listed = None if body.issues is None else await _require_issues(connection, caller.org_id, body.issues)
            reported = await report_proposal(connection, author, report, listed)
            resolved = [str(one) for one in reported.issues_resolved]
            reopened = [str(one) for one in reported.issues_reopened]
            superseded = [f"{one.repository}#{one.number}" for one in reported.superseded]
            if reported.is_changed:
                stored = reported.proposal
                data = {
                    "repository": stored.repository,
                    "number": stored.number,
                    "state": stored.state.value,
                    "issuesResolved": resolved,
                    "issuesReopened": reopened,
                    "proposalsSuperseded": superseded,
                }
                await record(connection, caller, "proposal.report", stored.id, data, request_id(request))
        shown = msgspec.structs.asdict(proposal_body(reported.proposal))
        result = ProposalReportResult(
            **shown, issues_resolved=resolved, issues_reopened=reopened, proposals_superseded=superseded
        )
        return Created(result) if reported.is_new else result


def _to_report(body: NewProposalReport, now: datetime, issues: Issues) -> ProposalReport:
    """Raises BadRequest."""
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
    """The issues with these short ids. Raises BadRequest for unknown ones."""
    parsed = [parse_short_id(name) for name in names]
    found = await find_listed(connection, org_id, [one for one in parsed if one is not None])
    unknown = [
        Issue(f"body.issues[{number}]", "Is not an issue of the organization.", "unknown")
        for number, one in enumerate(parsed)
        if one is None or one not in found
    ]
    if unknown:
        raise BadRequest("The request body is not valid.", unknown)
    return list(found.values())
