"""How much of its month an organization has used: the rows of `quota_usage`, added to by every gateway.

Each function works within the transaction of its caller. Writers take turns, so a row that is not there when it is
looked for is not there when it is made.
"""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import projects, quota_usage
from chassis.db.database import to_milliseconds

_ITEMS: Final = quota_usage.c["items"]  # `.items` is a method of the collection


async def read_usage(connection: AsyncConnection, month: str, org_ids: Sequence[str]) -> dict[str, int]:
    """Items of each organization in the month, "2026-11"; without those of which nothing is recorded."""
    found = sa.select(quota_usage.c.org_id, _ITEMS).where(
        quota_usage.c.month == month, quota_usage.c.org_id.in_(org_ids)
    )
    return {row[0]: row[1] for row in await connection.execute(found)}


async def add_usage(connection: AsyncConnection, month: str, org_id: str, items: int) -> int:
    """The items of the month, with these."""
    return await _upsert(connection, month, org_id, items, {"items": _ITEMS + items})


async def set_usage_at_least(connection: AsyncConnection, month: str, org_id: str, items: int) -> int:
    """The items of the month, which are these at least."""
    higher = sa.case((_ITEMS < items, items), else_=_ITEMS)
    return await _upsert(connection, month, org_id, items, {"items": higher})


async def claim_recount(
    connection: AsyncConnection, month: str, org_id: str, now: datetime, older_than: timedelta
) -> bool:
    """Whether it is the caller's turn to count the month's items in the telemetry store, nobody having begun to for so
    long. Of several that ask at once one is told so.
    """
    now = to_milliseconds(now)
    await add_usage(connection, month, org_id, 0)  # there is a row from now on
    due = quota_usage.c.counted_at.is_(None) | (quota_usage.c.counted_at <= now - older_than)
    claimed = await connection.execute(
        quota_usage.update()
        .where(quota_usage.c.month == month, quota_usage.c.org_id == org_id, due)
        .values(counted_at=now)
    )
    return claimed.rowcount == 1


async def list_project_ids(connection: AsyncConnection, org_id: str) -> list[int]:
    """Every project of the organization."""
    found = sa.select(projects.c.id).where(projects.c.org_id == org_id).order_by(projects.c.id)
    return list((await connection.scalars(found)).all())


async def _upsert(connection: AsyncConnection, month: str, org_id: str, items: int, values: dict[str, Any]) -> int:
    """Update the row, or make it with `items`; what it has then."""
    changed = await connection.execute(
        quota_usage.update()
        .where(quota_usage.c.month == month, quota_usage.c.org_id == org_id)
        .values(values)
        .returning(_ITEMS)
    )
    total: int | None = changed.scalar_one_or_none()
    if total is None:
        await connection.execute(quota_usage.insert().values(org_id=org_id, month=month, items=items))
        total = items
    return total
