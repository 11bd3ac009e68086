"""`/orgs/{orgSlug}`: show, rename, delete."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth import usage
from chassis.db.database import format_time
from chassis.errors import NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Body, Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.validation import Issues, single_value
from chassis.http.web import Route, json_response, request_id
from control.audit.record import record
from control.erasures import deletion
from control.erasures.schemas import Erasure, erasure_body
from control.http.context import HandlerContext
from control.http.field_types import Name, Slug, Timestamp
from control.identity import organization_repository
from proto.identity import Scope


class OrganizationChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Changes to an organization."""

    name: Name


class Organization(msgspec.Struct, frozen=True, rename="camel"):
    """A tenant, with its monthly quota and usage."""

    id: str
    slug: Slug
    name: Name
    monthly_items: Annotated[
        int, Meta(description="Monthly quota of spans and log records (calendar month, UTC). 0: unlimited.")
    ]
    used_items: Annotated[int, Meta(description="Usage of this month, as gateways have reported so far.")]
    created_at: Timestamp


TAG: Final = Tag("organizations", "The organization, its quota and usage.")
SHOW: Final = Operation("showOrganization", TAG, (ResponseSpec("The organization.", json_content(Organization)),))
CHANGE: Final = Operation(
    "changeOrganization",
    TAG,
    (ResponseSpec("The updated organization.", json_content(Organization)),),
    body=Body(json_content(OrganizationChange), example={"name": "Acme"}),
)
DELETE: Final = Operation(
    "deleteOrganization",
    TAG,
    (ResponseSpec("The organization is deleted; its telemetry will be.", json_content(Erasure), 202),),
    (
        Parameter(
            "confirm",
            "query",
            Annotated[str, Meta(min_length=1)],
            "The slug of the organization again: this cannot be undone.",
            required=True,
            example="acme",
        ),
    ),
)


@dataclass(frozen=True, slots=True)
class Organizations:
    """Handlers of organizations, and their dependencies."""

    context: HandlerContext

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        one = "/orgs/{orgSlug}"
        return [
            Route("GET", one, self.show, bearer(Scope.PROJECTS_READ), operation=SHOW),
            Route("PATCH", one, self.change, bearer(Scope.PROJECTS_WRITE), operation=CHANGE),
            Route("DELETE", one, self.delete, bearer(Scope.PROJECTS_WRITE), operation=DELETE),
        ]

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Show the organization, with its quota and usage."""
        async with self.context.database.read() as connection:
            return json_response(await _load_organization(connection, authorization_context(request).org_slug))

    async def change(self, request: web.Request) -> web.StreamResponse:
        """Rename the organization.

        Its slug stays, because URLs contain it. The operator sets its quota: `sluice limits`.
        """
        body = await self.context.read_body(request, OrganizationChange)
        async with self.context.write_transaction(request) as (connection, caller):
            await organization_repository.rename_organization(connection, caller.org_id, body.name)
            await record(
                connection, caller, "organization.update", caller.org_id, {"name": body.name}, request_id(request)
            )
            changed = await _load_organization(connection, caller.org_slug)
        return json_response(changed)

    async def delete(self, request: web.Request) -> web.StreamResponse:
        """Delete the organization with all its projects, members and telemetry.

        At once it is out of sight, and every key, token, session, invitation and channel of it stops working. Its rows
        and the accounts of users who are in no other organization are erased within minutes, its telemetry by a gateway
        afterwards; the operator sees how far that is (`sluice erasures`). Its slug is not given again. Only owners may
        delete it. This cannot be undone.
        """
        caller = authorization_context(request)
        deletion.require_owner(caller)
        issues = Issues()
        confirmed = single_value(request.query, "confirm", issues)
        if confirmed != caller.org_slug and not issues.has_issue_under("query.confirm"):
            issues.add("query.confirm", "Must repeat the slug of the organization.", "unconfirmed")
        issues.raise_if_any("The query is not valid.")
        async with self.context.write_transaction(request) as (connection, caller):
            deletion.require_owner(caller)
            now = datetime.now(UTC)
            erasure = await deletion.delete_organization(connection, caller, caller.org_slug, request_id(request), now)
        self.context.guards.drop_organization(caller.org_id)
        return json_response(erasure_body(erasure), status=202)


async def _load_organization(connection: AsyncConnection, slug: str) -> Organization:
    found = await organization_repository.find_organization(connection, slug)
    if found is None:
        raise NotFound
    used = await usage.read_usage(connection, f"{datetime.now(UTC):%Y-%m}", [found.id])
    return Organization(
        id=found.id,
        slug=found.slug,
        name=found.name,
        monthly_items=found.monthly_items,
        used_items=used.get(found.id, 0),
        created_at=format_time(found.created_at),
    )
