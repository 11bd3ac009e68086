"""`/orgs/{orgSlug}/proposals`: report, list."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import to_milliseconds
from chassis.errors import BadRequest, Issue
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Body, Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.validation import Issues
from chassis.http.web import Route, json_response, request_id
from control.audit.record import record
from control.http.context import HandlerContext
from control.http.paging import PAGE_PARAMETERS, page_body, parse_page_request
from control.http.query_filters import choice_filter, line_filter
from control.http.time_input import parse_time
from control.http.url_input import check_url
from control.issues.references import MAX_SHORT_ID_LENGTH, NamedIssue, parse_short_id
from control.releases.tables import MAX_REPOSITORY_LENGTH, ProposalState
from control.scm.fixes import Author
from control.scm.proposal_reports import find_listed, report_proposal
from control.scm.proposal_repository import ProposalReport, list_proposals
from control.scm.proposal_schemas import (
    NewProposalReport,
    ProposalPage,
    ProposalReportResult,
    proposal_body,
)
from proto.identity import Scope

MAX_AHEAD: Final = timedelta(hours=1)  # of the platform's clock: a time far ahead would outdate every later report
TAG: Final = Tag("proposals", "Proposals: pull or merge requests, with the issues that they fix.")
_FILTERS: Final = (
    Parameter("state", "query", ProposalState, "Only proposals in this state."),
    Parameter(
        "repository",
        "query",
        Annotated[str, Meta(min_length=1, max_length=MAX_REPOSITORY_LENGTH)],
        "Only proposals in this repository.",
    ),
    Parameter(
        "issue",
        "query",
        Annotated[str, Meta(min_length=1, max_length=MAX_SHORT_ID_LENGTH)],
        "Only proposals that fix the issue with this short id.",
        example="WEB-12",
    ),
)
LIST: Final = Operation(
    "listProposals", TAG, (ResponseSpec("A page.", json_content(ProposalPage)),), (*_FILTERS, *PAGE_PARAMETERS)
)
REPORT: Final = Operation(
    "reportProposal",
    TAG,
    (
        ResponseSpec("The proposal, which was not known.", json_content(ProposalReportResult), 201),
        ResponseSpec("The proposal.", json_content(ProposalReportResult)),
    ),
    body=Body(
        json_content(NewProposalReport),
        example={
            "repository": "shop/checkout",
            "number": "17",
            "title": "Round totals once",
            "state": "merged",
            "mergeSha": "6dcb09b5b57875f334f61aebed695e2e4193db5e",
            "issues": ["WEB-12"],
        },
    ),
)


@dataclass(frozen=True, slots=True)
class Proposals:
    """Handlers of proposals, and their dependencies."""

    context: HandlerContext
    now: Callable[[], datetime] = lambda: datetime.now(UTC)

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        path = "/orgs/{orgSlug}/proposals"
        return [
            Route("GET", path, self.list, bearer(Scope.RELEASES_READ), operation=LIST),
            Route("PUT", path, self.report, bearer(Scope.RELEASES_WRITE), operation=REPORT),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List proposals, newest first."""
        org_id, query, issues = authorization_context(request).org_id, request.query, Issues()
        state = choice_filter(query, "state", ProposalState, issues)
        repository = line_filter(query, "repository", MAX_REPOSITORY_LENGTH, issues)
        text = line_filter(query, "issue", MAX_SHORT_ID_LENGTH, issues)
        issue = None if text is None else parse_short_id(text)
        if text is not None and issue is None:
            issues.add("query.issue", "Must be the short id of an issue, such as WEB-12.", "format")
        binding = repr(("proposals", org_id, state, repository, issue)).encode()
        page = parse_page_request(request, self.context.cursors, binding, issues)
        async with self.context.database.read() as connection:
            found = await list_proposals(
                connection,
                org_id,
                state=state,
                repository=repository,
                issue=issue,
                before_id=page.after,
                limit=page.limit + 1,
            )
        return json_response(page_body(found, page, proposal_body, lambda one: one.id, self.context.cursors, binding))

    async def report(self, request: web.Request) -> web.StreamResponse:
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
        return json_response(result, status=201 if reported.is_new else 200)


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
