"""`/orgs/{orgSlug}/principals`: agents and services; list, create, show, change, retire."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.access import bearer, reach
from chassis.errors import BadRequest, Forbidden, Issue, NotFound
from chassis.identity import members as store
from chassis.identity.members import Member as StoredMember
from chassis.identity.model import Reach
from chassis.operation import Answer, Body, Operation, Parameter, Tag, json_content
from chassis.web import Route, json_response, request_id
from control.audit.record import record
from control.desk import Desk
from control.identity.members import Member, MemberPage, existing, member_body
from control.identity.shapes import PrincipalId
from control.names import Name
from control.paging import PAGE, page_body, requested_page
from proto.identity import PrincipalKind, Role, Scope


class NewPrincipal(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An agent or service to be made."""

    kind: Annotated[Literal["agent", "service"], Meta(description="Users are invited instead.")]
    name: Name
    role: Annotated[
        Literal["VIEWER", "BILLING", "MEMBER", "ADMIN"], Meta(description="Reaches no further than its owner's.")
    ] = "MEMBER"


class PrincipalChange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """What changes of an agent or service; what is not given stays."""

    name: Name | msgspec.UnsetType = msgspec.UNSET
    owner_principal_id: PrincipalId | msgspec.UnsetType = msgspec.UNSET


TAG: Final = Tag("principals", "Agents and services, and the tokens of every principal.")
_ID: Final = Parameter("principalId", "path", Annotated[str, Meta(min_length=1)], "The agent or service.")
LIST: Final = Operation("listPrincipals", TAG, (Answer("A page.", json_content(MemberPage)),), PAGE)
CREATE: Final = Operation(
    "createPrincipal",
    TAG,
    (Answer("The agent or service.", json_content(Member), 201),),
    body=Body(json_content(NewPrincipal), example={"kind": "agent", "name": "Release bot"}),
    refused=(409,),
)
SHOW: Final = Operation("showPrincipal", TAG, (Answer("The agent or service.", json_content(Member)),), (_ID,))
CHANGE: Final = Operation(
    "changePrincipal",
    TAG,
    (Answer("The agent or service as it is now.", json_content(Member)),),
    (_ID,),
    body=Body(json_content(PrincipalChange), example={"name": "Release bot of Europe"}),
    refused=(409,),
)
RETIRE: Final = Operation("retirePrincipal", TAG, (Answer("It works no more.", status=204),), (_ID,))


