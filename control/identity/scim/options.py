"""`/orgs/{orgSlug}/scim-settings`: the successor, who gets the agents and services of deactivated users.
`/orgs/{orgSlug}/scim-directory`: disconnects the directory.

This module also computes the roles of members whom the directory manages. `roleMapping` of the SSO connection maps the
directory's groups to roles. A group is found in the mapping by its `displayName` or its `externalId`, because some
providers name groups by id at logins. The highest role counts. No member becomes an owner, no owner is changed, and the
last administrator stays an administrator.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Final

import msgspec
import sqlalchemy as sa
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.auth.tables import memberships
from chassis.db.database import to_milliseconds
from chassis.errors import Conflict
from chassis.http.access import bearer
from chassis.http.declaration import route
from control.audit.record import Actor, record
from control.identity.bodies import PRINCIPAL_ID
from control.identity.directory import group_store, user_store
from control.identity.directory.tables import scim_settings
from control.identity.directory.user_store import batches
from control.identity.members import member_store
from control.identity.organizations import organization_store
from control.identity.scim.messages import ScimUrls
from control.identity.sso import connection_store
from control.identity.sso.mapping import role_of
from control.routing.arguments import Handlers, Transaction
from proto.identity import PrincipalKind, Role, Scope


@dataclass(frozen=True, slots=True)
class RoleRule:
    """The mapping of groups to roles. `mapping` None: a new member gets the default role, and keeps it."""

    mapping: Mapping[str, str] | None = None
    default: Role = Role.VIEWER

    def role_for(self, groups: Collection[user_store.GroupOfUser]) -> Role:
        """The role of a member who is in these groups."""
        names = {name for group in groups for name in (group.display_name, group.external_id) if name is not None}
        return role_of(self.mapping, self.default, frozenset(names))


async def load_rule(connection: AsyncConnection, org_id: str) -> RoleRule:
    """The rule of the connection that users log in through: the enabled connection, or the older one of two."""
    found = await connection_store.list_connections(connection, org_id)
    if not found:
        return RoleRule()
    used = min(found, key=lambda each: (not each.enabled, each.created_at, each.id))
    return RoleRule(used.role_mapping, used.default_role)


async def role_for(connection: AsyncConnection, org_id: str, user_id: str) -> Role:
    """The role of a user who becomes a member."""
    rule = await load_rule(connection, org_id)
    if not rule.mapping:
        return rule.default
    groups = await user_store.list_groups_of(connection, [user_id])
    return rule.role_for(groups[user_id])


async def update_roles(
    connection: AsyncConnection, actor: Actor, user_ids: Collection[str] | None, request_id: str
) -> bool:
    """Give the members among these users (None: all) the roles of their groups. Call after a change of groups or of the
    mapping. Returns whether a role has changed. If so, the caller notifies the guards.
    """
    org_id = actor.org_id
    rule = await load_rule(connection, org_id)
    if rule.mapping is None:
        return False
    principal_of = dict(await user_store.list_principals(connection, org_id, user_ids))
    groups = await user_store.list_groups_of(connection, principal_of)
    current = await _managed_roles(connection, org_id, principal_of.values())
    changes: defaultdict[Role, list[str]] = defaultdict(list)
    for user_id, principal_id in principal_of.items():
        role = rule.role_for(groups[user_id])
        if current.get(principal_id, role) is not role:
            changes[role].append(principal_id)
    changed = False
    for role in sorted(changes, key=lambda one: one is not Role.ADMIN):  # new administrators first, then demotions
        changed |= await _set_roles(connection, actor, role, changes[role], current, request_id)
    return changed


async def _managed_roles(connection: AsyncConnection, org_id: str, principal_ids: Collection[str]) -> dict[str, Role]:
    """The roles of the members that the directory manages. Owners are not among them."""
    found: dict[str, Role] = {}
    for part in batches(sorted(principal_ids)):
        rows = await connection.execute(
            sa.select(memberships.c.principal_id, memberships.c.role).where(
                memberships.c.org_id == org_id,
                memberships.c.managed,
                memberships.c.role != Role.OWNER.value,
                memberships.c.principal_id.in_(part),
            )
        )
        found |= {row.principal_id: Role(row.role) for row in rows}
    return found


async def _set_roles(
    connection: AsyncConnection,
    actor: Actor,
    role: Role,
    principal_ids: list[str],
    current: Mapping[str, Role],
    request_id: str,
) -> bool:
    administrators = [one for one in principal_ids if current[one] is Role.ADMIN]
    kept = [one for one in administrators if not await _demote(connection, actor.org_id, one, role)]
    for part in batches([one for one in principal_ids if one not in kept]):
        where = (memberships.c.org_id == actor.org_id) & memberships.c.principal_id.in_(part)
        await connection.execute(memberships.update().where(where).values(role=role.value))
        await record(connection, actor, "scim.roles", actor.org_id, {"role": role.value, "members": part}, request_id)
    if kept:
        data = {"role": role.value, "members": kept, "reason": "the last administrator"}
        await record(connection, actor, "scim.roles.keep", actor.org_id, data, request_id)
    return len(kept) < len(principal_ids)


async def _demote(connection: AsyncConnection, org_id: str, principal_id: str, role: Role) -> bool:
    """Demote an administrator, one at a time, because each may be the last one. False for the last administrator."""
    member = await member_store.find_member(connection, org_id, principal_id)
    if member is None or not await member_store.has_other_administrators(connection, org_id, member):
        return False
    return await organization_store.set_role(connection, org_id, principal_id, role)


PATH: Final = "/orgs/{orgSlug}/scim-settings"
_WRITE: Final = bearer(Scope.SSO_WRITE)


class ScimSettings(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Settings of the organization's directory."""

    successor_principal_id: Annotated[
        str | None,
        Meta(
            description="The member who gets the agents and services of users whom the directory removes. If this is "
            "null, or if this member cannot own the agents and services, the agents and services are retired."
        ),
    ]


