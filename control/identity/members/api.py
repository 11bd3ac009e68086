"""`/orgs/{orgSlug}/members`, and `/orgs/{orgSlug}/principals`: agents and services."""

from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.errors import BadRequest, Forbidden, Issue, NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.declaration import Argument, Arguments, PageOf, route
from chassis.http.route import Tag
from control.http.context import HandlerContext, path_id
from control.http.field_types import Name, Timestamp
from control.identity.bodies import PRINCIPAL_ID, Email, PrincipalId
from control.identity.members import member_store as store
from control.identity.members.invitations import Invitations
from control.identity.members.member_store import StoredMember, get_member
from control.identity.users import user_store
from control.routing.arguments import Handlers, Transaction, control_arguments
from control.routing.resource import PageReader, shown_as
from proto.identity import PrincipalKind, Role, Scope

MEMBERS: Final = "/orgs/{orgSlug}/members"
MEMBER: Final = MEMBERS + "/{principalId}"
PRINCIPALS: Final = "/orgs/{orgSlug}/principals"
PRINCIPAL: Final = PRINCIPALS + "/{principalId}"
_MANAGE: Final = bearer(Scope.TOKENS_WRITE)
_READ: Final = bearer(Scope.MEMBERS_READ)
_WRITE: Final = bearer(Scope.MEMBERS_WRITE)


class RoleChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The member's new role."""

    role: Role


class Member(msgspec.Struct, frozen=True, rename="camel"):
    """A principal in the organization. Users that log in have an `email`, agents and services an `ownerPrincipalId`."""

    principal_id: Annotated[str, Meta(pattern=f"^{PRINCIPAL_ID.pattern}$")]
    kind: PrincipalKind
    name: Name
    email: Email | None
    email_verified: Annotated[
        bool,
        Meta(
            description="Whether the account has verified its address. If not, it cannot join other organizations. "
            "Always false for agents and services."
        ),
    ]
    role: Role
    owner_principal_id: str | None
    mfa_enabled: bool
    created_at: Timestamp


class Members(Handlers):
    """Handlers of members, and their dependencies."""

    TAG: ClassVar = Invitations.TAG

    def arguments(self) -> Arguments:
        own = {StoredMember: member_argument(self.context, _find_changeable)}
        return control_arguments(self.context, own)

    @route("GET", MEMBERS, _READ)
    async def list_members(self, caller: AuthorizationContext, page: PageReader) -> PageOf[Member]:
        """List members: users, agents and services."""
        return await page.read(
            ("members", caller.org_id),
            lambda connection, after, limit: store.list_members(connection, caller.org_id, after or "", limit),
            _shown,
        )

    @route("GET", MEMBER, _READ)
    async def show_member(self, principal_id: str, caller: AuthorizationContext, connection: AsyncConnection) -> Member:
        """Show a member."""
        return _shown(await get_member(connection, caller.org_id, principal_id))

    @route("PATCH", MEMBER, _WRITE, errors=(409,), example={"role": "ADMIN"})
    async def change_member(self, member: StoredMember, body: RoleChange, transaction: Transaction) -> Member:
        """Change a member's role.

        Only owners create, change and remove owners. A caller cannot grant a role that has more scopes than the
        caller's access token. 409 for the last owner.
        """
        connection, caller = transaction.connection, transaction.caller
        member = await get_member(connection, caller.org_id, member.id)
        await store.change_role(connection, caller, member, body.role)
        await transaction.record("member.update", member.id, {"role": body.role.value, "before": member.role.value})
        transaction.after_commit(self.context.guards.invalidate_bearers, caller.org_id)
        return _shown(await get_member(connection, caller.org_id, member.id))

    @route("DELETE", MEMBER, _WRITE, errors=(409,))
    async def remove_member(self, principal_id: str, transaction: Transaction) -> None:
        """Remove a member.

        The member's tokens and sessions in the organization end, and its agents and services stop working. To keep
        them, transfer them to another owner first. An account whose address is not verified (`emailVerified`) is
        closed, unless an earlier release let it join other organizations. If its address is invited again, the new
        member gets another account. 409 for the last owner or administrator.
        """
        connection, caller = transaction.connection, transaction.caller
        member = await get_member(connection, caller.org_id, principal_id)
        await store.remove(connection, caller, member, datetime.now(UTC))
        await transaction.record("member.remove", member.id, {"role": member.role.value, "kind": member.kind.value})
        transaction.after_commit(self.context.guards.invalidate_bearers, caller.org_id)


