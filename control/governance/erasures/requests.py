"""`/orgs/{orgSlug}/erasures` and `.../projects/{projectSlug}/erasures`: list, show, create by filter."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.db.database import to_milliseconds
from chassis.erasures import repository
from chassis.erasures.repository import NewErasure, StoredErasure
from chassis.erasures.tables import ErasureKind
from chassis.errors import NotFound, Unimplemented
from chassis.http.access import authorization_context, bearer
from chassis.http.declaration import PageOf, declared_routes, route
from chassis.http.route import Body, ResponseSpec, Tag, json_content
from chassis.http.validation import Issues
from chassis.http.web import Route, json_response, request_id
from control.export.run_repository import list_exported
from control.governance.erasures.deletion import require_user
from control.governance.erasures.schemas import (
    Erasure,
    ErasureDetails,
    NewFilterErasure,
    erasure_body,
    erasure_details,
    parse_item_time,
)
from control.governance.erasures.submission import CheckFilters, check_time_range, create_filter_erasure, nanoseconds
from control.http.context import HandlerContext
from control.routing.arguments import control_arguments
from control.routing.resource import PageReader
from proto.identity import Scope

TAG: Final = Tag("erasures", "Deletions of projects and organizations, and of telemetry by filter.")
READ_SCOPES: Final = (Scope.AUDIT_READ, Scope.PROJECTS_WRITE)
PATH: Final = "/orgs/{orgSlug}/erasures"
NEW: Final = Body(
    json_content(NewFilterErasure),
    example={"filters": [{"key": "user.id", "op": "eq", "value": "4711"}], "dryRun": True},
)
ACCEPTED: Final = ResponseSpec(
    "The erasure, which a gateway executes.", json_content(Erasure), 202, {"Location": "Path of the erasure."}
)


@dataclass(frozen=True, slots=True)
class Erasures:
    """Handlers of erasures, and their dependencies. `check_filters` None: explore is not installed here, and erasures
    with filters get 501.
    """

    context: HandlerContext
    check_filters: CheckFilters | None = None

    def routes(self) -> list[Route]:
        """Every route of this resource."""
        return declared_routes(self, TAG, control_arguments(self.context))

    @route("GET", PATH, bearer(*READ_SCOPES))
    async def list_erasures(self, caller: AuthorizationContext, page: PageReader) -> PageOf[Erasure]:
        """List erasures, newest first."""

        async def fetch(connection: AsyncConnection, before_id: str | None, limit: int) -> list[StoredErasure]:
            return await repository.list_erasures(connection, caller.org_id, before_id, limit)

        return await page.read(("erasures", caller.org_id), fetch, erasure_body)

    @route("GET", PATH + "/{erasureId}", bearer(*READ_SCOPES))
    async def show_erasure(
        self, erasure_id: str, caller: AuthorizationContext, connection: AsyncConnection
    ) -> ErasureDetails:
        """Show an erasure."""
        found = await repository.find(connection, erasure_id, caller.org_id)
        if found is None:
            raise NotFound
        exports = await list_exported(connection, caller.org_id, found.completed_at)
        return erasure_details(found, exports)

    @route(
        "POST",
        "/orgs/{orgSlug}/projects/{projectSlug}/erasures",
        bearer(Scope.PROJECTS_WRITE),
        body=NEW,
        responses=(ACCEPTED,),
        errors=(409, 501),
    )
    async def create_erasure(self, request: web.Request) -> web.StreamResponse:
        """Erase the spans and log records of a project that match filters and a time range.

        Without `to` it covers items with a time before this request. With `dryRun` a gateway only counts the rows. Only
        users may erase. 409 while the organization has the maximum number of open erasures.
        """
        require_user(authorization_context(request))  # 403 comes before 400
        now = to_milliseconds(datetime.now(UTC))
        body, checked = await self._read_body(request, now)
        async with self.context.write_transaction(request) as (connection, caller):
            require_user(caller)
            wanted = NewErasure(
                kind=ErasureKind.FILTER,
                org_id=caller.org_id,
                project_id=caller.project_id,
                project_slug=caller.project_slug,
                dry_run=body.dry_run,
                requested_by=caller.principal_id,
                purged=True,
                **checked,
            )
            erasure = await create_filter_erasure(connection, caller, wanted, request_id(request), now)
        return accepted(erasure, caller.org_slug)

    async def _read_body(self, request: web.Request, now: datetime) -> tuple[NewFilterErasure, dict[str, Any]]:
        """The body, and what is stored of it. Raises BadRequest, Unimplemented."""
        issues = Issues()
        body = await self.context.read_partial_body(request, NewFilterErasure, {}, issues)
        checked = {} if body is None else self._check(body, now, issues)
        issues.raise_if_any("The request body is not valid.")
        if body is None:
            raise TypeError("a missing body must have issues")
        return body, checked

    def _check(self, body: NewFilterErasure, now: datetime, issues: Issues) -> dict[str, Any]:
        from_ns = parse_item_time(body.from_, "body.from", issues)
        to_ns = nanoseconds(now) if body.to is None else parse_item_time(body.to, "body.to", issues)
        if to_ns is not None:
            check_time_range(from_ns, to_ns, "body.from", issues)
        filters: list[dict[str, Any]] = []
        if body.filters and not issues.has_issue_under("body.filters"):
            if self.check_filters is None:
                raise Unimplemented("This process cannot check filters, because the query service is not installed.")
            filters = self.check_filters(body.filters, now, "body.filters", issues)
        if not body.filters and body.from_ is None and body.to is None and not issues.has_issue_under("body"):
            message = "One of filters, from and to is required. To erase everything, delete the project."
            issues.add("body", message, "missing")
        return {"filters": filters or None, "from_ns": from_ns, "to_ns": to_ns}


def accepted(erasure: StoredErasure, org_slug: str) -> web.Response:
    """The 202 with the erasure."""
    headers = {"Location": f"/orgs/{org_slug}/erasures/{erasure.id}"}
    return json_response(erasure_body(erasure), status=202, headers=headers)
