"""`/orgs/{orgSlug}/projects/{projectSlug}/proof-bundles`: list, show, give back as received."""

import re
from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import to_milliseconds
from chassis.errors import NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.route import Operation, Parameter, ResponseSpec, json_content
from chassis.http.validation import Issues
from chassis.http.web import JSON_HEADERS, JSON_TYPE, Route, json_response
from control.approvals.proofs import issuer_repository, listing, repository
from control.approvals.proofs.intake import MEDIA_TYPES, Intake, ReceivedBody
from control.approvals.proofs.model import IssuerKey, StoredBundle
from control.approvals.proofs.records import load_record, project_of
from control.approvals.proofs.repository import BundlePage
from control.approvals.proofs.schemas import ProofBundleDetail, ProofBundlePage, detail_body, summary_body
from control.approvals.proofs.submission import TAG
from control.http.context import HandlerContext
from control.http.paging import parse_page_request
from control.http.query_filters import boolean_filter
from control.http.request_slots import RequestSlots
from proto.identity import Scope
from proto.proofs import dsse
from proto.proofs.primitives import IDENTIFIER_PATTERN

_NO_BUNDLES: Final = BundlePage([], None)
_FILE_NAME: Final = re.compile(r"[^A-Za-z0-9._-]")
ID: Final = Parameter(
    "bundleId", "path", Annotated[str, Meta(min_length=1, max_length=128)], "The bundle, by its own `bundleId`."
)
LIST: Final = Operation(
    "listProofBundles", TAG, (ResponseSpec("A page.", json_content(ProofBundlePage)),), listing.PARAMETERS
)
SHOW: Final = Operation(
    "showProofBundle",
    TAG,
    (ResponseSpec("The bundle.", json_content(ProofBundleDetail)),),
    (ID, listing.VERIFIED),
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
    (ID, listing.VERIFIED),
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
        query = listing.parse_query(request, issues)
        project_id, slug = project_of(caller)
        binding = repr(("proof bundles", project_id, query)).encode()
        page, cursors = parse_page_request(request, self.context.cursors, binding, issues), self.context.cursors
        async with self._slot(request), self.context.database.read() as connection:
            wanted = await listing.to_filter(connection, project_id, slug, query)
            found = (
                _NO_BUNDLES
                if wanted is None
                else await repository.list_bundles(connection, project_id, wanted, page.after, page.limit)
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
                keys = await issuer_repository.list_keys(connection, stored.origin.org_id)
                body = await repository.read_body(connection, stored)
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
            body = await repository.read_body(connection, stored)
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
        found = await repository.find(connection, project_id, bundle_id, is_verified=is_verified)
        if found is None:
            raise NotFound
        return found


async def _keys_by_id(connection: AsyncConnection, org_id: str) -> dict[str, IssuerKey]:
    return {key.id: key for key in await issuer_repository.list_keys(connection, org_id)}