@dataclass(frozen=True, slots=True)
class Principals:
    """The handlers, with what they need."""

    desk: Desk

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

        One's own, and with `members:read` all of the organization.
        """
        caller = reach(request)
        owner_id = None if Scope.MEMBERS_READ in caller.scopes else caller.principal_id
        binding = f"principals of {owner_id or 'all'} in {caller.org_id}".encode()
        page = requested_page(request, self.desk.cursors, binding)
        async with self.desk.database.read() as connection:
            found = await store.list_workers(connection, caller.org_id, owner_id, page.after or "", page.limit + 1)
        return json_response(page_body(found, page, member_body, lambda one: one.id, self.desk.cursors, binding))

    async def create(self, request: web.Request) -> web.StreamResponse:
        """Create an agent or a service, which the caller owns.

        It reaches no further than its owner does at any time, and stops with him.
        """
        body = await self.desk.read(request, NewPrincipal)
        async with self.desk.change(request) as (connection, caller):
            made = await store.create_worker(connection, caller, PrincipalKind(body.kind), body.name, Role(body.role))
            told = {"kind": body.kind, "name": body.name, "role": body.role}
            await record(connection, caller, "principal.create", made.id, told, request_id(request))
        return json_response(member_body(made), status=201)

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Show an agent or service."""
        async with self.desk.database.read() as connection:
            found = await visible_worker(connection, reach(request), request.match_info["principalId"])
        return json_response(member_body(found))

    async def change(self, request: web.Request) -> web.StreamResponse:
        """Change an agent or service.

        Its owner may, and who has `members:write`; another owner is given by the latter alone. Then the tokens end that
        it has, with those of all that it owns: the new owner makes others.
        """
        caller = reach(request)
        async with self.desk.database.read() as connection:
            found = await visible_worker(connection, caller, request.match_info["principalId"])
        _require_manager(caller, found)  # 404 and 403 come before 400
        body = await self.desk.read(request, PrincipalChange)
        async with self.desk.change(request) as (connection, caller):
            found = await visible_worker(connection, caller, request.match_info["principalId"])
            told = await _change(connection, caller, found, body)
            changed = await existing(connection, caller.org_id, found.id)
            await record(connection, caller, "principal.update", found.id, told, request_id(request))
        self.desk.checks.forget_bearers(caller.org_id)
        return json_response(member_body(changed))

    async def retire(self, request: web.Request) -> web.StreamResponse:
        """Retire an agent or service.

        Its tokens end, and what it owns stops working. There is no way back.
        """
        async with self.desk.change(request) as (connection, caller):
            found = await visible_worker(connection, caller, request.match_info["principalId"])
            _require_manager(caller, found)
            await store.retire_worker(connection, caller.org_id, found.id, datetime.now(UTC))
            await record(connection, caller, "principal.retire", found.id, {"name": found.name}, request_id(request))
        self.desk.checks.forget_bearers(caller.org_id)
        return web.Response(status=204)


async def visible(connection: AsyncConnection, caller: Reach, principal_id: str) -> StoredMember:
    """A principal that the caller may see: himself, what he owns, with `members:read` everybody. Raises NotFound."""
    found = await existing(connection, caller.org_id, principal_id)
    if caller.principal_id in (found.id, found.owner_id) or Scope.MEMBERS_READ in caller.scopes:
        return found
    raise NotFound


async def visible_worker(connection: AsyncConnection, caller: Reach, principal_id: str) -> StoredMember:
    """Likewise, of agents and services."""
    found = await visible(connection, caller, principal_id)
    if found.kind is PrincipalKind.USER:
        raise NotFound
    return found


def _require_manager(caller: Reach, worker: StoredMember) -> None:
    if worker.owner_id != caller.principal_id and Scope.MEMBERS_WRITE not in caller.scopes:
        raise Forbidden(f"This is for its owner, and for who has the scope {Scope.MEMBERS_WRITE}.")


async def _change(
    connection: AsyncConnection, caller: Reach, worker: StoredMember, body: PrincipalChange
) -> dict[str, Any]:
    """Do it; what the audit tells of it. Raises Forbidden, BadRequest, Conflict."""
    _require_manager(caller, worker)
    told: dict[str, Any] = {}
    if body.name is not msgspec.UNSET:
        await store.rename_worker(connection, worker.id, body.name)
        told["name"] = body.name
    if body.owner_principal_id is not msgspec.UNSET:
        owner = await _new_owner(connection, caller, body.owner_principal_id)
        await store.hand_over(connection, caller.org_id, worker, owner, datetime.now(UTC))
        told |= {"ownerPrincipalId": owner.id, "ownerBefore": worker.owner_id}
    return told


async def _new_owner(connection: AsyncConnection, caller: Reach, owner_id: str) -> StoredMember:
    """Raises Forbidden, and BadRequest for an owner that is no user of the organization."""
    if Scope.MEMBERS_WRITE not in caller.scopes:
        raise Forbidden(f"Another owner is given with the scope {Scope.MEMBERS_WRITE}.")
    owner = await store.find_member(connection, caller.org_id, owner_id)
    if owner is None or owner.kind is not PrincipalKind.USER:
        issue = Issue("body.ownerPrincipalId", "Must be a user who is a member of the organization.", "unknown")
        raise BadRequest("The request body is not valid.", [issue])
    return owner
