"""Members of an organization, and its machine principals: agents and services.

Every function runs in the caller's transaction. After a change the caller notifies the guards. An organization always
keeps an owner who can log in.
"""

from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import load_membership_statuses, owned_principals, owning_user
from chassis.auth.model import AuthorizationContext
from chassis.auth.tables import access_tokens, memberships, organizations, principals, users
from chassis.errors import Conflict, Forbidden, NotFound
from control import saved_views as saved_view_repository
from control.identity.chat_links import end_access
from control.identity.directory.user_store import find_by_principal
from control.identity.organizations import organization_store
from control.identity.organizations.organization_store import StoredOrganization
from control.identity.organizations.revocation import revoke_credentials
from control.identity.users import session_store, user_store
from control.issues.lifecycle import unassign_everything
from proto.identity import MAX_ACT_CHAIN, ROLE_SCOPES, PrincipalKind, Role, Scope

MAX_OWNED: Final = 200  # agents and services of one user in one organization, including indirectly owned ones
MAX_MACHINES: Final = 5_000  # agents and services in one organization


@dataclass(frozen=True, slots=True)
class StoredMember:
    """A principal in the organization. Only users that log in have `email`, `email_verified` and `has_factor`.
    `managed`: the organization's directory decides about the membership and the role.
    """

    id: str
    kind: PrincipalKind
    name: str
    email: str | None
    email_verified: bool
    role: Role
    owner_id: str | None
    has_factor: bool
    managed: bool
    created_at: datetime


_MEMBERS: Final = (
    sa.select(
        principals.c.id,
        principals.c.kind,
        principals.c.name,
        principals.c.owner_id,
        users.c.email,
        sa.func.coalesce(users.c.email_verified, sa.false()).label("email_verified"),
        users.c.totp_confirmed_at.is_not(None).label("has_factor"),
        memberships.c.role,
        memberships.c.managed,
        memberships.c.created_at,
    )
    .join_from(memberships, principals, principals.c.id == memberships.c.principal_id)
    .outerjoin(users, users.c.principal_id == principals.c.id)
    .order_by(memberships.c.principal_id)
)


async def list_members(connection: AsyncConnection, org_id: str, after_id: str, limit: int) -> list[StoredMember]:
    """At most `limit` members of every kind, by id, starting after `after_id`."""
    return await _list(connection, org_id, _MEMBERS.where(memberships.c.principal_id > after_id).limit(limit))


async def list_machines(
    connection: AsyncConnection, org_id: str, owner_id: str | None, after_id: str, limit: int
) -> list[StoredMember]:
    """At most `limit` agents and services of one owner (None: of all owners), by id, starting after `after_id`."""
    page = _MEMBERS.where(memberships.c.principal_id > after_id, principals.c.kind != PrincipalKind.USER.value)
    if owner_id is not None:
        page = page.where(principals.c.owner_id == owner_id)
    return await _list(connection, org_id, page.limit(limit))


async def list_owned(connection: AsyncConnection, org_id: str, owner_id: str) -> list[StoredMember]:
    """The agents and services that the principal owns in the organization, directly or indirectly, by id."""
    owned = memberships.c.principal_id.in_(owned_principals(owner_id)) & (memberships.c.principal_id != owner_id)
    return await _list(connection, org_id, _MEMBERS.where(owned))


async def find_member(connection: AsyncConnection, org_id: str, principal_id: str) -> StoredMember | None:
    """The member with this id."""
    found = await _list(connection, org_id, _MEMBERS.where(memberships.c.principal_id == principal_id))
    return found[0] if found else None


async def get_member(connection: AsyncConnection, org_id: str, principal_id: str) -> StoredMember:
    """The member with this id. Raises NotFound."""
    found = await find_member(connection, org_id, principal_id)
    if found is None:
        raise NotFound
    return found


async def _list(connection: AsyncConnection, org_id: str, found: sa.Select[Any]) -> list[StoredMember]:
    rows = (await connection.execute(found.where(memberships.c.org_id == org_id))).mappings()
    return [StoredMember(**{**row, "kind": PrincipalKind(row["kind"]), "role": Role(row["role"])}) for row in rows]


