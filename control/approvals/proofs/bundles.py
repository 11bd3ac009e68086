"""`/orgs/{orgSlug}/projects/{projectSlug}/proof-bundles`: list, show, download as received. The routes of proofs."""

import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final

import sqlalchemy as sa
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.db.database import to_milliseconds
from chassis.errors import JSON_TYPE, NotFound
from chassis.http.access import bearer
from chassis.http.declaration import PageOf, route
from chassis.http.route import Parameter, Query, ResponseSpec, json_content
from chassis.http.web import JSON_HEADERS, Route
from control.approvals.proofs import issuers, references, store
from control.approvals.proofs.bodies import ProofBundleDetail, ProofBundleSummary, detail_body, summary_body
from control.approvals.proofs.intake import MEDIA_TYPES, Intake, ReceivedBody
from control.approvals.proofs.issuers import ProofIssuers
from control.approvals.proofs.references import is_approval_id, parse_trace_id
from control.approvals.proofs.store import BundleFilter, BundlePage, BundleQuery, Verified
from control.approvals.proofs.submission import PATH, ProofSubmission, load_record, project_of
from control.approvals.proofs.tables import Link, LinkKind
from control.http.context import HandlerContext, RequestSlots
from control.http.lists import parse_page_request
from control.routing.arguments import Handlers
from control.routing.resource import PageReader
from proto.identity import Scope
from proto.proofs import dsse
from proto.proofs.primitives import IDENTIFIER_PATTERN

ONE: Final = PATH + "/{bundleId}"
_READ: Final = bearer(Scope.PROOFS_READ)
_FILE_NAME: Final = re.compile(r"[^A-Za-z0-9._-]")
_ID: Final = Parameter(
    "bundleId", "path", Annotated[str, Meta(min_length=1, max_length=128)], "The value of `bundleId` in the bundle."
)
_DETAIL: Final = ResponseSpec("The bundle.", json_content(ProofBundleDetail))
_RAW: Final = ResponseSpec("The bytes and the media type as received.", dict.fromkeys(MEDIA_TYPES))
_REFUSAL: Final = "Too many proof bundles are submitted at once."
_READ_REFUSAL: Final = "Too many proof bundles are read at once."


class SignatureQuery(Query, frozen=True):
    """Selects one of several bundles with the same id."""

    verified: Verified = None


@dataclass(frozen=True, slots=True)
class ProofBundles(Handlers):
    """Handlers of stored bundles, and their dependencies."""

    TAG: ClassVar = ProofSubmission.TAG
    intake: Intake
    slots: RequestSlots
    now: Callable[[], datetime] = lambda: to_milliseconds(datetime.now(UTC))

    @route("GET", PATH, _READ, page="ProofBundlePage")
    async def list_proof_bundles(
        self, query: BundleQuery, page: PageReader, caller: AuthorizationContext
    ) -> PageOf[ProofBundleSummary]:
        """List the bundles of a project, newest first.

        A page may have fewer bundles than `limit`, or none, while `hasMore` is true. This happens with a combination of
        filters that few bundles match. Continue with `nextCursor`.
        """
        (project_id, slug), cursors = project_of(caller), self.context.cursors
        binding = repr(("proof bundles", project_id, query)).encode()
        asked = parse_page_request(page.request, cursors, binding)
        async with self._slot(caller), self.context.database.read() as connection:
            wanted = await to_filter(connection, project_id, slug, query)
            found = BundlePage([], None)
            if wanted is not None:
                found = await store.list_bundles(connection, project_id, wanted, asked.after, asked.limit)
            keys = {key.id: key for key in await issuers.list_keys(connection, caller.org_id)}
        now, last = self.now(), found.next_before
        return PageOf(
            [summary_body(ProofBundleSummary, one, keys.get(one.issuer_key_id), now) for one in found.bundles],
            None if last is None else cursors.sign((last,), binding),
            last is not None,
        )

    @route("GET", ONE, _READ, parameters=(_ID,), responses=(_DETAIL,))
    async def show_proof_bundle(
        self, request: web.Request, query: SignatureQuery, caller: AuthorizationContext
    ) -> web.StreamResponse:
        """Show a bundle, parsed, with its findings and the resources that it names."""
        async with self._slot(caller):
            async with self.context.database.read() as connection:
                stored = await _load(connection, request, query, caller)
                body = await store.read_body(connection, stored.id)
                record = await load_record(connection, stored, self.now())
            raw = await self.intake.render(
                ReceivedBody(body, stored.media_type),
                lambda parsed: detail_body(record, parsed.bundle, parsed.statement),
            )
        return web.Response(body=raw, headers={**JSON_HEADERS, "Content-Type": JSON_TYPE})

    @route("GET", ONE + "/raw", _READ, parameters=(_ID,), responses=(_RAW,))
    async def show_raw_proof_bundle(
        self, request: web.Request, query: SignatureQuery, caller: AuthorizationContext
    ) -> web.StreamResponse:
        """Download a bundle as it was received, byte for byte.

        The signature of the bundle is verified over these bytes.
        """
        async with self._slot(caller), self.context.database.read() as connection:
            stored = await _load(connection, request, query, caller)
            body = await store.read_body(connection, stored.id)
        name = _FILE_NAME.sub("_", stored.bundle_id)
        suffix = "dsse.json" if stored.media_type == dsse.ENVELOPE_TYPE else "json"
        headers = {
            **JSON_HEADERS,
            "Content-Type": stored.media_type,
            "Content-Disposition": f'attachment; filename="{name}.{suffix}"',
        }
        return web.Response(body=body, headers=headers)

    def _slot(self, caller: AuthorizationContext) -> AbstractAsyncContextManager[None]:
        """Hold one of the caller's slots. Raises RateLimited."""
        return self.slots.taken((caller.org_id, caller.principal_id))


def build_proof_routes(context: HandlerContext, max_bytes: int, body_min_rate: int) -> list[Route]:
    """Routes of bundles and issuers. `max_bytes`: maximum size of an organization's bundles (0: no limit).
    `body_min_rate`: bytes per second that a body must have if it takes longer than other bodies may take.
    """
    intake = Intake(context.body_timeout_s, body_min_rate)
    submission = ProofSubmission(context, intake, RequestSlots(_REFUSAL), max_bytes)
    bundles = ProofBundles(context, intake, RequestSlots(_READ_REFUSAL))
    return [*bundles.routes(), *submission.routes(), *ProofIssuers(context).routes()]


async def to_filter(
    connection: AsyncConnection, project_id: int, project_slug: str, query: BundleQuery
) -> BundleFilter | None:
    """The filter of a list. None if the query names an issue, approval request or trace that no bundle can refer to."""
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
    return BundleFilter(query, issue_ids, link)


async def _load(
    connection: AsyncConnection, request: web.Request, query: SignatureQuery, caller: AuthorizationContext
) -> sa.Row[Any]:
    """The bundle in the path. Raises NotFound."""
    (project_id, _), bundle_id = project_of(caller), request.match_info["bundleId"]
    if re.match(IDENTIFIER_PATTERN, bundle_id) is None:
        raise NotFound  # a path may hold characters that no column accepts
    found = await store.find(connection, project_id, bundle_id, is_verified=query.verified)
    if found is None:
        raise NotFound
    return found
