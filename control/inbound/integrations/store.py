"""Integrations and their webhook events in the database. Every function runs in the caller's transaction."""

import base64
import secrets
import zlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.id_generation import new_id
from chassis.auth.tables import organizations
from chassis.errors import Conflict
from control.inbound.integrations.tables import (
    MAX_ERROR_LENGTH,
    DeliveryStatus,
    Hook,
    Integration,
    IntegrationConfig,
    IntegrationKind,
    StoredWebhookEvent,
    inbound_deliveries,
    integrations,
)
from control.secrets.secret_box import SecretBox

MAX_INTEGRATIONS: Final = 200  # of an organization
MAX_CANDIDATES: Final = 5  # webhooks that a platform may name alike: the signature decides
SECRET_BYTES: Final = 32

_SELECT: Final = sa.select(integrations, organizations.c.slug.label("org_slug")).join_from(
    integrations, organizations, organizations.c.id == integrations.c.org_id
)


def generate_secret(kind: IntegrationKind) -> str:
    """A new secret, in the form that its platform takes."""
    if kind in (IntegrationKind.GENERIC, IntegrationKind.GITLAB):  # they sign by Standard Webhooks
        return "whsec_" + base64.b64encode(secrets.token_bytes(SECRET_BYTES)).decode("ascii")
    return secrets.token_urlsafe(SECRET_BYTES)


async def create_integration(
    connection: AsyncConnection,
    secret_box: SecretBox,
    *,
    org_id: str,
    kind: IntegrationKind,
    name: str,
    enabled: bool,
    config: IntegrationConfig,
    hook_id: str | None,
    secret: str,
    created_by: str,
    now: datetime,
) -> Integration:
    """A new integration. Raises Conflict when the organization has MAX_INTEGRATIONS."""
    count = sa.select(sa.func.count()).select_from(integrations).where(integrations.c.org_id == org_id)
    if (await connection.scalar(count) or 0) >= MAX_INTEGRATIONS:
        raise Conflict(f"The organization has {MAX_INTEGRATIONS} integrations, the maximum. Delete one first.")
    integration_id = new_id("int")
    row = {
        "id": integration_id,
        "org_id": org_id,
        "kind": kind.value,
        "name": name,
        "enabled": enabled,
        "config": msgspec.to_builtins(config),
        "hook_id": hook_id,
        "secret": _encrypt(secret_box, org_id, integration_id, "secret", secret.encode("utf-8")),
        "version": 1,
        "created_by": created_by,
        "created_at": now,
        "updated_at": now,
    }
    await connection.execute(integrations.insert().values(row))
    return await get_integration(connection, org_id, integration_id)


async def find_integration(connection: AsyncConnection, org_id: str, integration_id: str) -> Integration | None:
    """The organization's integration with this id."""
    found = _SELECT.where(integrations.c.org_id == org_id, integrations.c.id == integration_id)
    row = (await connection.execute(found)).mappings().one_or_none()
    return None if row is None else _integration(row)


async def get_integration(connection: AsyncConnection, org_id: str, integration_id: str) -> Integration:
    """The same. Raises LookupError."""
    found = await find_integration(connection, org_id, integration_id)
    if found is None:
        raise LookupError(integration_id)
    return found


async def list_integrations(
    connection: AsyncConnection, before_id: str | None, limit: int, *, org_id: str
) -> list[Integration]:
    """At most `limit` integrations, newest first, starting with the first one older than `before_id`."""
    page = _SELECT.where(integrations.c.org_id == org_id).order_by(integrations.c.id.desc()).limit(limit)
    if before_id is not None:
        page = page.where(integrations.c.id < before_id)
    return [_integration(row) for row in (await connection.execute(page)).mappings()]


async def change_integration(
    connection: AsyncConnection,
    integration: Integration,
    *,
    now: datetime,
    name: str | None = None,
    enabled: bool | None = None,
    config: IntegrationConfig | None = None,
    hook_id: str | msgspec.UnsetType | None = msgspec.UNSET,
) -> Integration:
    """Set the given values; returns the changed integration."""
    values: dict[str, Any] = {}
    if name is not None:
        values["name"] = name
    if enabled is not None:
        values["enabled"] = enabled
    if config is not None:
        values["config"] = msgspec.to_builtins(config)
    if hook_id is not msgspec.UNSET:
        values["hook_id"] = hook_id
    return await _change(connection, integration, values, now)


