"""`/orgs/{orgSlug}/members`: list, show, change, remove."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import format_time
from chassis.errors import NotFound
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Body, Operation, Parameter, ResponseSpec, json_content
from chassis.http.web import Route, json_response, request_id
from control.audit.record import record
from control.http.context import HandlerContext
from control.http.field_types import Name, Timestamp
from control.http.paging import PAGE_PARAMETERS, NextCursor, page_body, parse_page_request
from control.identity import member_repository as store
from control.identity.invitations import TAG
from control.identity.member_repository import StoredMember
from control.identity.schemas import PRINCIPAL_ID, Email
from proto.identity import PrincipalKind, Role, Scope


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


class MemberPage(msgspec.Struct, rename="camel"):
    """A page of members, in the order of their creation."""

    data: list[Member]
    next_cursor: NextCursor
    has_more: bool


_ID: Final = Parameter("principalId", "path", Annotated[str, Meta(min_length=1)], "The member.")
LIST: Final = Operation("listMembers", TAG, (ResponseSpec("A page.", json_content(MemberPage)),), PAGE_PARAMETERS)
SHOW: Final = Operation("showMember", TAG, (ResponseSpec("The member.", json_content(Member)),), (_ID,))
CHANGE: Final = Operation(
    "changeMember",
    TAG,
    (ResponseSpec("The updated member.", json_content(Member)),),
    (_ID,),
    body=Body(json_content(RoleChange), example={"role": "ADMIN"}),
    error_statuses=(409,),
)
REMOVE: Final = Operation(
    "removeMember", TAG, (ResponseSpec("The member was removed.", status=204),), (_ID,), error_statuses=(409,)
)


@dataclass(frozen=True, slots=True)
class Members:
    """Handlers of members, and their dependencies."""

    context: HandlerContext

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        every, one = "/orgs/{orgSlug}/members", "/orgs/{orgSlug}/members/{principalId}"
        return [
            Route("GET", every, self.list, bearer(Scope.MEMBERS_READ), operation=LIST),
            Route("GET", one, self.show, bearer(Scope.MEMBERS_READ), operation=SHOW),
            Route("PATCH", one, self.change, bearer(Scope.MEMBERS_WRITE), operation=CHANGE),
            Route("DELETE", one, self.remove, bearer(Scope.MEMBERS_WRITE), operation=REMOVE),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List members: users, agents and services."""
        org_id = authorization_context(request).org_id
        binding = f"members of {org_id}".encode()
        page = parse_page_request(request, self.context.cursors, binding)
        async with self.context.database.read() as connection:
            found = await store.list_members(connection, org_id, page.after or "", page.limit + 1)
        return json_response(page_body(found, page, member_body, lambda one: one.id, self.context.cursors, binding))

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Show a member."""
        async with self.context.database.read() as connection:
            found = await get_member(
                connection, authorization_context(request).org_id, request.match_info["principalId"]
            )
        return json_response(member_body(found))

    async def change(self, request: web.Request) -> web.StreamResponse:
        """Change a member's role.

        Only owners create, change and remove owners; nobody grants a role with more scopes than the access token has.
        409 for the last owner.
        """
        caller = authorization_context(request)
        async with self.context.database.read() as connection:
            found = await get_member(connection, caller.org_id, request.match_info["principalId"])
        store.require_changeable(caller, found)  # 404 and 403 come before 400
        body = await self.context.read_body(request, RoleChange)
        async with self.context.write_transaction(request) as (connection, caller):
            found = await get_member(connection, caller.org_id, request.match_info["principalId"])
            await store.change_role(connection, caller, found, body.role)
            changed = await get_member(connection, caller.org_id, found.id)
            data = {"role": body.role.value, "before": found.role.value}
            await record(connection, caller, "member.update", found.id, data, request_id(request))
        self.context.guards.invalidate_bearers(caller.org_id)
        return json_response(member_body(changed))

    async def remove(self, request: web.Request) -> web.StreamResponse:
        """Remove a member.

        The member's tokens and sessions in the organization end, and its agents and services stop working; to keep
        them, transfer them to another owner first. An account whose address is not verified (`emailVerified`) is
        closed, unless an earlier release let it join other organizations: if the address is invited again, whoever
        accepts gets another account. 409 for the last owner or administrator.
        """
        async with self.context.write_transaction(request) as (connection, caller):
            found = await get_member(connection, caller.org_id, request.match_info["principalId"])
            await store.remove(connection, caller, found, datetime.now(UTC))
            data = {"role": found.role.value, "kind": found.kind.value}
            await record(connection, caller, "member.remove", found.id, data, request_id(request))
        self.context.guards.invalidate_bearers(caller.org_id)
        return web.Response(status=204)


async def get_member(connection: AsyncConnection, org_id: str, principal_id: str) -> StoredMember:
    """The member with this id. Raises NotFound."""
    if PRINCIPAL_ID.fullmatch(principal_id) is None:  # a path may hold characters that no database column accepts
        raise NotFound
    found = await store.find_member(connection, org_id, principal_id)
    if found is None:
        raise NotFound
    return found


def member_body(member: StoredMember) -> Member:
    """The API representation."""
    return Member(
        principal_id=member.id,
        kind=member.kind,
        name=member.name,
        email=member.email,
        email_verified=member.email_verified,
        role=member.role,
        owner_principal_id=member.owner_id,
        mfa_enabled=member.has_factor,
        created_at=format_time(member.created_at),
    )