async def find_first_owner(connection: AsyncConnection, org_id: str) -> str | None:
    """The id of the owner with the oldest membership, among users that are not disabled."""
    is_owner = (memberships.c.role == Role.OWNER.value) & (principals.c.kind == PrincipalKind.USER.value)
    owners = _MEMBERS.where(is_owner, principals.c.disabled_at.is_(None))
    oldest = owners.order_by(None).order_by(memberships.c.created_at, memberships.c.principal_id)
    found = await _list(connection, org_id, oldest.limit(1))
    return found[0].id if found else None


async def list_organizations(
    connection: AsyncConnection, principal_id: str, limit: int
) -> list[tuple[StoredOrganization, Role]]:
    """At most `limit` organizations that the principal is a member of, by slug, each with the principal's role."""
    statement = (
        sa.select(organizations, memberships.c.role)
        .join_from(memberships, organizations, organizations.c.id == memberships.c.org_id)
        .where(memberships.c.principal_id == principal_id, organizations.c.deleted_at.is_(None))
        .order_by(organizations.c.slug)
        .limit(limit)
    )
    rows = (await connection.execute(statement)).mappings()
    return [
        (StoredOrganization(**{name: row[name] for name in StoredOrganization.__slots__}), Role(row["role"]))
        for row in rows
    ]


async def is_elsewhere(connection: AsyncConnection, org_id: str, principal_id: str) -> bool:
    """Whether the principal is a member of an organization besides this one."""
    found = await list_organizations(connection, principal_id, 2)
    return any(organization.id != org_id for organization, _ in found)


def require_grantable(by: AuthorizationContext, role: Role) -> None:
    """Raises Forbidden for a role that `by` may not grant: OWNER unless `by` is an owner, and roles with scopes that
    `by` lacks.
    """
    if role is Role.OWNER and by.role is not Role.OWNER:
        raise Forbidden("Only owners can grant the role OWNER.")
    if not ROLE_SCOPES[role] <= by.scopes:
        raise Forbidden(f"The role {role} has scopes that your credential lacks.")


def require_changeable(by: AuthorizationContext, member: StoredMember) -> None:
    """Raises Forbidden for an owner unless `by` is an owner."""
    if member.role is Role.OWNER and by.role is not Role.OWNER:
        raise Forbidden("Only owners can change or remove an owner.")


async def require_unmanaged(connection: AsyncConnection, org_id: str, member: StoredMember) -> None:
    """Raises Conflict for a member whom the organization's directory manages. Also raises it for a former owner whom
    the directory will manage with its next request.
    """
    if member.role is Role.OWNER:
        return
    user = await find_by_principal(connection, org_id, member.id)
    if member.managed or (user is not None and user.active):
        raise Conflict(
            "The organization's directory manages this member over SCIM. Change the user, or the user's groups, there."
        )


async def change_role(connection: AsyncConnection, by: AuthorizationContext, member: StoredMember, role: Role) -> None:
    """Change the role of a member. Raises Forbidden for a role that `by` may not grant or take away. Raises Conflict
    for the last owner or administrator, for a machine principal that would become an owner, and for a member whom a
    directory manages, unless the member becomes an owner.
    """
    require_changeable(by, member)
    require_grantable(by, role)
    if role is Role.OWNER and member.kind is not PrincipalKind.USER:
        raise Conflict("Agents and services cannot be owners.")
    if role is not Role.OWNER:
        await require_unmanaged(connection, by.org_id, member)
        await _require_other_administrators(connection, by.org_id, member, stays_admin=role is Role.ADMIN)
    await organization_store.set_role(connection, by.org_id, member.id, role)
    if Role.OWNER in (role, member.role):  # directories do not manage owners
        user = None if role is Role.OWNER else await find_by_principal(connection, by.org_id, member.id)
        await set_managed(connection, by.org_id, member.id, managed=user is not None and user.active)


async def set_managed(connection: AsyncConnection, org_id: str, principal_id: str, *, managed: bool) -> None:
    """Store whether the organization's directory manages the member."""
    where = (memberships.c.org_id == org_id) & (memberships.c.principal_id == principal_id)
    await connection.execute(memberships.update().where(where).values(managed=managed))