async def rotate_secret(
    connection: AsyncConnection,
    secret_box: SecretBox,
    integration: Integration,
    secret: str,
    *,
    previous_until: datetime | None,
    now: datetime,
) -> Integration:
    """Replace the secret. The one before is accepted until `previous_until`; None: no longer."""
    previous: bytes | None = None
    if previous_until is not None:
        stored = sa.select(integrations.c.secret).where(integrations.c.id == integration.id)
        encrypted = await connection.scalar(stored)
        if encrypted is None:
            raise LookupError(integration.id)
        plain = _decrypt(secret_box, integration.org_id, integration.id, "secret", encrypted)
        previous = _encrypt(secret_box, integration.org_id, integration.id, "previous_secret", plain)
    values = {
        "secret": _encrypt(secret_box, integration.org_id, integration.id, "secret", secret.encode("utf-8")),
        "previous_secret": previous,
        "previous_secret_until": previous_until,
    }
    return await _change(connection, integration, values, now)


async def delete_integration(connection: AsyncConnection, integration: Integration) -> None:
    """Delete an integration with its deliveries."""
    await connection.execute(integrations.delete().where(integrations.c.id == integration.id))


async def find_hook(
    connection: AsyncConnection, secret_box: SecretBox, integration_id: str, now: datetime
) -> Hook | None:
    """The enabled integration with this id, and its secrets."""
    hooks = await _load_hooks(connection, secret_box, integrations.c.id == integration_id, now)
    return hooks[0] if hooks else None


async def find_hooks_by_header(
    connection: AsyncConnection, secret_box: SecretBox, kind: IntegrationKind, hook_id: str, now: datetime
) -> list[Hook]:
    """The enabled integrations of this kind whose webhook the platform names so; at most MAX_CANDIDATES."""
    where = (integrations.c.hook_id == hook_id) & (integrations.c.kind == kind.value)
    return await _load_hooks(connection, secret_box, where, now)


async def load_versions(connection: AsyncConnection, ids: Collection[str]) -> dict[str, int]:
    """The versions of those integrations that are enabled, and whose organization is not deleted."""
    found = (
        sa.select(integrations.c.id, integrations.c.version)
        .join(organizations, organizations.c.id == integrations.c.org_id)
        .where(integrations.c.id.in_(list(ids)), integrations.c.enabled, organizations.c.deleted_at.is_(None))
    )
    return {row.id: row.version for row in await connection.execute(found)}


async def _load_hooks(
    connection: AsyncConnection, secret_box: SecretBox, where: sa.ColumnElement[bool], now: datetime
) -> list[Hook]:
    found = _SELECT.where(where, integrations.c.enabled, organizations.c.deleted_at.is_(None))
    rows = await connection.execute(found.order_by(integrations.c.id).limit(MAX_CANDIDATES))
    return [Hook(_integration(row), tuple(_secrets(secret_box, row, now))) for row in rows.mappings()]


def _secrets(secret_box: SecretBox, row: Any, now: datetime) -> Sequence[bytes]:
    found = [_decrypt(secret_box, row["org_id"], row["id"], "secret", row["secret"])]
    if row["previous_secret"] is not None and row["previous_secret_until"] > now:
        found.append(_decrypt(secret_box, row["org_id"], row["id"], "previous_secret", row["previous_secret"]))
    return found


async def _change(
    connection: AsyncConnection, integration: Integration, values: dict[str, Any], now: datetime
) -> Integration:
    values |= {"version": integrations.c.version + 1, "updated_at": now}
    await connection.execute(integrations.update().where(integrations.c.id == integration.id).values(values))
    return await get_integration(connection, integration.org_id, integration.id)


def _integration(row: Any) -> Integration:
    return Integration(
        id=row["id"],
        org_id=row["org_id"],
        org_slug=row["org_slug"],
        kind=IntegrationKind(row["kind"]),
        name=row["name"],
        enabled=row["enabled"],
        config=msgspec.convert(row["config"], IntegrationConfig),
        hook_id=row["hook_id"],
        version=row["version"],
        previous_secret_until=row["previous_secret_until"],
        created_by=row["created_by"],
        created_at=row["created_at"],
        updated_at=row["updated_at"],
    )


def _encrypt(secret_box: SecretBox, org_id: str, integration_id: str, column: str, plain: bytes) -> bytes:
    return secret_box.encrypt(plain, table=integrations.name, row=integration_id, org=org_id, column=column)


def _decrypt(secret_box: SecretBox, org_id: str, integration_id: str, column: str, encrypted: bytes) -> bytes:
    return secret_box.decrypt(encrypted, table=integrations.name, row=integration_id, org=org_id, column=column)


