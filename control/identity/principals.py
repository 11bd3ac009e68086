"""`/orgs/{orgSlug}/principals`: agents and services; list, create, show, change, retire."""

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
from chassis.http.operation import Body, Operation, Parameter, ResponseSpec, Tag, json_content
from chassis.http.web import Route, json_response, request_id
from control.audit.record import record
from control.http.context import HandlerContext
from control.http.field_types import Name
from control.http.paging import PAGE_PARAMETERS, page_body, parse_page_request
from control.identity import member_repository as store
from control.identity.member_repository import StoredMember
from control.identity.members import Member, MemberPage, get_member, member_body
from control.identity.schemas import PrincipalId
from proto.identity import PrincipalKind, Role, Scope


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


TAG: Final = Tag("principals", "Agents and services, and the access tokens of principals.")
_ID: Final = Parameter("principalId", "path", Annotated[str, Meta(min_length=1)], "The agent or service.")
LIST: Final = Operation("listPrincipals", TAG, (ResponseSpec("A page.", json_content(MemberPage)),), PAGE_PARAMETERS)
CREATE: Final = Operation(
    "createPrincipal",
    TAG,
    (ResponseSpec("The agent or service.", json_content(Member), 201),),
    body=Body(json_content(NewPrincipal), example={"kind": "agent", "name": "Release bot"}),
    error_statuses=(409,),
)
SHOW: Final = Operation("showPrincipal", TAG, (ResponseSpec("The agent or service.", json_content(Member)),), (_ID,))
CHANGE: Final = Operation(
    "changePrincipal",
    TAG,
    (ResponseSpec("The updated agent or service.", json_content(Member)),),
    (_ID,),
    body=Body(json_content(PrincipalChange), example={"name": "EU release bot"}),
    error_statuses=(409,),
)
RETIRE: Final = Operation(
    "retirePrincipal", TAG, (ResponseSpec("The agent or service was retired.", status=204),), (_ID,)
)


@dataclass(frozen=True, slots=True)
class Principals:
    """Handlers of agents and services, and their dependencies."""

    context: HandlerContext

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        every, one = "/orgs/{orgSlug}/principals", "/orgs/{orgSlug}/principals/{principalId}"
        return [
            Route("GET", every, self.list, bearer(Scope.TOKENS_WRITE), operation=LIST),
            Route("POST", every, self.create, bearer(Scope.TOKENS_WRITE), operation=CREATE),
            Route("GET", one, self.show, bearer(Scope.TOKENS_WRITE), operation=SHOW),
            Route("PATCH", one, self.change, bearer(Scope.TOKENS_WRITE), operation=CHANGE),
            Route("DELETE", one, self.retire, bearer(Scope.TOKENS_WRITE), operation=RETIRE),
        ]

    async def list(self, request: web.Request) -> web.StreamResponse:
        """List agents and services.

        Lists those that the caller owns; with the scope `members:read`, all of the organization.
        """
        caller = authorization_context(request)
        owner_id = None if Scope.MEMBERS_READ in caller.scopes else caller.principal_id
        binding = f"principals of {owner_id or 'all'} in {caller.org_id}".encode()
        page = parse_page_request(request, self.context.cursors, binding)
        async with self.context.database.read() as connection:
            found = await store.list_machines(connection, caller.org_id, owner_id, page.after or "", page.limit + 1)
        return json_response(page_body(found, page, member_body, lambda one: one.id, self.context.cursors, binding))

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Create an agent or a service, owned by the caller.

        Its permissions never exceed those of its owner, and it stops working when its owner does.
        """
        body = await self.context.read_body(request, NewPrincipal)
        async with self.context.write_transaction(request) as (connection, caller):
            machine = await store.create_machine(
                connection, caller, PrincipalKind(body.kind), body.name, Role(body.role)
            )
            data = {"kind": body.kind, "name": body.name, "role": body.role}
            await record(connection, caller, "principal.create", machine.id, data, request_id(request))
        return json_response(member_body(machine), status=201)

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Show an agent or service."""
        async with self.context.database.read() as connection:
            found = await get_visible_machine(
                connection, authorization_context(request), request.match_info["principalId"]
            )
        return json_response(member_body(found))

    async def change(self, request: web.Request) -> web.StreamResponse:
        """Change an agent or service.

        The owner may change it, and callers with `members:write`; only the latter may set another owner. A change of
        owner revokes its tokens and those of all principals that it owns; the new owner creates others.
        """
        caller = authorization_context(request)
        async with self.context.database.read() as connection:
            found = await get_visible_machine(connection, caller, request.match_info["principalId"])
        _require_manager(caller, found)  # 404 and 403 come before 400
        body = await self.context.read_body(request, PrincipalChange)
        async with self.context.write_transaction(request) as (connection, caller):
            found = await get_visible_machine(connection, caller, request.match_info["principalId"])
            data = await _apply_change(connection, caller, found, body)
            changed = await get_member(connection, caller.org_id, found.id)
            await record(connection, caller, "principal.update", found.id, data, request_id(request))
        self.context.guards.invalidate_bearers(caller.org_id)
        return json_response(member_body(changed))

    async def retire(self, request: web.Request) -> web.StreamResponse:
        """Retire an agent or service.

        Its tokens are revoked, and what it owns stops working. This cannot be undone.
        """
        async with self.context.write_transaction(request) as (connection, caller):
            found = await get_visible_machine(connection, caller, request.match_info["principalId"])
            _require_manager(caller, found)
            await store.retire_machine(connection, caller.org_id, found.id, datetime.now(UTC))
            await record(connection, caller, "principal.retire", found.id, {"name": found.name}, request_id(request))
        self.context.guards.invalidate_bearers(caller.org_id)
        return web.Response(status=204)


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
