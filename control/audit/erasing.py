"""Erases the content of a deleted organization's audit events, and seals the chain.

An erased event keeps its number, time, action, the ids of principals, tokens and objects, and the hashes. It loses
`data`, the salt, the request id, which a client may have chosen, and an object id that Sluice did not generate.
"""

import hashlib
import re
from typing import Final, NamedTuple

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import Database
from control.audit.chain import SEAL_ACTION, ErasedEvent, remainder_line, seal_data
from control.audit.record import Actor, find_head, iter_chunks, record
from control.audit.tables import ERASED, audit_events, audit_heads

ERASURE_REQUEST_ID: Final = "(erasure)"  # of the seal, like `control.audit.record.COMMAND_REQUEST_ID`
_OWN_ID: Final = re.compile(r"[a-z]{3}_[0-9a-z]{26}|[1-9][0-9]{0,15}")  # a ULID with its prefix, a project id
_PRINCIPAL_ID: Final = re.compile(r"prn_[0-9a-z]{26}")


class ErasedBatch(NamedTuple):
    """Events that were erased: their number, the last of them, and the ids of the principals that they name."""

    events: int
    last_seq: int
    principal_ids: frozenset[str]


async def erase_events(connection: AsyncConnection, org_id: str, after: int, limit: int) -> ErasedBatch | None:
    """Erase at most `limit` events of a deleted organization after the event `after`, the oldest first. Returns None if
    all events are erased.
    """
    if await is_sealed(connection, org_id):
        return None
    columns = (audit_events.c.seq, audit_events.c.actor_id, audit_events.c.on_behalf_of, audit_events.c.object_id)
    statement = (
        sa.select(*columns)
        .where(audit_events.c.org_id == org_id, audit_events.c.seq > after, audit_events.c.erased.is_(sa.false()))
        .order_by(audit_events.c.seq)
        .limit(limit)
    )
    rows = (await connection.execute(statement)).all()
    if not rows:
        return None
    foreign = [row.seq for row in rows if _OWN_ID.fullmatch(row.object_id) is None]
    values = {
        "data": "{}",
        "request_id": ERASED,
        "salt": None,
        "erased": True,
        "object_id": sa.case((audit_events.c.seq.in_(foreign), ERASED), else_=audit_events.c.object_id),
    }
    of_org = (audit_events.c.org_id == org_id) & audit_events.c.seq.in_([row.seq for row in rows])
    await connection.execute(audit_events.update().where(of_org).values(values))
    named = {one for row in rows for one in (row.actor_id, row.on_behalf_of, row.object_id) if one is not None}
    principal_ids = frozenset(one for one in named if _PRINCIPAL_ID.fullmatch(one) is not None)
    return ErasedBatch(len(rows), rows[-1].seq, principal_ids)


async def seal(database: Database, org_id: str) -> bool:
    """Append the seal to a chain of erased events. False if some events are not erased yet. Idempotent."""
    events, digest = 0, hashlib.sha256()
    async for chunk in iter_chunks(database, org_id):
        for event in chunk:
            if isinstance(event, ErasedEvent):
                events += 1
                digest.update(remainder_line(event))
    async with database.write() as connection:
        if await is_sealed(connection, org_id):
            return True
        head = await find_head(connection, org_id)
        if head is None or head[0] != events:  # an event was appended meanwhile
            return False
        data = seal_data(events, digest.digest())
        await record(connection, Actor(org_id), SEAL_ACTION, org_id, data, ERASURE_REQUEST_ID)
        await connection.execute(audit_heads.update().where(audit_heads.c.org_id == org_id).values(sealed=True))
    return True


async def is_sealed(connection: AsyncConnection, org_id: str) -> bool:
    """Whether the chain has its seal, which is the last event and is not erased itself."""
    return bool(await connection.scalar(sa.select(audit_heads.c.sealed).where(audit_heads.c.org_id == org_id)))