MAX_STORED_BODY: Final = 256 * 1_024  # compressed; a larger body cannot be redelivered
_PIECE: Final = 64 * 1_024
_EVENT_COLUMNS: Final = [
    inbound_deliveries.c[name]
    for name in (
        *("id", "integration_id", "delivery_key", "event", "status", "result", "error", "attempts"),
        *("received_at", "processed_at"),
    )
]


@dataclass(frozen=True, slots=True)
class EventAttempt:
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


def new_event_id() -> str:
    """The id of a delivery that is received."""
    return new_id("ind")


def pack_body(secret_box: SecretBox, org_id: str, delivery_id: str, body: bytes) -> bytes | None:
    """A body to store; None if it is too large."""
    packed = _compressed(body)
    if packed is None:
        return None
    return secret_box.encrypt(packed, table=inbound_deliveries.name, row=delivery_id, org=org_id, column="body")


async def find_events(
    connection: AsyncConnection, keys: Mapping[str, Collection[str]]
) -> dict[tuple[str, str], StoredWebhookEvent]:
    """Deliveries by (integration, key); `keys` are given by integration."""
    found: dict[tuple[str, str], StoredWebhookEvent] = {}
    for integration_id, of_integration in keys.items():
        where = (inbound_deliveries.c.integration_id == integration_id) & inbound_deliveries.c.delivery_key.in_(
            list(of_integration)
        )
        for row in (await connection.execute(_select_events().where(where))).mappings():
            delivery = _event(row)
            found[delivery.integration_id, delivery.delivery_key] = delivery
    return found


async def find_event(connection: AsyncConnection, integration_id: str, delivery_id: str) -> StoredWebhookEvent | None:
    """The integration's delivery with this id."""
    where = (inbound_deliveries.c.integration_id == integration_id) & (inbound_deliveries.c.id == delivery_id)
    row = (await connection.execute(_select_events().where(where))).mappings().one_or_none()
    return None if row is None else _event(row)


async def load_event_body(
    connection: AsyncConnection, secret_box: SecretBox, org_id: str, delivery_id: str
) -> bytes | None:
    """The body as it was received; None if it was not kept."""
    packed = await connection.scalar(sa.select(inbound_deliveries.c.body).where(inbound_deliveries.c.id == delivery_id))
    if packed is None:
        return None
    plain = secret_box.decrypt(packed, table=inbound_deliveries.name, row=delivery_id, org=org_id, column="body")
    return zlib.decompress(plain)


async def list_events(
    connection: AsyncConnection,
    before_id: str | None,
    limit: int,
    *,
    integration_id: str,
    status: DeliveryStatus | None,
) -> list[StoredWebhookEvent]:
    """At most `limit` deliveries, newest first, starting with the first one older than `before_id`."""
    page = _select_events().where(inbound_deliveries.c.integration_id == integration_id)
    if status is not None:
        page = page.where(inbound_deliveries.c.status == status.value)
    if before_id is not None:
        page = page.where(inbound_deliveries.c.id < before_id)
    rows = await connection.execute(page.order_by(inbound_deliveries.c.id.desc()).limit(limit))
    return [_event(row) for row in rows.mappings()]


async def record_attempts(connection: AsyncConnection, attempts: Sequence[EventAttempt], ids: Sequence[str]) -> None:
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
            **_attempted(one),
        }
        for one, delivery_id in zip(attempts, ids, strict=True)
        if one.id is None
    ]
    if new:
        await connection.execute(inbound_deliveries.insert(), new)
    for one in attempts:
        if one.id is not None:
            values = {"attempts": inbound_deliveries.c.attempts + 1, "event": one.event, **_attempted(one)}
            await connection.execute(
                inbound_deliveries.update().where(inbound_deliveries.c.id == one.id).values(values)
            )


async def delete_events(connection: AsyncConnection, integration_id: str, limit: int) -> int:
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


def _attempted(one: EventAttempt) -> dict[str, Any]:
    return {
        "status": one.status.value,
        "result": None if one.result is None else dict(one.result),
        "error": None if one.error is None else one.error[:MAX_ERROR_LENGTH],
        "processed_at": one.now,
    }


def _select_events() -> sa.Select[Any]:
    return sa.select(*_EVENT_COLUMNS, inbound_deliveries.c.body.is_not(None).label("has_body"))


def _event(row: Any) -> StoredWebhookEvent:
    return StoredWebhookEvent(**{**row, "status": DeliveryStatus(row["status"])})
