"""`/orgs/{orgSlug}/scim-settings`: the successor, who gets the agents and services of deactivated users; and
`/orgs/{orgSlug}/scim-directory`: disconnecting the directory.
"""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
import sqlalchemy as sa
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.db.database import to_milliseconds
from chassis.errors import Conflict
from chassis.http.access import bearer
from chassis.http.declaration import route
from control.http.context import HandlerContext
from control.identity.bodies import PRINCIPAL_ID
from control.identity.directory import group_store, user_store
from control.identity.directory.tables import scim_settings
from control.identity.members import member_store
from control.identity.scim.messages import ScimUrls
from control.identity.scim.roles import load_rule
from control.routing.arguments import Transaction
from proto.identity import PrincipalKind, Role, Scope

PATH: Final = "/orgs/{orgSlug}/scim-settings"
_WRITE: Final = bearer(Scope.SSO_WRITE)


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


@dataclass(frozen=True, slots=True)
class DirectoryOptions:
    """Handlers of the options, and their dependencies."""

    context: HandlerContext
    urls: ScimUrls

    @route("GET", PATH, bearer(Scope.SSO_READ))
    async def show_scim_settings(self, caller: AuthorizationContext, connection: AsyncConnection) -> ShownScimSettings:
        """Show the settings of the directory, its endpoint, and how many users and groups are provisioned."""
        return await self._shown(connection, caller)

    @route("PUT", PATH, _WRITE, errors=(409,), example={"successorPrincipalId": None})
    async def put_scim_settings(self, body: ScimSettings, transaction: Transaction) -> ShownScimSettings:
        """Replace the settings of the directory. Only users may. 409 for a successor who is no user of the
        organization.
        """
        connection, caller = transaction.connection, transaction.caller
        await _require_successor(connection, caller.org_id, body.successor_principal_id)
        await save_successor(connection, caller.org_id, body.successor_principal_id, datetime.now(UTC))
        data = {"successorPrincipalId": body.successor_principal_id or ""}
        await transaction.record("scim.settings.update", caller.org_id, data)
        return await self._shown(connection, caller)

    @route("DELETE", "/orgs/{orgSlug}/scim-directory", _WRITE)
    async def disconnect_directory(self, transaction: Transaction) -> DisconnectedDirectory:
        """Disconnect the directory.

        Its tokens are revoked, and its users and groups are deleted. Members keep their roles and accounts, and are
        managed by hand from now on; deactivated users stay out. The settings stay. Only users may.
        """
        org_id = transaction.caller.org_id
        removed = await group_store.delete_directory(transaction.connection, org_id, datetime.now(UTC))
        result = DisconnectedDirectory(removed.users, removed.groups, removed.tokens, removed.members)
        await transaction.record("scim.disconnect", org_id, msgspec.to_builtins(result))
        return result

    async def _shown(self, connection: AsyncConnection, caller: AuthorizationContext) -> ShownScimSettings:
        rule = await load_rule(connection, caller.org_id)
        mapping = None if rule.mapping is None else {name: Role(role) for name, role in rule.mapping.items()}
        return ShownScimSettings(
            successor_principal_id=await find_successor(connection, caller.org_id),
            endpoint=self.urls.base(caller.org_slug),
            users=await user_store.count(connection, caller.org_id),
            groups=await group_store.count(connection, caller.org_id),
            default_role=rule.default,
            role_mapping=mapping,
        )


async def find_successor(connection: AsyncConnection, org_id: str) -> str | None:
    """Who gets the agents and services of people whom the directory takes out; None: they are retired."""
    found = sa.select(scim_settings.c.successor_id).where(scim_settings.c.org_id == org_id)
    successor: str | None = await connection.scalar(found)
    return successor


async def save_successor(connection: AsyncConnection, org_id: str, successor_id: str | None, now: datetime) -> None:
    """Store who gets them; None: they are retired."""
    values = {"successor_id": successor_id, "updated_at": to_milliseconds(now)}
    changed = await connection.execute(scim_settings.update().where(scim_settings.c.org_id == org_id).values(values))
    if not changed.rowcount:
        await connection.execute(scim_settings.insert().values(org_id=org_id, **values))


async def _require_successor(connection: AsyncConnection, org_id: str, principal_id: str | None) -> None:
    """Raises Conflict for whoever cannot own an agent."""
    if principal_id is None:
        return
    is_id = PRINCIPAL_ID.fullmatch(principal_id) is not None  # a body may hold characters that no database column takes
    member = await member_store.find_member(connection, org_id, principal_id) if is_id else None
    if member is None or member.kind is not PrincipalKind.USER:
        raise Conflict("successorPrincipalId must be the principalId of a user who is a member of the organization.")
