"""Reads the audit log: pages of a list, newest first, and complete chains from their start."""

from collections.abc import AsyncIterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import Database, format_time
from control.audit.chain import ErasedEvent, Event
from control.audit.tables import audit_events, audit_heads

CHUNK_SIZE: Final = 500  # events in memory at once while a chain is read


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Filters of events; None: any. `since` is inclusive, `until` exclusive. An `action` that ends in `.` is a
    prefix.
    """

    actor_id: str | None = None
    action: str | None = None
    object_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None


async def list_events(
    connection: AsyncConnection, org_id: str, event_filter: Wanted, before: int | None, limit: int
) -> list[Event]:
    """At most `limit` matching events, newest first, starting before the event number `before`."""
    conditions = [*_conditions(event_filter), *await _window_conditions(connection, org_id, event_filter)]
    if before is not None:
        conditions.append(audit_events.c.seq < before)
    found: list[Event] = []
    for action in await _action_conditions(connection, org_id, event_filter.action):
        page = sa.select(audit_events).where(audit_events.c.org_id == org_id, *action, *conditions)
        page = page.order_by(audit_events.c.seq.desc()).limit(limit)
        found += [event_from_row(row) for row in (await connection.execute(page)).mappings()]
    return sorted(found, key=lambda one: one.seq, reverse=True)[:limit]


async def iter_chunks(
    database: Database, org_id: str, event_filter: Wanted, after: int = 0, *, chunk_size: int | None = None
) -> AsyncIterator[list[Event]]:
    """All matching events after the event number `after`, oldest first, in chunks of `chunk_size` (None: CHUNK_SIZE).
    Each chunk is a transaction of its own, so events appended meanwhile are included.
    """
    limit = chunk_size or CHUNK_SIZE
    while True:
        async with database.read() as connection:
            window = await _window_conditions(connection, org_id, event_filter)
            chunk = await _read_chunk(connection, org_id, [*_conditions(event_filter), *window], after, limit)
        if chunk:
            after = chunk[-1].seq
            yield chunk
        if len(chunk) < limit:
            return


async def find_head(connection: AsyncConnection, org_id: str) -> tuple[int, bytes] | None:
    """Number and hash of the last event; None if there is none."""
    found = sa.select(audit_heads.c.seq, audit_heads.c.hash).where(audit_heads.c.org_id == org_id)
    row = (await connection.execute(found)).one_or_none()
    return None if row is None else (row.seq, bytes(row.hash))


def event_from_row(row: sa.RowMapping) -> Event:
    """The event as it was hashed, or what remains of it."""
    return (ErasedEvent if row["erased"] else Event)(
        org_id=row["org_id"],
        seq=row["seq"],
        at=format_time(row["at"]),
        actor_principal_id=row["actor_id"],
        actor_kind=row["actor_kind"],
        on_behalf_of_principal_id=row["on_behalf_of"],
        act_chain=_decode_json(row["act_chain"]),
        token_id=row["token_id"],
        action=row["action"],
        object_id=row["object_id"],
        data=_decode_json(row["data"]),
        request_id=row["request_id"],
        prev_hash=bytes(row["prev_hash"]).hex(),
        hash=bytes(row["hash"]).hex(),
        salt=msgspec.UNSET if row["salt"] is None else bytes(row["salt"]).hex(),
    )


def _decode_json(text: str) -> Any:
    """Text that is not JSON is returned as it is: verification then reports it as altered."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


async def _read_chunk(
    connection: AsyncConnection, org_id: str, conditions: Sequence[sa.ColumnElement[bool]], after: int, limit: int
) -> list[Event]:
    found = (
        sa.select(audit_events)
        .where(audit_events.c.org_id == org_id, audit_events.c.seq > after, *conditions)
        .order_by(audit_events.c.seq)
        .limit(limit)
    )
    return [event_from_row(row) for row in (await connection.execute(found)).mappings()]


def _conditions(event_filter: Wanted) -> list[sa.ColumnElement[bool]]:
    conditions = []
    if event_filter.actor_id is not None:
        conditions.append(audit_events.c.actor_id == event_filter.actor_id)
    if event_filter.object_id is not None:
        conditions.append(audit_events.c.object_id == event_filter.object_id)
    return conditions


async def _window_conditions(
    connection: AsyncConnection, org_id: str, event_filter: Wanted
) -> list[sa.ColumnElement[bool]]:
    """The time window as event numbers, the order in which events are read. An event is never earlier than the previous
    one (`record`), so a window is a contiguous part of the chain.
    """
    conditions = []
    of_org = sa.select(audit_events.c.seq).where(audit_events.c.org_id == org_id).limit(1)
    oldest_first = of_org.order_by(audit_events.c.at, audit_events.c.seq)
    if event_filter.since is not None:
        first = await connection.scalar(oldest_first.where(audit_events.c.at >= event_filter.since))
        conditions.append(sa.false() if first is None else audit_events.c.seq >= first)
    if event_filter.until is not None:
        end = await connection.scalar(oldest_first.where(audit_events.c.at >= event_filter.until))
        conditions += [] if end is None else [audit_events.c.seq < end]
    return conditions


async def _action_conditions(
    connection: AsyncConnection, org_id: str, action: str | None
) -> list[list[sa.ColumnElement[bool]]]:
    """One condition per matching action: an index has the events of one action in order, but not those of several.
    There are a few dozen actions, found by skipping through that index.
    """
    if action is None:
        return [[]]
    column = audit_events.c.action
    if not action.endswith("."):
        return [[column == action]]
    next_action = sa.select(sa.func.min(column)).where(
        audit_events.c.org_id == org_id, column < f"{action[:-1]}/"
    )  # `/` is the next character after `.`
    found: list[str] = []
    name = await connection.scalar(next_action.where(column > action))
    while name is not None:
        found.append(name)
        name = await connection.scalar(next_action.where(column > name))
    return [[column == one] for one in found]