async def remove(connection: AsyncConnection, by: AuthorizationContext, member: StoredMember, now: datetime) -> None:
    """Remove a member from the organization, with its tokens, sessions and invitations there. Also revoke the tokens of
    all principals that it owns, because they would work again if the member returned. An agent or service is retired.
    An account that is confined to the organization is closed. Raises Forbidden for an owner unless `by` is an owner.
    Raises Conflict for the last owner or administrator, and for a member whom a directory manages.
    """
    require_changeable(by, member)
    await require_unmanaged(connection, by.org_id, member)
    await _require_other_administrators(connection, by.org_id, member)
    if member.kind is not PrincipalKind.USER:
        await organization_store.disable_principal(connection, member.id)
    await _remove_member(connection, by.org_id, member.id, now)


async def create_machine(
    connection: AsyncConnection, by: AuthorizationContext, kind: PrincipalKind, name: str, role: Role
) -> StoredMember:
    """Create an agent or service owned by the caller. Raises Forbidden. Raises Conflict beyond MAX_OWNED, MAX_MACHINES,
    or a chain of owners longer than MAX_ACT_CHAIN.
    """
    require_grantable(by, role)
    if role is Role.OWNER:
        raise Conflict("Agents and services cannot be owners.")
    owners = await load_membership_statuses(connection, by.org_id, [by.principal_id])
    await _check_machine_limit(connection, by.org_id, owning_user(by.principal_id, owners), 1)
    if await _count_machines(connection, by.org_id) >= MAX_MACHINES:
        raise Conflict(f"An organization can have at most {MAX_MACHINES} agents and services.")
    if len(owners) >= MAX_ACT_CHAIN:
        raise Conflict(f"A chain of owners can have at most {MAX_ACT_CHAIN} principals.")
    machine = await organization_store.create_principal(connection, kind, name, by.principal_id)
    await organization_store.add_membership(connection, by.org_id, machine.id, role)
    return await get_member(connection, by.org_id, machine.id)


async def transfer_ownership(
    connection: AsyncConnection, org_id: str, machine: StoredMember, owner: StoredMember, now: datetime
) -> None:
    """Transfer an agent or service to another owner. Revokes the credentials of the agent or service and of all
    principals that it owns. Otherwise the holders of the credentials would act in the name of the new owner. Raises
    Conflict beyond MAX_OWNED.
    """
    if machine.owner_id == owner.id:
        return
    found = await load_membership_statuses(connection, org_id, [machine.id, owner.id])
    if owning_user(machine.id, found) != owning_user(owner.id, found):
        count = await _count_machines(connection, org_id, owned_principals(machine.id))
        await _check_machine_limit(connection, org_id, owning_user(owner.id, found), count)
    await connection.execute(principals.update().where(principals.c.id == machine.id).values(owner_id=owner.id))
    await revoke_credentials(connection, org_id, owned_principals(machine.id), now)


async def retire_machine(connection: AsyncConnection, org_id: str, machine_id: str, now: datetime) -> None:
    """Disable an agent or service permanently."""
    await organization_store.disable_principal(connection, machine_id)
    await _remove_member(connection, org_id, machine_id, now)


async def end_membership(connection: AsyncConnection, org_id: str, principal_id: str, now: datetime) -> None:
    """Remove a principal from the organization. Revokes its credentials there, its chat links, and the credentials of
    the principals that it owns, unassigns its issues, and deletes its private saved views. The account stays open, so
    that it can become a member again. The caller checks whether the principal may be removed.
    """
    await organization_store.remove_membership(connection, org_id, principal_id)
    await revoke_credentials(connection, org_id, owned_principals(principal_id), now)
    await session_store.end_all(connection, principal_id, now, org_id=org_id)
    await end_access(connection, org_id, [principal_id])
    await unassign_everything(connection, org_id, principal_id, now=now)
    await saved_view_repository.delete_private(connection, org_id, principal_id)


