"""How many deliveries the store keeps of an organization, and how those that ended are forgotten.

Every function works in the caller's transaction.
"""

from typing import Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from control.channels.delivery_tables import TERMINAL_STATES, deliveries, delivery_messages

MAX_DELIVERIES: Final = 20_000  # of an organization, whatever has become of them


async def ensure_capacity(connection: AsyncConnection, org_id: str, requested: int) -> int:
    """How many of `wanted` further deliveries the organization may have. Where it has MAX_DELIVERIES, those that ended
    and are oldest are forgotten for them; what has not ended stays.
    """
    number = await connection.scalar(sa.select(sa.func.count()).where(deliveries.c.org_id == org_id)) or 0
    free = MAX_DELIVERIES - number
    if free < requested:
        free += await delete_deliveries(connection, _oldest_ended(org_id, requested - free))
    return max(0, min(free, requested))


async def delete_deliveries(connection: AsyncConnection, ids: sa.Select[str]) -> int:
    """Remove these deliveries, and the messages that are of no other; how many deliveries there were."""
    removed = deliveries.delete().where(deliveries.c.id.in_(ids)).returning(deliveries.c.message_id)
    message_ids = list(await connection.scalars(removed))
    if message_ids:
        named = sa.exists().where(deliveries.c.message_id == delivery_messages.c.id)
        unused = delivery_messages.c.id.in_(set(message_ids)) & ~named
        await connection.execute(delivery_messages.delete().where(unused))
    return len(message_ids)


def _oldest_ended(org_id: str, limit: int) -> sa.Select[str]:
    """Ids of deliveries, by an index of each state."""
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