def member_argument(
    context: HandlerContext, find: Callable[[AsyncConnection, AuthorizationContext, str], Awaitable[StoredMember]]
) -> Argument:
    """The member in the path, or the caller if the path names no member, as `find` finds it. The member is found, or
    refused, before the body is read.
    """

    async def provide(request: web.Request, _stack: AsyncExitStack) -> StoredMember:
        caller = authorization_context(request)
        is_own = "principalId" not in request.match_info
        async with context.database.read() as connection:
            return await find(connection, caller, caller.principal_id if is_own else path_id(request, "principalId"))

    return Argument(provide)


async def _find_changeable(
    connection: AsyncConnection, caller: AuthorizationContext, principal_id: str
) -> StoredMember:
    """The member. Raises NotFound. Raises Forbidden for an owner unless the caller is an owner."""
    member = await get_member(connection, caller.org_id, principal_id)
    store.require_changeable(caller, member)
    return member


def _shown(member: StoredMember) -> Member:
    """A member as a response body."""
    return shown_as(
        Member, member, principal_id=member.id, owner_principal_id=member.owner_id, mfa_enabled=member.has_factor
    )


class NewPrincipal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The agent or service to create."""

    kind: Annotated[Literal["agent", "service"], Meta(description="Users join by invitation.")]
    name: Name
    role: Annotated[
        Literal["VIEWER", "BILLING", "MEMBER", "ADMIN"],
        Meta(description="The scopes of an agent or service never exceed the scopes of its owner."),
    ] = "MEMBER"


class PrincipalChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Changes to an agent or service. Omitted fields are not changed."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    owner_principal_id: PrincipalId | msgspec.UnsetType = msgspec.UNSET


class Principals(Handlers):
    """Handlers of agents and services, and their dependencies."""

    TAG: ClassVar = Tag("principals", "Agents and services, and the access tokens of principals.")

    def arguments(self) -> Arguments:
        own = {StoredMember: member_argument(self.context, _find_manageable)}
        return control_arguments(self.context, own)

    @route("GET", PRINCIPALS, _MANAGE)
    async def list_principals(self, caller: AuthorizationContext, page: PageReader) -> PageOf[Member]:
        """List agents and services.

        Lists agents and services that the caller owns. With the scope `members:read`, lists all of the organization.
        """
        owner_id = None if Scope.MEMBERS_READ in caller.scopes else caller.principal_id
        return await page.read(
            ("principals", caller.org_id, owner_id),
            lambda connection, after, limit: store.list_machines(
                connection, caller.org_id, owner_id, after or "", limit
            ),
            _shown,
        )

    @route("POST", PRINCIPALS, _MANAGE, status=201, errors=(409,), example={"kind": "agent", "name": "Release bot"})
    async def create_principal(self, body: NewPrincipal, transaction: Transaction) -> Member:
        """Create an agent or a service, owned by the caller.

        Its permissions never exceed the owner's, and it stops working when its owner does.
        """
        machine = await store.create_machine(
            transaction.connection, transaction.caller, PrincipalKind(body.kind), body.name, Role(body.role)
        )
        data = {"kind": body.kind, "name": body.name, "role": body.role}
        await transaction.record("principal.create", machine.id, data)
        return _shown(machine)

    @route("GET", PRINCIPAL, _MANAGE)
    async def show_principal(
        self, principal_id: str, caller: AuthorizationContext, connection: AsyncConnection
    ) -> Member:
        """Show an agent or service."""
        return _shown(await get_visible_machine(connection, caller, principal_id))

    @route("PATCH", PRINCIPAL, _MANAGE, errors=(409,), example={"name": "EU release bot"})
    async def change_principal(self, machine: StoredMember, body: PrincipalChange, transaction: Transaction) -> Member:
        """Change an agent or service.

        The owner and callers with `members:write` may change it. Only the latter may set another owner. A change of the
        owner revokes the tokens of the agent or service, and of all principals that it owns. The new owner creates
        others.
        """
        connection, caller = transaction.connection, transaction.caller
        machine = await _find_manageable(connection, caller, machine.id)
        await transaction.record("principal.update", machine.id, await _change(connection, caller, machine, body))
        transaction.after_commit(self.context.guards.invalidate_bearers, caller.org_id)
        return _shown(await get_member(connection, caller.org_id, machine.id))

    @route("DELETE", PRINCIPAL, _MANAGE)
    async def retire_principal(self, principal_id: str, transaction: Transaction) -> None:
        """Retire an agent or service.

        Its tokens are revoked, and the principals that it owns stop working. This cannot be undone.
        """
        connection, caller = transaction.connection, transaction.caller
        machine = await _find_manageable(connection, caller, principal_id)
        await store.retire_machine(connection, caller.org_id, machine.id, datetime.now(UTC))
        await transaction.record("principal.retire", machine.id, {"name": machine.name})
        transaction.after_commit(self.context.guards.invalidate_bearers, caller.org_id)


async def get_visible_member(
    connection: AsyncConnection, caller: AuthorizationContext, principal_id: str
) -> StoredMember:
    """A member that the caller may see: the caller, principals that the caller owns, and with `members:read` all
    members. Raises NotFound.
    """
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


async def _find_manageable(
    connection: AsyncConnection, caller: AuthorizationContext, principal_id: str
) -> StoredMember:
    """Like `get_visible_machine`. Raises NotFound. Raises Forbidden unless the caller owns the machine or has
    `members:write`.
    """
    machine = await get_visible_machine(connection, caller, principal_id)
    if machine.owner_id != caller.principal_id and Scope.MEMBERS_WRITE not in caller.scopes:
        raise Forbidden(
            f"Only the owner or a caller with the scope {Scope.MEMBERS_WRITE} can change or retire this principal."
        )
    return machine


async def _change(
    connection: AsyncConnection, caller: AuthorizationContext, machine: StoredMember, body: PrincipalChange
) -> dict[str, Any]:
    """Change an agent or service. Returns the audit data. Raises Forbidden, BadRequest, Conflict."""
    data: dict[str, Any] = {}
    if body.name is not msgspec.UNSET:
        await user_store.rename(connection, machine.id, body.name)
        data["name"] = body.name
    if body.owner_principal_id is not msgspec.UNSET:
        owner = await _find_new_owner(connection, caller, body.owner_principal_id)
        await store.transfer_ownership(connection, caller.org_id, machine, owner, datetime.now(UTC))
        data |= {"ownerPrincipalId": owner.id, "ownerBefore": machine.owner_id}
    return data


async def _find_new_owner(connection: AsyncConnection, caller: AuthorizationContext, owner_id: str) -> StoredMember:
    """The new owner. Raises Forbidden, and BadRequest for an owner who is not a user of the organization."""
    if Scope.MEMBERS_WRITE not in caller.scopes:
        raise Forbidden(f"Changing the owner requires the scope {Scope.MEMBERS_WRITE}.")
    owner = await store.find_member(connection, caller.org_id, owner_id)
    if owner is None or owner.kind is not PrincipalKind.USER:
        issue = Issue("body.ownerPrincipalId", "Must be a user who is a member of the organization.", "unknown")
        raise BadRequest("The request body is not valid.", [issue])
    return owner