async def _remove_member(connection: AsyncConnection, org_id: str, principal_id: str, now: datetime) -> None:
    await end_membership(connection, org_id, principal_id, now)
    await user_store.leave_home(connection, principal_id, org_id)


async def _check_machine_limit(connection: AsyncConnection, org_id: str, owning_user_id: str, more: int) -> None:
    """Raises Conflict if `more` additional machines would exceed MAX_OWNED of a user. Machines owned by the user's
    machines count as well, because each of them could own as many again.
    """
    if await _count_machines(connection, org_id, owned_principals(owning_user_id)) + more > MAX_OWNED:
        raise Conflict(f"A user can own at most {MAX_OWNED} agents and services, directly or indirectly.")


async def _count_machines(
    connection: AsyncConnection, org_id: str, principal_ids: sa.Select[tuple[str]] | None = None
) -> int:
    """The number of agents and services in the organization, among these principals or (None) all."""
    statement = (
        sa.select(sa.func.count())
        .select_from(memberships.join(principals, principals.c.id == memberships.c.principal_id))
        .where(memberships.c.org_id == org_id, principals.c.kind != PrincipalKind.USER.value)
    )
    if principal_ids is not None:
        statement = statement.where(memberships.c.principal_id.in_(principal_ids))
    return await connection.scalar(statement) or 0


async def _require_other_administrators(
    connection: AsyncConnection, org_id: str, member: StoredMember, *, stays_admin: bool = False
) -> None:
    """Raises Conflict if no other owner, or no other administrator, would be left. While single sign-on is enforced,
    also raises it if no other owner would have a password.
    """
    if (
        member.role is Role.OWNER
        and await session_store.requires_sso(connection, org_id)
        and await session_store.find_break_glass(connection, org_id, besides=member.id) is None
    ):
        raise Conflict("While single sign-on is enforced, at least one owner with a password must remain.")
    if not await has_other_administrators(connection, org_id, member, stays_admin=stays_admin):
        what = "owner" if member.role is Role.OWNER else "administrator"
        raise Conflict(f"The last {what} cannot be removed or demoted.")


async def has_other_administrators(
    connection: AsyncConnection, org_id: str, member: StoredMember, *, stays_admin: bool = False
) -> bool:
    """Whether another owner, and another administrator, is left if the member is no longer an owner or (unless
    `stays_admin`) an administrator.
    """
    if member.role is Role.OWNER and await _count_others(connection, org_id, member, [Role.OWNER]) == 0:
        return False
    if member.role is not Role.ADMIN or stays_admin:
        return True
    return await _count_others(connection, org_id, member, [Role.OWNER, Role.ADMIN]) > 0


async def _count_others(connection: AsyncConnection, org_id: str, member: StoredMember, roles: list[Role]) -> int:
    """The number of other users who have one of the roles, are not disabled, and can authenticate."""
    statement = (
        sa.select(sa.func.count())
        .select_from(memberships.join(principals, principals.c.id == memberships.c.principal_id))
        .where(
            memberships.c.org_id == org_id,
            memberships.c.principal_id != member.id,
            memberships.c.role.in_([role.value for role in roles]),
            principals.c.kind == PrincipalKind.USER.value,
            principals.c.disabled_at.is_(None),
            _can_authenticate(org_id, organization_store.now()),
        )
    )
    return await connection.scalar(statement) or 0


def _can_authenticate(org_id: str, now: datetime) -> sa.ColumnElement[bool]:
    """Whether a user has a password, or a valid token with the scope to manage members."""
    unexpired = access_tokens.c.expires_at.is_(None) | (access_tokens.c.expires_at > now)
    manages_members = access_tokens.c.scopes.is_(None) | sa.cast(access_tokens.c.scopes, sa.Text).contains(
        f'"{Scope.MEMBERS_WRITE}"'
    )
    token = sa.exists().where(
        access_tokens.c.principal_id == principals.c.id,
        access_tokens.c.org_id == org_id,
        access_tokens.c.revoked_at.is_(None),
        unexpired,
        manages_members,
    )
    return token | sa.exists().where(users.c.principal_id == principals.c.id, users.c.password_hash.is_not(None))
