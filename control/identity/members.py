"""`/orgs/{orgSlug}/members`: list, show, change, remove."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.access import bearer, reach
from chassis.errors import NotFound
from chassis.identity import members as store
from chassis.identity.members import Member as StoredMember
from chassis.operation import Answer, Body, Operation, Parameter, json_content
from chassis.relational import format_time
from chassis.web import Route, json_response, request_id
from control.audit.record import record
from control.desk import Desk
from control.identity.invitations import TAG
from control.identity.shapes import PRINCIPAL_ID, Email
from control.names import Moment, Name
from control.paging import PAGE, NextCursor, page_body, requested_page
from proto.identity import PrincipalKind, Role, Scope


class RoleChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What a member is from now on."""

    role: Role


class Member(msgspec.Struct, frozen=True, rename="camel"):
    """A principal in the organization. `email` is of users that log in, `ownerPrincipalId` of agents and services."""

    principal_id: Annotated[str, Meta(pattern=f"^{PRINCIPAL_ID.pattern}$")]
    kind: PrincipalKind
    name: Name
    email: Email | None
    role: Role
    owner_principal_id: str | None
    mfa_enabled: bool
    created_at: Moment


class MemberPage(msgspec.Struct, rename="camel"):
    """A page of members, who was made first comes first."""

    data: list[Member]
    next_cursor: NextCursor
    has_more: bool


_ID: Final = Parameter("principalId", "path", Annotated[str, Meta(min_length=1)], "The member.")
LIST: Final = Operation("listMembers", TAG, (Answer("A page.", json_content(MemberPage)),), PAGE)
SHOW: Final = Operation("showMember", TAG, (Answer("The member.", json_content(Member)),), (_ID,))
CHANGE: Final = Operation(
    "changeMember",
    TAG,
    (Answer("The member as it is now.", json_content(Member)),),
    (_ID,),
    body=Body(json_content(RoleChange), example={"role": "ADMIN"}),
    refused=(409,),
)
REMOVE: Final = Operation("removeMember", TAG, (Answer("No member any more.", status=204),), (_ID,), refused=(409,))


@dataclass(frozen=True, slots=True)
class Members:
    """The handlers, with what they need."""

    desk: Desk

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
        org_id = reach(request).org_id
        binding = f"members of {org_id}".encode()
        page = requested_page(request, self.desk.cursors, binding)
        async with self.desk.database.read() as connection:
            found = await store.list_members(connection, org_id, page.after or "", page.limit + 1)
        return json_response(page_body(found, page, member_body, lambda one: one.id, self.desk.cursors, binding))

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Show a member."""
        async with self.desk.database.read() as connection:
            found = await existing(connection, reach(request).org_id, request.match_info["principalId"])
        return json_response(member_body(found))

    async def change(self, request: web.Request) -> web.StreamResponse:
        """Change a member's role.

        Owners are made, changed and removed by owners; nobody gives a role that reaches further than his own token.
        409 for the last owner.
        """
        caller = reach(request)
        async with self.desk.database.read() as connection:
            found = await existing(connection, caller.org_id, request.match_info["principalId"])
        store.require_changeable(caller, found)  # 404 and 403 come before 400
        body = await self.desk.read(request, RoleChange)
        async with self.desk.change(request) as (connection, caller):
            found = await existing(connection, caller.org_id, request.match_info["principalId"])
            await store.change_role(connection, caller, found, body.role)
            changed = await existing(connection, caller.org_id, found.id)
            told = {"role": body.role.value, "before": found.role.value}
            await record(connection, caller, "member.update", found.id, told, request_id(request))
        self.desk.checks.forget_bearers(caller.org_id)
        return json_response(member_body(changed))

    async def remove(self, request: web.Request) -> web.StreamResponse:
        """Remove a member.

        His tokens and sessions in the organization end, and agents and services that he owns stop working: hand them
        to another owner before, if they are to go on. 409 for the last owner.
        """
        async with self.desk.change(request) as (connection, caller):
            found = await existing(connection, caller.org_id, request.match_info["principalId"])
            await store.remove(connection, caller, found, datetime.now(UTC))
            told = {"role": found.role.value, "kind": found.kind.value}
            await record(connection, caller, "member.remove", found.id, told, request_id(request))
        self.desk.checks.forget_bearers(caller.org_id)
        return web.Response(status=204)


async def existing(connection: AsyncConnection, org_id: str, principal_id: str) -> StoredMember:
    """Raises NotFound."""
    if PRINCIPAL_ID.fullmatch(principal_id) is None:  # a path may hold what no database column takes
        raise NotFound
    found = await store.find_member(connection, org_id, principal_id)
    if found is None:
        raise NotFound
    return found


def member_body(member: StoredMember) -> Member:
    """As the API shows it."""
    return Member(
        principal_id=member.id,
        kind=member.kind,
        name=member.name,
        email=member.email,
        role=member.role,
        owner_principal_id=member.owner_id,
        mfa_enabled=member.has_factor,
        created_at=format_time(member.created_at),
    )
