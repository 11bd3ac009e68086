"""Events of platforms that serve the whole deployment (chats, payments): each is applied once."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from typing import Any, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from control.inbound.webhooks.tables import MAX_EVENT_ID_LENGTH, EventSource, platform_events


class EventResult(NamedTuple):
    """What an event did: the answer, and the organization that it concerns."""

    answer: Mapping[str, Any]
    org_id: str | None = None


class AppliedEvent(NamedTuple):
    """The answer. `duplicate`: the event was applied before, and nothing has changed."""

    answer: Mapping[str, Any]
    duplicate: bool


async def apply_once(
    connection: AsyncConnection,
    source: EventSource,
    event_id: str,
    now: datetime,
    apply: Callable[[], Awaitable[EventResult]],
) -> AppliedEvent:
    """Apply an event in the caller's write transaction, or answer what it was answered before. Raises ValueError for an
    id that is too long.
    """
    if not 1 <= len(event_id) <= MAX_EVENT_ID_LENGTH:
        raise ValueError("the id of the event has a length that no platform gives it")
    where = (platform_events.c.source == source.value) & (platform_events.c.event_id == event_id)
    stored = await connection.scalar(sa.select(platform_events.c.result).where(where))
    if stored is not None:
        return AppliedEvent(stored, duplicate=True)
    result = await apply()
    row = {
        "source": source.value,
        "event_id": event_id,
        "org_id": result.org_id,
        "result": dict(result.answer),
        "received_at": now,
    }
    await connection.execute(platform_events.insert().values(row))
    return AppliedEvent(result.answer, duplicate=False)


async def was_applied(connection: AsyncConnection, source: EventSource, event_id: str) -> bool:
    """Whether the event was applied before."""
    where = (platform_events.c.source == source.value) & (platform_events.c.event_id == event_id)
    return await connection.scalar(sa.select(platform_events.c.event_id).where(where)) is not None


async def delete_before(connection: AsyncConnection, source: EventSource, time: datetime, limit: int) -> int:
    """Delete events that were received earlier; returns how many."""
    where = (platform_events.c.source == source.value) & (platform_events.c.received_at < time)
    old = sa.select(platform_events.c.event_id).where(where).limit(limit)
    found = platform_events.delete().where(
        platform_events.c.source == source.value, platform_events.c.event_id.in_(old)
    )
    return (await connection.execute(found)).rowcount
