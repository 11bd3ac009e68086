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
from msgspec import UNSET, UnsetType
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import new_id, organizations
from chassis.errors import Conflict
from control.inbound.integrations.tables import (
    MAX_ERROR_LENGTH,
    DeliveryStatus,
    Integration,
    IntegrationConfig,
    IntegrationKind,
    WebhookEndpoint,
    inbound_deliveries,
    integrations,
)
from control.secrets.secret_box import SecretBox

MAX_INTEGRATIONS: Final = 200  # per organization
MAX_CANDIDATES: Final = 5  # webhooks for which a platform may use the same id; the signature decides
SECRET_BYTES: Final = 32

_SELECT: Final = sa.select(integrations, organizations.c.slug.label("org_slug")).join_from(
    integrations, organizations, organizations.c.id == integrations.c.org_id
)


def generate_secret(kind: IntegrationKind) -> str:
    """A new secret, in the form that the platform accepts."""
    if kind in (IntegrationKind.GENERIC, IntegrationKind.GITLAB):  # they sign with Standard Webhooks
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
    """Create an integration. Raises Conflict if the organization has MAX_INTEGRATIONS integrations."""
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
    statement = _SELECT.where(integrations.c.org_id == org_id, integrations.c.id == integration_id)
    row = (await connection.execute(statement)).mappings().one_or_none()
    return None if row is None else _integration(row)


async def get_integration(connection: AsyncConnection, org_id: str, integration_id: str) -> Integration:
    """The organization's integration with this id. Raises LookupError."""
    found = await find_integration(connection, org_id, integration_id)
    if found is None:
        raise LookupError(integration_id)
    return found


async def list_integrations(
    connection: AsyncConnection, before_id: str | None, limit: int, *, org_id: str
) -> list[Integration]:
    """List at most `limit` integrations, newest first, starting with the first integration older than `before_id`."""
    page = _SELECT.where(integrations.c.org_id == org_id).order_by(integrations.c.id.desc()).limit(limit)
    if before_id is not None:
        page = page.where(integrations.c.id < before_id)
    return [_integration(row) for row in (await connection.execute(page)).mappings()]


async def change_integration(
    connection: AsyncConnection,
    integration: Integration,
    *,
    now: datetime,
    name: str | UnsetType = UNSET,
    enabled: bool | UnsetType = UNSET,
    config: IntegrationConfig | UnsetType = UNSET,
    hook_id: str | UnsetType | None = UNSET,
) -> Integration:
    """Set the given values and return the changed integration."""
    given = {"name": name, "enabled": enabled, "config": config, "hook_id": hook_id}
    values = {column: msgspec.to_builtins(value) for column, value in given.items() if value is not UNSET}
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
    """Replace the secret. The previous secret is accepted until `previous_until`. None: it is no longer accepted."""
    previous: bytes | None = None
    if previous_until is not None:
        encrypted = await connection.scalar(sa.select(integrations.c.secret).where(integrations.c.id == integration.id))
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
    """Delete an integration with its events."""
    await connection.execute(integrations.delete().where(integrations.c.id == integration.id))


async def find_endpoint(
    connection: AsyncConnection, secret_box: SecretBox, integration_id: str, now: datetime
) -> WebhookEndpoint | None:
    """Find the enabled integration with this id, and its secrets."""
    endpoints = await _load_endpoints(connection, secret_box, integrations.c.id == integration_id, now)
    return endpoints[0] if endpoints else None


async def find_endpoints_by_hook_id(
    connection: AsyncConnection, secret_box: SecretBox, kind: IntegrationKind, hook_id: str, now: datetime
) -> list[WebhookEndpoint]:
    """Find the enabled integrations of this kind whose webhook has this id in the platform's header, at most
    MAX_CANDIDATES.
    """
    where = (integrations.c.hook_id == hook_id) & (integrations.c.kind == kind.value)
    return await _load_endpoints(connection, secret_box, where, now)


async def load_versions(connection: AsyncConnection, ids: Collection[str]) -> dict[str, int]:
    """Load the versions of the integrations that are enabled and whose organization is not deleted."""
    statement = (
        sa.select(integrations.c.id, integrations.c.version)
        .join(organizations, organizations.c.id == integrations.c.org_id)
        .where(integrations.c.id.in_(list(ids)), integrations.c.enabled, organizations.c.deleted_at.is_(None))
    )
    return {row.id: row.version for row in await connection.execute(statement)}


async def _load_endpoints(
    connection: AsyncConnection, secret_box: SecretBox, where: sa.ColumnElement[bool], now: datetime
) -> list[WebhookEndpoint]:
    statement = _SELECT.where(where, integrations.c.enabled, organizations.c.deleted_at.is_(None))
    rows = await connection.execute(statement.order_by(integrations.c.id).limit(MAX_CANDIDATES))
    return [WebhookEndpoint(_integration(row), tuple(_secrets(secret_box, row, now))) for row in rows.mappings()]


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
    values = {name: row[name] for name in Integration.__dataclass_fields__}
    config = msgspec.convert(row["config"], IntegrationConfig)
    return Integration(**values | {"kind": IntegrationKind(row["kind"]), "config": config})


