"""The roles of members whom the directory manages: what its groups are mapped to (`roleMapping` of the SSO connection).

A group is found in the mapping by its `displayName` or its `externalId`, for some providers name groups by id when
somebody logs in. The highest role counts. Nobody becomes an owner, no owner is changed, and the last administrator
stays one.
"""

from collections import defaultdict
from collections.abc import Collection, Mapping
from dataclasses import dataclass

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import memberships
from control.audit.record import Actor, record
from control.identity.directory import user_store
from control.identity.directory.user_store import batches
from control.identity.members import member_store
from control.identity.organizations import organization_store
from control.identity.sso import connection_store
from control.identity.sso.mapping import role_of
from proto.identity import Role


@dataclass(frozen=True, slots=True)
class RoleRule:
    """Which groups give which roles. `mapping` None: a new member gets the default role, and keeps it."""

    mapping: Mapping[str, str] | None = None
    default: Role = Role.VIEWER

    def role_for(self, groups: Collection[user_store.GroupOfUser]) -> Role:
        """The role of a member who is in these groups."""
        names = {name for group in groups for name in (group.display_name, group.external_id) if name is not None}
        return role_of(self.mapping, self.default, frozenset(names))


async def load_rule(connection: AsyncConnection, org_id: str) -> RoleRule:
    """The rule of the connection through which people log in: the enabled one, of two the older one."""
    found = await connection_store.list_connections(connection, org_id)
    if not found:
        return RoleRule()
    used = min(found, key=lambda each: (not each.enabled, each.created_at, each.id))
    return RoleRule(used.role_mapping, used.default_role)


async def role_for(connection: AsyncConnection, org_id: str, user_id: str) -> Role:
    """The role that a user gets who becomes a member."""
    rule = await load_rule(connection, org_id)
    if not rule.mapping:
        return rule.default
    groups = await user_store.list_groups_of(connection, [user_id])
    return rule.role_for(groups[user_id])


async def update_roles(
    connection: AsyncConnection, actor: Actor, user_ids: Collection[str] | None, request_id: str
) -> bool:
    """Give the members among these users (None: all) the roles of their groups. Call after a change of groups or of the
    mapping. Whether a role has changed, of which the caller then notifies the guards.
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
    for role in sorted(changes, key=lambda one: one is not Role.ADMIN):  # new administrators before old ones leave
        changed |= await _set_roles(connection, actor, role, changes[role], current, request_id)
    return changed


async def _managed_roles(connection: AsyncConnection, org_id: str, principal_ids: Collection[str]) -> dict[str, Role]:
    """The roles of those whom the directory manages: owners are not among them."""
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
    """Take the role of an administrator away, one after the other: each may be the last one. False for that one."""
    member = await member_store.find_member(connection, org_id, principal_id)
    if member is None or not await member_store.has_other_administrators(connection, org_id, member):
        return False
    return await organization_store.set_role(connection, org_id, principal_id, role)
