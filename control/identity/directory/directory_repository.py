"""A directory as a whole. Runs in the caller's transaction."""

from datetime import datetime
from typing import NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import memberships, users
from chassis.db.database import to_milliseconds
from control.identity.directory.tables import scim_groups, scim_tokens, scim_users


class DeletedDirectory(NamedTuple):
    """How many users and groups it had, tokens that were not revoked (expired ones included), and managed members."""

    users: int
    groups: int
    tokens: int
    members: int


async def delete(connection: AsyncConnection, org_id: str, now: datetime) -> DeletedDirectory:
    """Delete users and groups, revoke the tokens, release the members. Closes the accounts of deactivated users
    that are confined to the organization: nobody could let them in again.
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
    return DeletedDirectory(deleted.rowcount, groups.rowcount, revoked.rowcount, released.rowcount)
