"""`/orgs/{orgSlug}`: show, rename, delete."""

from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, ClassVar, Final

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth import usage
from chassis.auth.model import AuthorizationContext
from chassis.errors import NotFound
from chassis.http.access import bearer
from chassis.http.declaration import Argument, Arguments, ChecksQuery, route
from chassis.http.route import Parameter, ResponseSpec, Tag, json_content
from chassis.http.validation import Issues, single_value
from control.governance.erasures import deletion
from control.governance.erasures.api import Erasure, erasure_body
from control.http.field_types import Name, Slug, Timestamp
from control.identity.organizations import organization_store
from control.routing.arguments import Handlers, Transaction, begin, control_arguments
from control.routing.resource import shown_as
from proto.identity import Scope

PATH: Final = "/orgs/{orgSlug}"
CONFIRM: Final = Parameter(
    "confirm",
    "query",
    Annotated[str, Meta(min_length=1)],
    "The slug of the organization again: this cannot be undone.",
    required=True,
    example="acme",
)
DELETED: Final = ResponseSpec("The organization is deleted; its telemetry will be.", json_content(Erasure), 202)
_WRITE: Final = bearer(Scope.PROJECTS_WRITE)


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


@dataclass(frozen=True, slots=True)
class ConfirmedSlug(ChecksQuery):
    """The slug that the query repeats."""

    request: web.Request

    def require(self, slug: str) -> None:
        """Raises BadRequest for another one."""
        issues = Issues()
        confirmed = single_value(self.request.query, CONFIRM.name, issues)
        if confirmed != slug and not issues.has_issue_under("query.confirm"):
            issues.add("query.confirm", "Must repeat the slug of the organization.", "unconfirmed")
        issues.raise_if_any("The query is not valid.")


async def _confirmation(request: web.Request, _stack: AsyncExitStack) -> ConfirmedSlug:
    return ConfirmedSlug(request)


class Organizations(Handlers):
    """Handlers of organizations, and their dependencies."""

    TAG: ClassVar = Tag("organizations", "The organization, its quota and usage.")

    def arguments(self) -> Arguments:
        own = {ConfirmedSlug: Argument(_confirmation, (CONFIRM,))}
        return control_arguments(self.context, own)

    @route("GET", PATH, bearer(Scope.PROJECTS_READ))
    async def show_organization(self, caller: AuthorizationContext, connection: AsyncConnection) -> Organization:
        """Show the organization, with its quota and usage."""
        return await _load_organization(connection, caller.org_slug)

    @route("PATCH", PATH, _WRITE, example={"name": "Acme"})
    async def change_organization(self, body: OrganizationChange, transaction: Transaction) -> Organization:
        """Rename the organization.

        Its slug stays, because URLs contain it. The operator sets its quota: `sluice limits`.
        """
        connection, caller = transaction.connection, transaction.caller
        await organization_store.rename_organization(connection, caller.org_id, body.name)
        await transaction.record("organization.update", caller.org_id, {"name": body.name})
        return await _load_organization(connection, caller.org_slug)

    @route("DELETE", PATH, _WRITE, status=202, responses=(DELETED,))
    async def delete_organization(
        self, request: web.Request, caller: AuthorizationContext, confirmation: ConfirmedSlug
    ) -> Erasure:
        """Delete the organization with all its projects, members and telemetry.

        At once it is out of sight, and every key, token, session, invitation and channel of it stops working. Its rows
        and the accounts of users who are in no other organization are erased within minutes, its telemetry by a gateway
        afterwards; the operator sees how far that is (`sluice erasures`). Its slug is not given again. Only owners may
        delete it. This cannot be undone.
        """
        deletion.require_owner(caller)
        confirmation.require(caller.org_slug)
        async with begin(self.context, request) as transaction:
            connection, caller = transaction.connection, transaction.caller
            deletion.require_owner(caller)
            now = datetime.now(UTC)
            erasure = await deletion.delete_organization(
                connection, caller, caller.org_slug, transaction.request_id, now
            )
        self.context.guards.drop_organization(caller.org_id)
        return erasure_body(erasure)


async def _load_organization(connection: AsyncConnection, slug: str) -> Organization:
    found = await organization_store.find_organization(connection, slug)
    if found is None:
        raise NotFound
    used = await usage.read_usage(connection, f"{datetime.now(UTC):%Y-%m}", [found.id])
    return shown_as(Organization, found, used_items=used.get(found.id, 0))
