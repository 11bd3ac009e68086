"""Deliveries that integrations have received. Every function runs in the caller's transaction."""

import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.id_generation import new_id
from control.inbound.integrations.model import DeliveryStatus, StoredInboundDelivery
from control.inbound.integrations.tables import MAX_ERROR_LENGTH, inbound_deliveries
from control.secrets.secret_box import SecretBox

MAX_STORED_BODY: Final = 256 * 1_024  # compressed; a larger body cannot be redelivered
_PIECE: Final = 64 * 1_024
_COLUMNS: Final = [
    inbound_deliveries.c[name]
    for name in (
        *("id", "integration_id", "delivery_key", "event", "status", "result", "error", "attempts"),
        *("received_at", "processed_at"),
    )
]


@dataclass(frozen=True, slots=True)
class DeliveryAttempt:
    """One attempt to process a delivery. `id` None: the first."""

    id: str | None
    org_id: str
    integration_id: str
    delivery_key: str
    event: str
    status: DeliveryStatus
    result: Mapping[str, Any] | None
    error: str | None
    body: bytes | None  # as `pack_body` made it
    now: datetime


def new_delivery_id() -> str:
    """The id of a delivery that is received."""
    return new_id("ind")


def pack_body(secret_box: SecretBox, org_id: str, delivery_id: str, body: bytes) -> bytes | None:
    """A body to store; None if it is too large."""
    packed = _compressed(body)
    if packed is None:
        return None
    return secret_box.encrypt(packed, table=inbound_deliveries.name, row=delivery_id, org=org_id, column="body")


async def find_by_keys(
    connection: AsyncConnection, keys: Mapping[str, Collection[str]]
) -> dict[tuple[str, str], StoredInboundDelivery]:
    """Deliveries by (integration, key); `keys` are given by integration."""
    found: dict[tuple[str, str], StoredInboundDelivery] = {}
    for integration_id, of_integration in keys.items():
        where = (inbound_deliveries.c.integration_id == integration_id) & inbound_deliveries.c.delivery_key.in_(
            list(of_integration)
        )
        for row in (await connection.execute(_select().where(where))).mappings():
            delivery = _delivery(row)
            found[delivery.integration_id, delivery.delivery_key] = delivery
    return found


async def find(connection: AsyncConnection, integration_id: str, delivery_id: str) -> StoredInboundDelivery | None:
    """The integration's delivery with this id."""
    where = (inbound_deliveries.c.integration_id == integration_id) & (inbound_deliveries.c.id == delivery_id)
    row = (await connection.execute(_select().where(where))).mappings().one_or_none()
    return None if row is None else _delivery(row)


async def load_body(connection: AsyncConnection, secret_box: SecretBox, org_id: str, delivery_id: str) -> bytes | None:
    """The body as it was received; None if it was not kept."""
    packed = await connection.scalar(sa.select(inbound_deliveries.c.body).where(inbound_deliveries.c.id == delivery_id))
    if packed is None:
        return None
    plain = secret_box.decrypt(packed, table=inbound_deliveries.name, row=delivery_id, org=org_id, column="body")
    return zlib.decompress(plain)


async def list_deliveries(
    connection: AsyncConnection,
    before_id: str | None,
    limit: int,
    *,
    integration_id: str,
    status: DeliveryStatus | None,
) -> list[StoredInboundDelivery]:
    """At most `limit` deliveries, newest first, starting with the first one older than `before_id`."""
    page = _select().where(inbound_deliveries.c.integration_id == integration_id)
    if status is not None:
        page = page.where(inbound_deliveries.c.status == status.value)
    if before_id is not None:
        page = page.where(inbound_deliveries.c.id < before_id)
    rows = await connection.execute(page.order_by(inbound_deliveries.c.id.desc()).limit(limit))
    return [_delivery(row) for row in rows.mappings()]


async def store(connection: AsyncConnection, attempts: Sequence[DeliveryAttempt], ids: Sequence[str]) -> None:
    """Store what became of deliveries. `ids`: of the attempts, new or known."""
    new = [
        {
            "id": delivery_id,
            "org_id": one.org_id,
            "integration_id": one.integration_id,
            "delivery_key": one.delivery_key,
            "event": one.event,
            "body": one.body,
            "attempts": 1,
            "received_at": one.now,
            **_outcome(one),
        }
        for one, delivery_id in zip(attempts, ids, strict=True)
        if one.id is None
    ]
    if new:
        await connection.execute(inbound_deliveries.insert(), new)
    for one in attempts:
        if one.id is not None:
            values = {"attempts": inbound_deliveries.c.attempts + 1, "event": one.event, **_outcome(one)}
            await connection.execute(
                inbound_deliveries.update().where(inbound_deliveries.c.id == one.id).values(values)
            )


async def delete_some(connection: AsyncConnection, integration_id: str, limit: int) -> int:
    """Delete deliveries of an integration; returns how many."""
    some = sa.select(inbound_deliveries.c.id).where(inbound_deliveries.c.integration_id == integration_id).limit(limit)
    return (await connection.execute(inbound_deliveries.delete().where(inbound_deliveries.c.id.in_(some)))).rowcount


