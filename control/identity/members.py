"""`/orgs/{orgSlug}/members`: list, show, change, remove."""

from collections.abc import Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.errors import NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.declaration import Argument, PageOf, declared_routes, route
from chassis.http.web import Route
from control.http.context import HandlerContext, path_id
from control.http.field_types import Name, Timestamp
from control.identity import member_repository as store
from control.identity.invitations import TAG
from control.identity.member_repository import StoredMember
from control.identity.schemas import PRINCIPAL_ID, Email
from control.routing.arguments import Transaction, control_arguments
from control.routing.resource import PageReader, shown_as
from proto.identity import PrincipalKind, Role, Scope

PATH: Final = "/orgs/{orgSlug}/members"
ONE: Final = PATH + "/{principalId}"
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
            description="Whether the account has verified its address. If not, it can join no other organization. "
            "Always false for agents and services."
        ),
    ]
    role: Role
    owner_principal_id: str | None
    mfa_enabled: bool
    created_at: Timestamp


@dataclass(frozen=True, slots=True)
class Members:
    """Handlers of members, and their dependencies."""

    context: HandlerContext

    def routes(self) -> list[Route]:
        """Every route of this resource."""
        own = {StoredMember: Argument(self._changeable)}
        return declared_routes(self, TAG, control_arguments(self.context, own))

    @route("GET", PATH, _READ)
    async def list_members(self, caller: AuthorizationContext, page: PageReader) -> PageOf[Member]:
        """List members: users, agents and services."""

        async def fetch(connection: AsyncConnection, after: str | None, limit: int) -> Sequence[StoredMember]:
            return await store.list_members(connection, caller.org_id, after or "", limit)

        return await page.read(("members", caller.org_id), fetch, member_body)

    @route("GET", ONE, _READ)
    async def show_member(self, principal_id: str, caller: AuthorizationContext, connection: AsyncConnection) -> Member:
        """Show a member."""
        return member_body(await get_member(connection, caller.org_id, principal_id))

    @route("PATCH", ONE, _WRITE, errors=(409,), example={"role": "ADMIN"})
    async def change_member(self, member: StoredMember, body: RoleChange, transaction: Transaction) -> Member:
        """Change a member's role.

        Only owners create, change and remove owners; nobody grants a role with more scopes than the access token has.
        409 for the last owner.
        """
        connection, caller = transaction.connection, transaction.caller
        member = await get_member(connection, caller.org_id, member.id)
        await store.change_role(connection, caller, member, body.role)
        await transaction.record("member.update", member.id, {"role": body.role.value, "before": member.role.value})
        transaction.after_commit(self.context.guards.invalidate_bearers, caller.org_id)
        return member_body(await get_member(connection, caller.org_id, member.id))

    @route("DELETE", ONE, _WRITE, errors=(409,))
    async def remove_member(self, principal_id: str, transaction: Transaction) -> None:
        """Remove a member.

        The member's tokens and sessions in the organization end, and its agents and services stop working; to keep
        them, transfer them to another owner first. An account whose address is not verified (`emailVerified`) is
        closed, unless an earlier release let it join other organizations: if the address is invited again, whoever
        accepts gets another account. 409 for the last owner or administrator.
        """
        connection, caller = transaction.connection, transaction.caller
        member = await get_member(connection, caller.org_id, principal_id)
        await store.remove(connection, caller, member, datetime.now(UTC))
        await transaction.record("member.remove", member.id, {"role": member.role.value, "kind": member.kind.value})
        transaction.after_commit(self.context.guards.invalidate_bearers, caller.org_id)

    async def _changeable(self, request: web.Request, _stack: AsyncExitStack) -> StoredMember:
        """The member in the path, before the body is read. Raises NotFound, Forbidden."""
        caller = authorization_context(request)
        async with self.context.database.read() as connection:
            member = await get_member(connection, caller.org_id, path_id(request, "principalId"))
        store.require_changeable(caller, member)
        return member


async def get_member(connection: AsyncConnection, org_id: str, principal_id: str) -> StoredMember:
    """The member with this id. Raises NotFound."""
    found = await store.find_member(connection, org_id, principal_id)
    if found is None:
        raise NotFound
    return found


def member_body(member: StoredMember) -> Member:
    """What is shown of a member."""
    return shown_as(
        Member, member, principal_id=member.id, owner_principal_id=member.owner_id, mfa_enabled=member.has_factor
    )
