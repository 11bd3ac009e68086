"""The filters of a list of bundles."""

from typing import Annotated, Final, NamedTuple

from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.http.route import Parameter
from chassis.http.validation import Issues, bounded_text
from control.approvals.proofs import issue_lookup
from control.approvals.proofs.model import Link, LinkKind
from control.approvals.proofs.references import is_approval_id, parse_trace_id
from control.approvals.proofs.repository import BundleFilter
from control.http.paging import PAGE_PARAMETERS
from control.http.query_filters import boolean_filter, choice_filter, line_filter
from proto.proofs.primitives import ProofTier, ProofVerdict

MAX_ISSUE_LENGTH: Final = 120
MAX_RUN_LENGTH: Final = 200
MAX_COMMIT_LENGTH: Final = 80
MAX_LINK_LENGTH: Final = 64

VERIFIED: Final = Parameter(
    "verified", "query", bool, "`true`: only verified bundles; `false`: only those that are not signed."
)


def _text(length: int) -> object:
    return Annotated[str, Meta(min_length=1, max_length=length)]


PARAMETERS: Final = (
    Parameter(
        "issue",
        "query",
        _text(MAX_ISSUE_LENGTH),
        "Only bundles about this issue, by its id or short id.",
        example="WEB-12",
    ),
    Parameter("runId", "query", _text(MAX_RUN_LENGTH), "Only bundles of this run."),
    Parameter("verdict", "query", ProofVerdict, "Only bundles with this verdict."),
    Parameter("tier", "query", ProofTier, "Only bundles of this tier."),
    Parameter("commit", "query", _text(MAX_COMMIT_LENGTH), "Only bundles about this commit, by its whole hash."),
    VERIFIED,
    Parameter(
        "approvalRequestId", "query", _text(MAX_LINK_LENGTH), "Only bundles that speak of this approval request."
    ),
    Parameter("traceId", "query", _text(MAX_LINK_LENGTH), "Only bundles that speak of this trace."),
    *PAGE_PARAMETERS,
)


class ListQuery(NamedTuple):
    """The filters as they were given."""

    issue: str | None
    run_id: str | None
    verdict: ProofVerdict | None
    tier: ProofTier | None
    commit: str | None
    is_verified: bool | None
    approval_request_id: str | None
    trace_id: str | None


def parse_query(request: web.Request, issues: Issues) -> ListQuery:
    """The filters; faults are recorded."""
    query = request.query
    parsed = ListQuery(
        issue=line_filter(query, "issue", MAX_ISSUE_LENGTH, issues),
        run_id=line_filter(query, "runId", MAX_RUN_LENGTH, issues),
        verdict=choice_filter(query, "verdict", ProofVerdict, issues),
        tier=choice_filter(query, "tier", ProofTier, issues),
        commit=line_filter(query, "commit", MAX_COMMIT_LENGTH, issues),
        is_verified=boolean_filter(query, "verified", issues),
        approval_request_id=bounded_text(query, "approvalRequestId", 1, MAX_LINK_LENGTH, issues),
        trace_id=bounded_text(query, "traceId", 1, MAX_LINK_LENGTH, issues),
    )
    if parsed.approval_request_id is not None and parsed.trace_id is not None:
        issues.add("query.traceId", "Must not be given together with approvalRequestId.", "not_allowed")
    return parsed


async def to_filter(
    connection: AsyncConnection, project_id: int, project_slug: str, query: ListQuery
) -> BundleFilter | None:
    """What to look for; None if an issue, approval request or trace is named that no bundle can speak of."""
    issue_ids, link = None, None
    if query.issue is not None:
        issue = await issue_lookup.find_named(connection, project_id, project_slug, query.issue)
        if issue is None:
            return None
        issue_ids = await issue_lookup.with_merged(connection, issue.id)
    if query.approval_request_id is not None:
        if not is_approval_id(query.approval_request_id):
            return None
        link = Link(LinkKind.APPROVAL_REQUEST, query.approval_request_id)
    if query.trace_id is not None:
        trace_id = parse_trace_id(query.trace_id)
        if trace_id is None:
            return None
        link = Link(LinkKind.TRACE, trace_id)
    return BundleFilter(
        issue_ids=issue_ids,
        run_id=query.run_id,
        verdict=query.verdict,
        tier=query.tier,
        commit=query.commit,
        is_verified=query.is_verified,
        link=link,
    )
