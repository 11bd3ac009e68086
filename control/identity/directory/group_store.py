"""Groups that a directory has provisioned, and their members. Also deletes a directory as a whole.

Every function runs in the caller's transaction and sees one organization.
"""

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import memberships, users
from chassis.db.database import to_milliseconds
from control.identity.directory.tables import scim_group_members, scim_groups, scim_tokens, scim_users
from control.identity.directory.user_store import batches, fold, rows_of


@dataclass(frozen=True, slots=True)
class ProvisionedGroup:
    """A group as the directory describes it, without its members."""

    id: str
    org_id: str
    display_name: str
    external_id: str | None
    version: int
    created_at: datetime
    updated_at: datetime


_GROUPS: Final = sa.select(*(scim_groups.c[name] for name in ProvisionedGroup.__slots__))


async def find(connection: AsyncConnection, org_id: str, group_id: str) -> ProvisionedGroup | None:
    """The group with this id."""
    statement = _GROUPS.where(scim_groups.c.org_id == org_id, scim_groups.c.id == group_id)
    row = (await connection.execute(statement)).mappings().one_or_none()
    return None if row is None else ProvisionedGroup(**row)


async def count(connection: AsyncConnection, org_id: str, where: sa.ColumnElement[bool] | None = None) -> int:
    """The number of groups of the organization, or (`where`) of the matching groups."""
    statement = sa.select(sa.func.count()).select_from(scim_groups).where(scim_groups.c.org_id == org_id)
    return await connection.scalar(statement if where is None else statement.where(where)) or 0


async def list_groups(connection: AsyncConnection, page: sa.Select[Any]) -> list[ProvisionedGroup]:
    """The groups that a statement over `scim_groups.c.id` selects, in its order."""
    ids = list((await connection.scalars(page)).all())
    found = {row.id: ProvisionedGroup(*row) for row in await rows_of(connection, _GROUPS, scim_groups.c.id, ids)}
    return [found[one] for one in ids]


async def insert(connection: AsyncConnection, group: ProvisionedGroup) -> None:
    """Store a new, empty group."""
    await connection.execute(scim_groups.insert().values(_row(group)))


async def update(connection: AsyncConnection, group: ProvisionedGroup, now: datetime) -> ProvisionedGroup:
    """Store a changed group, as its next version."""
    changed = replace(group, version=group.version + 1, updated_at=now)
    await connection.execute(scim_groups.update().where(scim_groups.c.id == group.id).values(_row(changed)))
    return changed


async def delete(connection: AsyncConnection, group_id: str) -> None:
    """Delete the group. Its members stay."""
    await connection.execute(scim_groups.delete().where(scim_groups.c.id == group_id))


async def list_member_ids(connection: AsyncConnection, group_id: str) -> set[str]:
    """The ids of the users in the group."""
    statement = sa.select(scim_group_members.c.user_id).where(scim_group_members.c.group_id == group_id)
    return set((await connection.scalars(statement)).all())


async def count_members(connection: AsyncConnection, group_ids: Sequence[str]) -> dict[str, int]:
    """The number of users in each of these groups, by group."""
    members = scim_group_members.c
    counted = sa.select(members.group_id, sa.func.count().label("members")).group_by(members.group_id)
    found = await rows_of(connection, counted, members.group_id, group_ids)
    return dict.fromkeys(group_ids, 0) | {row.group_id: row.members for row in found}


async def find_members(connection: AsyncConnection, group_id: str, user_ids: Collection[str]) -> set[str]:
    """The ids among `user_ids` that are in the group."""
    statement = sa.select(scim_group_members.c.user_id).where(scim_group_members.c.group_id == group_id)
    return {row.user_id for row in await rows_of(connection, statement, scim_group_members.c.user_id, user_ids)}


async def add_members(connection: AsyncConnection, group: ProvisionedGroup, user_ids: Collection[str]) -> None:
    """Add users who are not in the group yet."""
    rows = [{"group_id": group.id, "user_id": one, "org_id": group.org_id} for one in sorted(user_ids)]
    if rows:
        await connection.execute(scim_group_members.insert(), rows)


async def remove_members(connection: AsyncConnection, group_id: str, user_ids: Collection[str]) -> None:
    """Remove users from the group."""
    for part in batches(sorted(user_ids)):
        await connection.execute(
            scim_group_members.delete().where(
                scim_group_members.c.group_id == group_id, scim_group_members.c.user_id.in_(part)
            )
        )


async def list_group_ids(connection: AsyncConnection, user_id: str) -> set[str]:
    """The ids of the groups that the user is in."""
    statement = sa.select(scim_group_members.c.group_id).where(scim_group_members.c.user_id == user_id)
    return set((await connection.scalars(statement)).all())


async def touch(connection: AsyncConnection, group_ids: Collection[str], now: datetime) -> None:
    """Give groups the next version, because their members have changed."""
    for part in batches(sorted(group_ids)):
        changed = scim_groups.update().where(scim_groups.c.id.in_(part))
        await connection.execute(changed.values(version=scim_groups.c.version + 1, updated_at=now))


def _row(group: ProvisionedGroup) -> dict[str, Any]:
    row = {name: getattr(group, name) for name in ProvisionedGroup.__slots__}
    return row | {"display_name_folded": fold(group.display_name)}


async def delete_directory(connection: AsyncConnection, org_id: str, now: datetime) -> tuple[int, int, int, int]:
    """Delete users and groups, revoke the tokens, and make the managed members ordinary members. Closes the accounts of
    deactivated users that are confined to the organization, because no invitation could let them in again. Returns the
    numbers of users, of groups, of tokens that were not revoked before (expired ones included), and of managed members.
    """
    now = to_milliseconds(now)
    is_unrevoked = (scim_tokens.c.org_id == org_id) & (
        scim_tokens.c.revoked_at.is_(None) | (scim_tokens.c.revoked_at > now)
    )
    revoked = await connection.execute(scim_tokens.update().where(is_unrevoked).values(revoked_at=now))
    managed = (memberships.c.org_id == org_id) & memberships.c.managed
    released = await connection.execute(memberships.update().where(managed).values(managed=False))
    members = sa.select(memberships.c.principal_id).where(memberships.c.org_id == org_id)
    deactivated = sa.select(scim_users.c.principal_id).where(
        scim_users.c.org_id == org_id,
        scim_users.c.principal_id.is_not(None),
        scim_users.c.principal_id.not_in(members),
    )
    confined = users.c.principal_id.in_(deactivated) & (users.c.home_org_id == org_id)
    await connection.execute(users.update().where(confined).values(home_org_id=None))
    groups = await connection.execute(scim_groups.delete().where(scim_groups.c.org_id == org_id))
    deleted = await connection.execute(scim_users.delete().where(scim_users.c.org_id == org_id))
    return deleted.rowcount, groups.rowcount, revoked.rowcount, released.rowcount
