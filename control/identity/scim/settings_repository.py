"""What an organization decides for its directory. Every function runs in the caller's transaction."""

from datetime import datetime

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import to_milliseconds
from control.identity.directory.tables import scim_settings


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
