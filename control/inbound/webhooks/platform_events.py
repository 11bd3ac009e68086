"""Events of platforms that serve the whole deployment (chats, payments): each is applied once."""

from collections.abc import Awaitable, Callable, Mapping
from datetime import datetime
from enum import StrEnum
from typing import Any, Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import metadata
from chassis.db.database import UtcTime, enum_check, text

MAX_EVENT_ID_LENGTH: Final = 255


class EventSource(StrEnum):
    """The platform that sent an event."""

    CHAT_A = "chat-a"
    CHAT_B = "chat-b"
    PAYMENTS = "payments"


platform_events: Final = sa.Table(
    "platform_events",
    metadata,
    sa.Column("source", text(16), primary_key=True),
    sa.Column("event_id", text(MAX_EVENT_ID_LENGTH), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id")),  # the organization that it concerns; NULL: none
    sa.Column("result", sa.JSON(none_as_null=True), nullable=False),  # the answer; a repetition gets it again
    sa.Column("received_at", UtcTime, nullable=False),
    enum_check("source", EventSource),
    sa.Index(None, "org_id"),
    sa.Index(None, "received_at"),
)


class EventResult(NamedTuple):
    """The result of an event: the answer, and the organization that the event concerns."""

    answer: Mapping[str, Any]
    org_id: str | None = None


class AppliedEvent(NamedTuple):
    """The answer. `duplicate`: the event was applied before, and nothing was changed now."""

    answer: Mapping[str, Any]
    duplicate: bool


async def apply_once(
    connection: AsyncConnection,
    source: EventSource,
    event_id: str,
    now: datetime,
    apply: Callable[[], Awaitable[EventResult]],
) -> AppliedEvent:
    """Apply an event in the caller's write transaction, or return the stored answer if it was applied before. Raises
    ValueError for an id that is too long.
    """
    stored = await find_answer(connection, source, event_id)
    if stored is not None:
        return AppliedEvent(stored, duplicate=True)
    return await store_answer(connection, source, event_id, now, await apply())


async def find_answer(connection: AsyncConnection, source: EventSource, event_id: str) -> Mapping[str, Any] | None:
    """Find the stored answer to the event. Raises ValueError for an id that is too long."""
    if not 1 <= len(event_id) <= MAX_EVENT_ID_LENGTH:
        raise ValueError("the id of the event is empty or too long")
    where = (platform_events.c.source == source.value) & (platform_events.c.event_id == event_id)
    answer: Mapping[str, Any] | None = await connection.scalar(sa.select(platform_events.c.result).where(where))
    return answer


async def store_answer(
    connection: AsyncConnection, source: EventSource, event_id: str, now: datetime, result: EventResult
) -> AppliedEvent:
    """Store the result of a new event."""
    row = {
        "source": source.value,
        "event_id": event_id,
        "org_id": result.org_id,
        "result": dict(result.answer),
        "received_at": now,
    }
    await connection.execute(platform_events.insert().values(row))
    return AppliedEvent(result.answer, duplicate=False)
