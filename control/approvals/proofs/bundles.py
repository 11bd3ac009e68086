"""`/orgs/{orgSlug}/projects/{projectSlug}/proof-bundles`: list, show, download as received. The routes of proofs."""

import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final, NamedTuple

from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import to_milliseconds
from chassis.errors import NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Operation, Parameter, ResponseSpec, json_content
from chassis.http.validation import Issues, bounded_text
from chassis.http.web import JSON_HEADERS, JSON_TYPE, Route, json_response
from control.approvals.proofs import issuers, references, store
from control.approvals.proofs.bodies import ProofBundleDetail, ProofBundlePage, detail_body, summary_body
from control.approvals.proofs.intake import MEDIA_TYPES, Intake, ReceivedBody
from control.approvals.proofs.issuers import ProofIssuers
from control.approvals.proofs.model import IssuerKey, Link, LinkKind, StoredBundle
from control.approvals.proofs.references import is_approval_id, parse_trace_id
from control.approvals.proofs.store import BundleFilter, BundlePage
from control.approvals.proofs.submission import TAG, ProofSubmission, load_record, project_of
from control.http.context import HandlerContext
from control.http.paging import PAGE_PARAMETERS, parse_page_request
from control.http.query_filters import boolean_filter, choice_filter, line_filter
from control.http.request_slots import RequestSlots
from proto.identity import Scope
from proto.proofs import dsse
from proto.proofs.primitives import IDENTIFIER_PATTERN, ProofTier, ProofVerdict

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
        issue = await references.find_named(connection, project_id, project_slug, query.issue)
        if issue is None:
            return None
        issue_ids = await references.with_merged(connection, issue.id)
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


_NO_BUNDLES: Final = BundlePage([], None)
_FILE_NAME: Final = re.compile(r"[^A-Za-z0-9._-]")
ID: Final = Parameter(
    "bundleId", "path", Annotated[str, Meta(min_length=1, max_length=128)], "The bundle, by its own `bundleId`."
)
LIST: Final = Operation("listProofBundles", TAG, (ResponseSpec("A page.", json_content(ProofBundlePage)),), PARAMETERS)
SHOW: Final = Operation(
    "showProofBundle",
    TAG,
    (ResponseSpec("The bundle.", json_content(ProofBundleDetail)),),
    (ID, VERIFIED),
)
RAW: Final = Operation(
    "showRawProofBundle",
    TAG,
    (
        ResponseSpec(
            "The bytes as received, in the media type in which they came.",
            dict.fromkeys(MEDIA_TYPES),
        ),
    ),
    (ID, VERIFIED),
)


@dataclass(frozen=True, slots=True)
class ProofBundles:
    """Handlers of what is stored, and their dependencies."""

    context: HandlerContext
    intake: Intake
    slots: RequestSlots
    now: Callable[[], datetime] = lambda: to_milliseconds(datetime.now(UTC))

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        every = "/orgs/{orgSlug}/projects/{projectSlug}/proof-bundles"
        one, read = every + "/{bundleId}", bearer(Scope.PROOFS_READ)
        return [
            Route("GET", every, self.list, read, operation=LIST),
            Route("GET", one, self.show, read, operation=SHOW),
            Route("GET", one + "/raw", self.raw, read, operation=RAW),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List the bundles of a project, newest first.

        A page may have fewer bundles than `limit`, even none, while `hasMore` is true: filters that few bundles match
        together are looked up page by page.
        """
        caller, issues = authorization_context(request), Issues()
        query = parse_query(request, issues)
        project_id, slug = project_of(caller)
        binding = repr(("proof bundles", project_id, query)).encode()
        page, cursors = parse_page_request(request, self.context.cursors, binding, issues), self.context.cursors
        async with self._slot(request), self.context.database.read() as connection:
            wanted = await to_filter(connection, project_id, slug, query)
            found = (
                _NO_BUNDLES
                if wanted is None
                else await store.list_bundles(connection, project_id, wanted, page.after, page.limit)
            )
            keys = await _keys_by_id(connection, caller.org_id)
        now, next_before = self.now(), found.next_before
        return json_response(
            {
                "data": [summary_body(one, keys.get(one.issuer_key_id or ""), now) for one in found.bundles],
                "nextCursor": None if next_before is None else cursors.sign((next_before,), binding),
                "hasMore": next_before is not None,
            }
        )

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Show a bundle, parsed, with what was found and what it speaks of."""
        async with self._slot(request):
            async with self.context.database.read() as connection:
                stored = await self._load(connection, request)
                keys = await issuers.list_keys(connection, stored.origin.org_id)
                body = await store.read_body(connection, stored)
                record = await load_record(connection, stored, keys, self.now())
            received = ReceivedBody(body, stored.origin.media_type)
            raw = await self.intake.render(
                received, lambda parsed: detail_body(record, parsed.bundle, parsed.statement)
            )
        return web.Response(body=raw, headers={**JSON_HEADERS, "Content-Type": JSON_TYPE})

    async def raw(self, request: web.Request) -> web.StreamResponse:
        """Give a bundle back as it was received, byte for byte: what its signature is verified over."""
        async with self._slot(request), self.context.database.read() as connection:
            stored = await self._load(connection, request)
            body = await store.read_body(connection, stored)
        name = _FILE_NAME.sub("_", stored.bundle_id)
        suffix = "dsse.json" if stored.origin.media_type == dsse.ENVELOPE_TYPE else "json"
        headers = {
            **JSON_HEADERS,
            "Content-Type": stored.origin.media_type,
            "Content-Disposition": f'attachment; filename="{name}.{suffix}"',
        }
        return web.Response(body=body, headers=headers)

    def _slot(self, request: web.Request) -> AbstractAsyncContextManager[None]:
        """One of the slots of the caller. Raises RateLimited."""
        caller = authorization_context(request)
        return self.slots.taken((caller.org_id, caller.principal_id))

    async def _load(self, connection: AsyncConnection, request: web.Request) -> StoredBundle:
        """The bundle in the path. Raises BadRequest and NotFound."""
        issues = Issues()
        is_verified = boolean_filter(request.query, "verified", issues)
        issues.raise_if_any("The query is not valid.")
        bundle_id = request.match_info["bundleId"]
        if re.match(IDENTIFIER_PATTERN, bundle_id) is None:
            raise NotFound  # a path may hold characters that no column accepts
        project_id, _ = project_of(authorization_context(request))
        found = await store.find(connection, project_id, bundle_id, is_verified=is_verified)
        if found is None:
            raise NotFound
        return found


async def _keys_by_id(connection: AsyncConnection, org_id: str) -> dict[str, IssuerKey]:
    return {key.id: key for key in await issuers.list_keys(connection, org_id)}


_REFUSAL: Final = "Too many proof bundles are handed in at once."
_READ_REFUSAL: Final = "Too many proof bundles are read at once."


def build_proof_routes(context: HandlerContext, max_bytes: int, body_min_rate: int) -> list[Route]:
    """Routes. `max_bytes`: of the bundles of an organization; 0: no limit. `body_min_rate`: of bodies that take longer
    than others, bytes per second.
    """
    intake = Intake(context.body_timeout_s, body_min_rate)
    submission = ProofSubmission(context, intake, RequestSlots(_REFUSAL), max_bytes)
    bundles = ProofBundles(context, intake, RequestSlots(_READ_REFUSAL))
    return [*bundles.routes(), *submission.routes(), *ProofIssuers(context).routes()]
