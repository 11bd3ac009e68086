"""Reads the audit: pages of a list, newest first, and walks of a chain from its start."""

from collections.abc import AsyncIterator
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.relational import Database, format_time
from control.audit.chain import Event
from control.audit.tables import audit_events, audit_heads

CHUNK: Final = 500  # events in memory at once while a chain is walked


@dataclass(frozen=True, slots=True, kw_only=True)
class Wanted:
    """Which events; None: any. `since` is in the window, `until` behind it. An `action` that ends in `.` stands for
    all that begin with it.
    """

    actor_id: str | None = None
    action: str | None = None
    object_id: str | None = None
    since: datetime | None = None
    until: datetime | None = None


async def list_events(
    connection: AsyncConnection, org_id: str, wanted: Wanted, before: int | None, limit: int
) -> list[Event]:
    """At most `limit` of them, newest first, from the first before the event number `before`."""
    page = sa.select(audit_events).where(audit_events.c.org_id == org_id, *_conditions(wanted))
    if before is not None:
        page = page.where(audit_events.c.seq < before)
    page = page.order_by(audit_events.c.seq.desc()).limit(limit)
    return [event(row) for row in (await connection.execute(page)).mappings()]


async def walk(database: Database, org_id: str, wanted: Wanted, after: int = 0) -> AsyncIterator[list[Event]]:
    """All of them behind the event number `after`, oldest first, CHUNK at a time and each chunk in a transaction of its
    own: what is added meanwhile is among them.
    """
    while True:
        async with database.read() as connection:
            chunk = await _chunk(connection, org_id, wanted, after)
        if chunk:
            after = chunk[-1].seq
            yield chunk
        if len(chunk) < CHUNK:
            return


async def head(connection: AsyncConnection, org_id: str) -> tuple[int, bytes] | None:
    """Number and hash of the last event; None where there is none."""
    found = sa.select(audit_heads.c.seq, audit_heads.c.hash).where(audit_heads.c.org_id == org_id)
    row = (await connection.execute(found)).one_or_none()
    return None if row is None else (row.seq, bytes(row.hash))


def event(row: sa.RowMapping) -> Event:
    """As it was hashed."""
    return Event(
        org_id=row["org_id"],
        seq=row["seq"],
        at=format_time(row["at"]),
        actor_principal_id=row["actor_id"],
        actor_kind=row["actor_kind"],
        on_behalf_of_principal_id=row["on_behalf_of"],
        act_chain=_decoded(row["act_chain"]),
        token_id=row["token_id"],
        action=row["action"],
        object_id=row["object_id"],
        data=_decoded(row["data"]),
        request_id=row["request_id"],
        prev_hash=bytes(row["prev_hash"]).hex(),
        hash=bytes(row["hash"]).hex(),
    )


def _decoded(text: str) -> Any:
    """Text that is no JSON any more is shown as it is: whoever checks the chain finds that it was altered."""
    try:
        return msgspec.json.decode(text)
    except msgspec.DecodeError:
        return text


async def _chunk(connection: AsyncConnection, org_id: str, wanted: Wanted, after: int) -> list[Event]:
    found = (
        sa.select(audit_events)
        .where(audit_events.c.org_id == org_id, audit_events.c.seq > after, *_conditions(wanted))
        .order_by(audit_events.c.seq)
        .limit(CHUNK)
    )
    return [event(row) for row in (await connection.execute(found)).mappings()]


def _conditions(wanted: Wanted) -> list[sa.ColumnElement[bool]]:
    conditions = []
    if wanted.actor_id is not None:
        conditions.append(audit_events.c.actor_id == wanted.actor_id)
    if wanted.action is not None:
        whole = not wanted.action.endswith(".")
        column = audit_events.c.action
        conditions.append(column == wanted.action if whole else column.startswith(wanted.action, autoescape=True))
    if wanted.object_id is not None:
        conditions.append(audit_events.c.object_id == wanted.object_id)
    if wanted.since is not None:
        conditions.append(audit_events.c.at >= wanted.since)
    if wanted.until is not None:
        conditions.append(audit_events.c.at < wanted.until)
    return conditions
