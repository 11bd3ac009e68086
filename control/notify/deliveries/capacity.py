"""Limits how many deliveries of an organization are stored, and deletes those that have ended.

Every function runs in the caller's transaction.
"""

from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from control.notify.channels.delivery_tables import TERMINAL_STATES, deliveries, delivery_messages

MAX_DELIVERIES: Final = 20_000  # of an organization, in every state


async def ensure_capacity(connection: AsyncConnection, org_id: str, requested: int) -> int:
    """How many of `requested` further deliveries the organization may have. At MAX_DELIVERIES, the oldest ended
    deliveries are deleted to make room; deliveries that have not ended stay.
    """
    number = await connection.scalar(sa.select(sa.func.count()).where(deliveries.c.org_id == org_id)) or 0
    free = MAX_DELIVERIES - number
    if free < requested:
        free += await delete_deliveries(connection, _oldest_ended(org_id, requested - free))
    return max(0, min(free, requested))


async def delete_deliveries(connection: AsyncConnection, ids: sa.Select[str]) -> int:
    """Delete these deliveries, and messages that no other delivery uses. Returns the number of deliveries."""
    removed = deliveries.delete().where(deliveries.c.id.in_(ids)).returning(deliveries.c.message_id)
    message_ids = list(await connection.scalars(removed))
    if message_ids:
        referenced = sa.exists().where(deliveries.c.message_id == delivery_messages.c.id)
        unused = delivery_messages.c.id.in_(set(message_ids)) & ~referenced
        await connection.execute(delivery_messages.delete().where(unused))
    return len(message_ids)


def _oldest_ended(org_id: str, limit: int) -> sa.Select[str]:
    """Ids of the oldest ended deliveries; reads an index per state."""
    found = [
        sa.select(deliveries.c.id)
        .where(deliveries.c.org_id == org_id, deliveries.c.state == state.value)
        .order_by(deliveries.c.id)
        .limit(limit)
        .subquery()
        for state in TERMINAL_STATES
    ]
    ended = sa.union_all(*(one.select() for one in found)).subquery("ended")
    return sa.select(ended.c.id).order_by(ended.c.id).limit(limit)
