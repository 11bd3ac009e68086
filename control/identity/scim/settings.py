"""`/orgs/{orgSlug}/scim-settings`: the successor, who gets the agents and services of deactivated users; and
`/orgs/{orgSlug}/scim-directory`: disconnecting the directory.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.errors import Conflict
from chassis.http.access import authorization_context, bearer
from chassis.http.operation import Body, Operation, ResponseSpec, json_content
from chassis.http.web import Route, json_response, request_id
from control.audit.record import record
from control.http.context import HandlerContext
from control.identity.bodies import PRINCIPAL_ID
from control.identity.directory import group_store, user_store
from control.identity.members import member_store
from control.identity.scim import settings_repository
from control.identity.scim.roles import load_rule
from control.identity.scim.tokens import TAG
from control.identity.scim.urls import ScimUrls
from control.identity.sso.connections import require_user
from proto.identity import PrincipalKind, Role, Scope


class ScimSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Settings of the organization's directory."""

    successor_principal_id: Annotated[
        str | None,
        Meta(
            description="The member who gets the agents and services of people whom the directory takes out. Null: "
            "they are retired, as they are when this member cannot own them."
        ),
    ]


class ShownScimSettings(ScimSettings, frozen=True, rename="camel", kw_only=True):
    """The settings, the endpoint, what is provisioned, and the roles of groups."""

    endpoint: Annotated[str, Meta(description="The SCIM base URL to enter in the directory.")]
    users: Annotated[int, Meta(description="That are provisioned, active or not.")]
    groups: Annotated[int, Meta(description="That are provisioned.")]
    default_role: Annotated[Role, Meta(description="Of members whose groups are mapped to no role.")]
    role_mapping: Annotated[
        dict[str, Role] | None,
        Meta(description="Of the SSO connection: by `displayName` or `externalId` of a group."),
    ]


class DisconnectedDirectory(msgspec.Struct, frozen=True, rename="camel"):
    """How many users and groups were deleted, tokens revoked, and members released."""

    users: int
    groups: int
    tokens: int
    released_members: Annotated[
        int, Meta(description="Members whom it managed, and who are managed by hand from now on.")
    ]


_CONTENT: Final = json_content(ShownScimSettings)
SHOW: Final = Operation("showScimSettings", TAG, (ResponseSpec("The settings.", _CONTENT),))
PUT: Final = Operation(
    "putScimSettings",
    TAG,
    (ResponseSpec("The settings.", _CONTENT),),
    body=Body(json_content(ScimSettings), example={"successorPrincipalId": None}),
    error_statuses=(409,),
)
DISCONNECT: Final = Operation(
    "disconnectDirectory", TAG, (ResponseSpec("What there was.", json_content(DisconnectedDirectory)),)
)


@dataclass(frozen=True, slots=True)
class ScimSettingsHandlers:
    """Handlers of the settings, and their dependencies."""

    context: HandlerContext
    urls: ScimUrls

    def routes(self) -> list[Route]:
        """Every route of this resource with its scope."""
        path, directory = "/orgs/{orgSlug}/scim-settings", "/orgs/{orgSlug}/scim-directory"
        return [
            Route("GET", path, self.show, bearer(Scope.SSO_READ), operation=SHOW),
            Route("PUT", path, self.put, bearer(Scope.SSO_WRITE), operation=PUT),
            Route("DELETE", directory, self.disconnect, bearer(Scope.SSO_WRITE), operation=DISCONNECT),
        ]

    async def show(self, request: web.Request) -> web.StreamResponse:
        """Show the settings of the directory, its endpoint, and how many users and groups are provisioned."""
        caller = authorization_context(request)
        async with self.context.database.read() as connection:
            return json_response(await self._shown(connection, caller.org_id, caller.org_slug))

    async def put(self, request: web.Request) -> web.StreamResponse:
        """Replace the settings of the directory. Only users may. 409 for a successor who is no user of the
        organization.
        """
        require_user(authorization_context(request))
        body = await self.context.read_body(request, ScimSettings)
        async with self.context.write_transaction(request) as (connection, caller):
            require_user(caller)
            await _require_successor(connection, caller.org_id, body.successor_principal_id)
            now = datetime.now(UTC)
            await settings_repository.save_successor(connection, caller.org_id, body.successor_principal_id, now)
            data = {"successorPrincipalId": body.successor_principal_id or ""}
            await record(connection, caller, "scim.settings.update", caller.org_id, data, request_id(request))
            return json_response(await self._shown(connection, caller.org_id, caller.org_slug))

    async def disconnect(self, request: web.Request) -> web.StreamResponse:
        """Disconnect the directory.

        Its tokens are revoked, and its users and groups are deleted. Members keep their roles and accounts, and are
        managed by hand from now on; deactivated users stay out. The settings stay. Only users may.
        """
        require_user(authorization_context(request))
        async with self.context.write_transaction(request) as (connection, caller):
            require_user(caller)
            removed = await group_store.delete_directory(connection, caller.org_id, datetime.now(UTC))
            data = {
                "users": removed.users,
                "groups": removed.groups,
                "tokens": removed.tokens,
                "releasedMembers": removed.members,
            }
            await record(connection, caller, "scim.disconnect", caller.org_id, data, request_id(request))
        return json_response(DisconnectedDirectory(removed.users, removed.groups, removed.tokens, removed.members))

    async def _shown(self, connection: AsyncConnection, org_id: str, org_slug: str) -> ShownScimSettings:
        rule = await load_rule(connection, org_id)
        mapping = None if rule.mapping is None else {name: Role(role) for name, role in rule.mapping.items()}
        return ShownScimSettings(
            successor_principal_id=await settings_repository.find_successor(connection, org_id),
            endpoint=self.urls.base(org_slug),
            users=await user_store.count(connection, org_id),
            groups=await group_store.count(connection, org_id),
            default_role=rule.default,
            role_mapping=mapping,
        )


async def _require_successor(connection: AsyncConnection, org_id: str, principal_id: str | None) -> None:
    """Raises Conflict for whoever cannot own an agent."""
    if principal_id is None:
        return
    is_id = PRINCIPAL_ID.fullmatch(principal_id) is not None  # a body may hold characters that no database column takes
    member = await member_store.find_member(connection, org_id, principal_id) if is_id else None
    if member is None or member.kind is not PrincipalKind.USER:
        raise Conflict("successorPrincipalId must be the principalId of a user who is a member of the organization.")