def _encrypt(secret_box: SecretBox, org_id: str, integration_id: str, column: str, plain: bytes) -> bytes:
    return secret_box.encrypt(plain, table=integrations.name, row=integration_id, org=org_id, column=column)


def _decrypt(secret_box: SecretBox, org_id: str, integration_id: str, column: str, encrypted: bytes) -> bytes:
    return secret_box.decrypt(encrypted, table=integrations.name, row=integration_id, org=org_id, column=column)


MAX_STORED_BODY: Final = 256 * 1_024  # compressed; an event with a larger body cannot be processed again
_PIECE: Final = 64 * 1_024


@dataclass(frozen=True, slots=True)
class EventAttempt:
    """An attempt to apply a webhook event. `body`: packed by `pack_body`. `error`: why there is no `result`."""

    id: str
    is_new: bool
    integration: Integration
    key: str
    event: str
    body: bytes | None
    result: Mapping[str, Any] | None
    error: str | None


def new_event_id() -> str:
    """A new id for a received webhook event."""
    return new_id("ind")


def pack_body(secret_box: SecretBox, org_id: str, event_id: str, body: bytes) -> bytes | None:
    """Pack a body for storing. Returns None if it is too large."""
    packed = _compressed(body)
    if packed is None:
        return None
    return secret_box.encrypt(packed, table=inbound_deliveries.name, row=event_id, org=org_id, column="body")


def unpack_body(secret_box: SecretBox, event: Any) -> bytes:
    """The body of a stored event as it was received."""
    place = {"table": inbound_deliveries.name, "row": event.id, "org": event.org_id, "column": "body"}
    return zlib.decompress(secret_box.decrypt(event.body, **place))


async def find_events(connection: AsyncConnection, keys: Mapping[str, Collection[str]]) -> dict[tuple[str, str], Any]:
    """Find the `id`, `status` and `result` of events by (integration, key). `keys`: the keys, by integration."""
    columns = inbound_deliveries.c
    found: dict[tuple[str, str], Any] = {}
    for integration_id, of_integration in keys.items():
        known = sa.select(columns.delivery_key, columns.id, columns.status, columns.result)
        known = known.where(columns.integration_id == integration_id, columns.delivery_key.in_(list(of_integration)))
        found |= {(integration_id, row.delivery_key): row for row in (await connection.execute(known)).all()}
    return found


async def record_attempts(connection: AsyncConnection, attempts: Collection[EventAttempt], now: datetime) -> None:
    """Store the results of events."""
    new = [
        {
            "id": one.id,
            "org_id": one.integration.org_id,
            "integration_id": one.integration.id,
            "delivery_key": one.key,
            "body": one.body,
            "attempts": 1,
            "received_at": now,
            **_attempted(one, now),
        }
        for one in attempts
        if one.is_new
    ]
    if new:
        await connection.execute(inbound_deliveries.insert(), new)
    for one in attempts:
        if not one.is_new:
            await connection.execute(
                inbound_deliveries.update()
                .where(inbound_deliveries.c.id == one.id)
                .values(attempts=inbound_deliveries.c.attempts + 1, **_attempted(one, now))
            )


async def delete_events(connection: AsyncConnection, integration_id: str, limit: int) -> int:
    """Delete events of an integration. Returns their number."""
    some = sa.select(inbound_deliveries.c.id).where(inbound_deliveries.c.integration_id == integration_id).limit(limit)
    return (await connection.execute(inbound_deliveries.delete().where(inbound_deliveries.c.id.in_(some)))).rowcount


def _compressed(body: bytes) -> bytes | None:
    """The compressed body. Returns None as soon as it is too large, because compressing a body that hardly shrinks
    takes the most time.
    """
    compressor, packed, rest = zlib.compressobj(1), bytearray(), memoryview(body)
    while rest:
        packed += compressor.compress(rest[:_PIECE])
        rest = rest[_PIECE:]
        if len(packed) > MAX_STORED_BODY:
            return None
    packed += compressor.flush()
    return None if len(packed) > MAX_STORED_BODY else bytes(packed)


def _attempted(one: EventAttempt, now: datetime) -> dict[str, Any]:
    return {
        "event": one.event,
        "status": (DeliveryStatus.FAILED if one.result is None else DeliveryStatus.PROCESSED).value,
        "result": None if one.result is None else dict(one.result),
        "error": None if one.error is None else one.error[:MAX_ERROR_LENGTH],
        "processed_at": now,
    }
