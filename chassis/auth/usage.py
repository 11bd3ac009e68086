"""The quota usage of organizations: the rows of `quota_usage`, which every gateway updates.

Each function runs inside its caller's transaction. Write transactions are serialized, so no other process can insert a
row between a function's read and its insert.
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
    """Items of each organization in the month, "2026-11"; organizations without a record are left out."""
    query = sa.select(quota_usage.c.org_id, _ITEMS).where(
        quota_usage.c.month == month, quota_usage.c.org_id.in_(org_ids)
    )
    return {row[0]: row[1] for row in await connection.execute(query)}


async def add_usage(connection: AsyncConnection, month: str, org_id: str, items: int) -> int:
    """Add to the items of the month; returns the new total."""
    return await _upsert(connection, month, org_id, items, {"items": _ITEMS + items})


async def set_usage_at_least(connection: AsyncConnection, month: str, org_id: str, items: int) -> int:
    """Raise the items of the month to at least this number; returns the new total."""
    higher = sa.case((_ITEMS < items, items), else_=_ITEMS)
    return await _upsert(connection, month, org_id, items, {"items": higher})


async def claim_recount(
    connection: AsyncConnection, month: str, org_id: str, now: datetime, older_than: timedelta
) -> bool:
    """Whether the caller must count the month's items in ClickHouse, because no recount started within `older_than`.
    Exactly one of several concurrent callers gets True.
    """
    now = to_milliseconds(now)
    await add_usage(connection, month, org_id, 0)  # ensures that the row exists
    due = quota_usage.c.counted_at.is_(None) | (quota_usage.c.counted_at <= now - older_than)
    claimed = await connection.execute(
        quota_usage.update()
        .where(quota_usage.c.month == month, quota_usage.c.org_id == org_id, due)
        .values(counted_at=now)
    )
    return claimed.rowcount == 1


async def list_project_ids(connection: AsyncConnection, org_id: str) -> list[int]:
    """The ids of all projects of the organization, ascending, including deleted projects, whose items still count for
    the month.
    """
    query = sa.select(projects.c.id).where(projects.c.org_id == org_id).order_by(projects.c.id)
    return list((await connection.scalars(query)).all())


async def _upsert(connection: AsyncConnection, month: str, org_id: str, items: int, values: dict[str, Any]) -> int:
    """Update the row, or insert the row with `items`. Returns the row's number of items."""
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