async def list_crowded(connection: AsyncConnection, kept: int) -> list[str]:
    """The integrations that have more than so many deliveries."""
    integration_id = inbound_deliveries.c.integration_id
    counted = sa.select(integration_id).group_by(integration_id).having(sa.func.count() > kept)
    return list((await connection.execute(counted.order_by(integration_id))).scalars())


async def find_last_kept(connection: AsyncConnection, integration_id: str, kept: int) -> str | None:
    """The oldest of so many newest deliveries of an integration; None if it has fewer."""
    newest = sa.select(inbound_deliveries.c.id).where(inbound_deliveries.c.integration_id == integration_id)
    return await connection.scalar(newest.order_by(inbound_deliveries.c.id.desc()).offset(kept - 1).limit(1))


async def delete_older(connection: AsyncConnection, integration_id: str, than_id: str, limit: int) -> int:
    """Delete deliveries of an integration that are older than this one; returns how many."""
    found = sa.select(inbound_deliveries.c.id).where(is_older(integration_id, than_id)).limit(limit)
    return (await connection.execute(inbound_deliveries.delete().where(inbound_deliveries.c.id.in_(found)))).rowcount


async def drop_older_bodies(connection: AsyncConnection, integration_id: str, than_id: str, limit: int) -> int:
    """Delete bodies of deliveries of an integration that are older than this one; returns of how many."""
    where = is_older(integration_id, than_id) & inbound_deliveries.c.body.is_not(None)
    found = sa.select(inbound_deliveries.c.id).where(where).limit(limit)
    changed = inbound_deliveries.update().where(inbound_deliveries.c.id.in_(found)).values(body=None)
    return (await connection.execute(changed)).rowcount


async def list_heavy(connection: AsyncConnection, max_bytes: int) -> list[str]:
    """The organizations whose stored bodies have more bytes."""
    size = sa.func.sum(sa.func.length(inbound_deliveries.c.body))
    heavy = sa.select(inbound_deliveries.c.org_id).group_by(inbound_deliveries.c.org_id).having(size > max_bytes)
    return list((await connection.execute(heavy.order_by(inbound_deliveries.c.org_id))).scalars())


async def find_newest_surplus(connection: AsyncConnection, org_id: str, max_bytes: int) -> str | None:
    """The newest delivery of an organization whose body, with all newer ones, has more bytes; None if none has."""
    newest_first = inbound_deliveries.c.id.desc()
    size = sa.func.sum(sa.func.length(inbound_deliveries.c.body)).over(order_by=newest_first)
    sized = sa.select(inbound_deliveries.c.id, size.label("size")).where(has_body(org_id)).subquery()
    surplus = sa.select(sized.c.id).where(sized.c.size > max_bytes).order_by(sized.c.id.desc()).limit(1)
    return await connection.scalar(surplus)


async def drop_bodies(connection: AsyncConnection, org_id: str, up_to_id: str, limit: int) -> int:
    """Delete bodies of an organization up to this delivery; returns of how many."""
    where = has_body(org_id) & (inbound_deliveries.c.id <= up_to_id)
    found = sa.select(inbound_deliveries.c.id).where(where).limit(limit)
    changed = inbound_deliveries.update().where(inbound_deliveries.c.id.in_(found)).values(body=None)
    return (await connection.execute(changed)).rowcount


def has_body(org_id: str) -> sa.ColumnElement[bool]:
    """The condition that a delivery is one of this organization, and stored with its body."""
    return (inbound_deliveries.c.org_id == org_id) & inbound_deliveries.c.body.is_not(None)


def is_older(integration_id: str, than_id: str) -> sa.ColumnElement[bool]:
    """The condition that a delivery is one of this integration, and older than this one."""
    return (inbound_deliveries.c.integration_id == integration_id) & (inbound_deliveries.c.id < than_id)


async def delete_before(connection: AsyncConnection, time: datetime, limit: int) -> int:
    """Delete deliveries that were received earlier; returns how many."""
    old = sa.select(inbound_deliveries.c.id).where(inbound_deliveries.c.received_at < time).limit(limit)
    return (await connection.execute(inbound_deliveries.delete().where(inbound_deliveries.c.id.in_(old)))).rowcount


def _compressed(body: bytes) -> bytes | None:
    """None as soon as it is too large: a body that cannot be compressed costs the most time."""
    compressor, packed, rest = zlib.compressobj(1), bytearray(), memoryview(body)
    while rest:
        packed += compressor.compress(rest[:_PIECE])
        rest = rest[_PIECE:]
        if len(packed) > MAX_STORED_BODY:
            return None
    packed += compressor.flush()
    return None if len(packed) > MAX_STORED_BODY else bytes(packed)


def _outcome(one: DeliveryAttempt) -> dict[str, Any]:
    return {
        "status": one.status.value,
        "result": None if one.result is None else dict(one.result),
        "error": None if one.error is None else one.error[:MAX_ERROR_LENGTH],
        "processed_at": one.now,
    }


def _select() -> sa.Select[Any]:
    return sa.select(*_COLUMNS, inbound_deliveries.c.body.is_not(None).label("has_body"))


def _delivery(row: Any) -> StoredInboundDelivery:
    return StoredInboundDelivery(**{**row, "status": DeliveryStatus(row["status"])})
