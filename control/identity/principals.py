"""`/orgs/{orgSlug}/principals`: agents and services; list, create, show, change, retire."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.errors import BadRequest, Forbidden, Issue, NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.declaration import Argument, PageOf, declared_routes, route
from chassis.http.operation import Tag
from chassis.http.web import Route
from control.http.context import HandlerContext, path_id
from control.http.field_types import Name
from control.identity import member_repository as store
from control.identity.member_repository import StoredMember
from control.identity.members import Member, get_member, member_body
from control.identity.schemas import PrincipalId
from control.routing.arguments import Transaction, control_arguments
from control.routing.resource import PageReader
from proto.identity import PrincipalKind, Role, Scope

TAG: Final = Tag("principals", "Agents and services, and the access tokens of principals.")
PATH: Final = "/orgs/{orgSlug}/principals"
ONE: Final = PATH + "/{principalId}"
_WRITE: Final = bearer(Scope.TOKENS_WRITE)


class NewPrincipal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The agent or service to create."""

    kind: Annotated[Literal["agent", "service"], Meta(description="Users join by invitation.")]
    name: Name
    role: Annotated[
        Literal["VIEWER", "BILLING", "MEMBER", "ADMIN"], Meta(description="Its scopes never exceed those of its owner.")
    ] = "MEMBER"


class PrincipalChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Changes to an agent or service; omitted fields stay as they are."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    owner_principal_id: PrincipalId | msgspec.UnsetType = msgspec.UNSET


@dataclass(frozen=True, slots=True)
class Principals:
    """Handlers of agents and services, and their dependencies."""

    context: HandlerContext

    def routes(self) -> list[Route]:
        """Every route of this resource."""
        own = {StoredMember: Argument(self._manageable)}
        return declared_routes(self, TAG, control_arguments(self.context, own))

    @route("GET", PATH, _WRITE)
    async def list_principals(self, caller: AuthorizationContext, page: PageReader) -> PageOf[Member]:
        """List agents and services.

        Lists those that the caller owns; with the scope `members:read`, all of the organization.
        """
        owner_id = None if Scope.MEMBERS_READ in caller.scopes else caller.principal_id

        async def fetch(connection: AsyncConnection, after: str | None, limit: int) -> Sequence[StoredMember]:
            return await store.list_machines(connection, caller.org_id, owner_id, after or "", limit)

        return await page.read(("principals", caller.org_id, owner_id), fetch, member_body)

    @route("POST", PATH, _WRITE, status=201, errors=(409,), example={"kind": "agent", "name": "Release bot"})
    async def create_principal(self, body: NewPrincipal, transaction: Transaction) -> Member:
        """Create an agent or a service, owned by the caller.

        Its permissions never exceed those of its owner, and it stops working when its owner does.
        """
        machine = await store.create_machine(
            transaction.connection, transaction.caller, PrincipalKind(body.kind), body.name, Role(body.role)
        )
        data = {"kind": body.kind, "name": body.name, "role": body.role}
        await transaction.record("principal.create", machine.id, data)
        return member_body(machine)

    @route("GET", ONE, _WRITE)
    async def show_principal(
        self, principal_id: str, caller: AuthorizationContext, connection: AsyncConnection
    ) -> Member:
        """Show an agent or service."""
        return member_body(await get_visible_machine(connection, caller, principal_id))

    @route("PATCH", ONE, _WRITE, errors=(409,), example={"name": "EU release bot"})
    async def change_principal(self, machine: StoredMember, body: PrincipalChange, transaction: Transaction) -> Member:
        """Change an agent or service.

        The owner may change it, and callers with `members:write`; only the latter may set another owner. A change of
        owner revokes its tokens and those of all principals that it owns; the new owner creates others.
        """
        connection, caller = transaction.connection, transaction.caller
        machine = await get_visible_machine(connection, caller, machine.id)
        data = await _apply_change(connection, caller, machine, body)
        await transaction.record("principal.update", machine.id, data)
        transaction.after_commit(self.context.guards.invalidate_bearers, caller.org_id)
        return member_body(await get_member(connection, caller.org_id, machine.id))

    @route("DELETE", ONE, _WRITE)
    async def retire_principal(self, principal_id: str, transaction: Transaction) -> None:
        """Retire an agent or service.

        Its tokens are revoked, and what it owns stops working. This cannot be undone.
        """
        connection, caller = transaction.connection, transaction.caller
        machine = await get_visible_machine(connection, caller, principal_id)
        _require_manager(caller, machine)
        await store.retire_machine(connection, caller.org_id, machine.id, datetime.now(UTC))
        await transaction.record("principal.retire", machine.id, {"name": machine.name})
        transaction.after_commit(self.context.guards.invalidate_bearers, caller.org_id)

    async def _manageable(self, request: web.Request, _stack: AsyncExitStack) -> StoredMember:
        """The agent or service in the path, before the body is read. Raises NotFound, Forbidden."""
        caller = authorization_context(request)
        async with self.context.database.read() as connection:
            machine = await get_visible_machine(connection, caller, path_id(request, "principalId"))
        _require_manager(caller, machine)
        return machine


async def get_visible_member(
    connection: AsyncConnection, caller: AuthorizationContext, principal_id: str
) -> StoredMember:
    """A member that the caller may see: itself, what it owns, and with `members:read` everyone. Raises NotFound."""
    found = await get_member(connection, caller.org_id, principal_id)
    if caller.principal_id in (found.id, found.owner_id) or Scope.MEMBERS_READ in caller.scopes:
        return found
    raise NotFound


async def get_visible_machine(
    connection: AsyncConnection, caller: AuthorizationContext, principal_id: str
) -> StoredMember:
    """Like `get_visible_member`, for agents and services only."""
    found = await get_visible_member(connection, caller, principal_id)
    if found.kind is PrincipalKind.USER:
        raise NotFound
    return found


def _require_manager(caller: AuthorizationContext, machine: StoredMember) -> None:
    if machine.owner_id != caller.principal_id and Scope.MEMBERS_WRITE not in caller.scopes:
        raise Forbidden(
            f"Only the owner or a caller with the scope {Scope.MEMBERS_WRITE} can change or retire this principal."
        )


async def _apply_change(
    connection: AsyncConnection, caller: AuthorizationContext, machine: StoredMember, body: PrincipalChange
) -> dict[str, Any]:
    """Apply the change; returns the audit data. Raises Forbidden, BadRequest, Conflict."""
    _require_manager(caller, machine)
    data: dict[str, Any] = {}
    if body.name is not msgspec.UNSET:
        await store.rename_machine(connection, machine.id, body.name)
        data["name"] = body.name
    if body.owner_principal_id is not msgspec.UNSET:
        owner = await _find_new_owner(connection, caller, body.owner_principal_id)
        await store.transfer_ownership(connection, caller.org_id, machine, owner, datetime.now(UTC))
        data |= {"ownerPrincipalId": owner.id, "ownerBefore": machine.owner_id}
    return data


async def _find_new_owner(connection: AsyncConnection, caller: AuthorizationContext, owner_id: str) -> StoredMember:
    """Raises Forbidden, and BadRequest for an owner who is not a user of the organization."""
    if Scope.MEMBERS_WRITE not in caller.scopes:
        raise Forbidden(f"Changing the owner requires the scope {Scope.MEMBERS_WRITE}.")
    owner = await store.find_member(connection, caller.org_id, owner_id)
    if owner is None or owner.kind is not PrincipalKind.USER:
        issue = Issue("body.ownerPrincipalId", "Must be a user who is a member of the organization.", "unknown")
        raise BadRequest("The request body is not valid.", [issue])
    return owner