class ShownScimSettings(ScimSettings, frozen=True, rename="camel", kw_only=True):
    """The settings, the endpoint, the numbers of provisioned users and groups, and the roles of groups."""

    endpoint: Annotated[str, Meta(description="The SCIM base URL to enter in the directory.")]
    users: Annotated[int, Meta(description="Number of provisioned users, active or not.")]
    groups: Annotated[int, Meta(description="Number of provisioned groups.")]
    default_role: Annotated[Role, Meta(description="Role of members whose groups are not mapped to a role.")]
    role_mapping: Annotated[
        dict[str, Role] | None,
        Meta(description="Roles by `displayName` or `externalId` of a group, from the SSO connection."),
    ]


class DisconnectedDirectory(msgspec.Struct, frozen=True, rename="camel"):
    """The numbers of deleted users and groups, revoked tokens, and members that are no longer managed."""

    users: int
    groups: int
    tokens: int
    released_members: Annotated[
        int, Meta(description="Members that the directory managed and that administrators manage from now on.")
    ]


@dataclass(frozen=True, slots=True)
class DirectoryOptions(Handlers):
    """Handlers of the options, and their dependencies."""

    urls: ScimUrls

    @route("GET", PATH, bearer(Scope.SSO_READ))
    async def show_scim_settings(self, caller: AuthorizationContext, connection: AsyncConnection) -> ShownScimSettings:
        """Show the settings of the directory, its endpoint, and the numbers of provisioned users and groups."""
        return await self._shown(connection, caller)

    @route("PUT", PATH, _WRITE, errors=(409,), example={"successorPrincipalId": None})
    async def put_scim_settings(self, body: ScimSettings, transaction: Transaction) -> ShownScimSettings:
        """Replace the settings of the directory.

        Only users may do this. 409 for a successor who is not a user of the organization.
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

        Its tokens are revoked, and its users and groups are deleted. Members keep their roles and accounts, and
        administrators manage them from now on. Deactivated users do not become members. The settings are kept. Only
        users may do this.
        """
        org_id = transaction.caller.org_id
        removed = await group_store.delete_directory(transaction.connection, org_id, datetime.now(UTC))
        result = DisconnectedDirectory(*removed)
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
    """The id of the successor, who gets the agents and services of users whom the directory removes. None: retired."""
    statement = sa.select(scim_settings.c.successor_id).where(scim_settings.c.org_id == org_id)
    successor: str | None = await connection.scalar(statement)
    return successor


async def save_successor(connection: AsyncConnection, org_id: str, successor_id: str | None, now: datetime) -> None:
    """Store the successor. None: agents and services of removed users are retired."""
    values = {"successor_id": successor_id, "updated_at": to_milliseconds(now)}
    changed = await connection.execute(scim_settings.update().where(scim_settings.c.org_id == org_id).values(values))
    if not changed.rowcount:
        await connection.execute(scim_settings.insert().values(org_id=org_id, **values))


async def _require_successor(connection: AsyncConnection, org_id: str, principal_id: str | None) -> None:
    """Raises Conflict for a principal that cannot own an agent."""
    if principal_id is None:
        return
    is_id = PRINCIPAL_ID.fullmatch(principal_id) is not None  # a body may hold characters that no database column takes
    member = await member_store.find_member(connection, org_id, principal_id) if is_id else None
    if member is None or member.kind is not PrincipalKind.USER:
        raise Conflict("successorPrincipalId must be the principalId of a user who is a member of the organization.")
