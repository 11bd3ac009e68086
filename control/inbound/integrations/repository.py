"""Integrations in the database. Every function runs in the caller's transaction."""

import base64
import secrets
from collections.abc import Collection, Sequence
from datetime import datetime
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.id_generation import new_id
from chassis.auth.tables import organizations
from chassis.errors import Conflict
from control.inbound.integrations.model import Hook, Integration, IntegrationConfig, IntegrationKind
from control.inbound.integrations.tables import integrations
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


async def create(
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
    return await get(connection, org_id, integration_id)


async def find(connection: AsyncConnection, org_id: str, integration_id: str) -> Integration | None:
    """The organization's integration with this id."""
    found = _SELECT.where(integrations.c.org_id == org_id, integrations.c.id == integration_id)
    row = (await connection.execute(found)).mappings().one_or_none()
    return None if row is None else _integration(row)


async def get(connection: AsyncConnection, org_id: str, integration_id: str) -> Integration:
    """The same. Raises LookupError."""
    found = await find(connection, org_id, integration_id)
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


async def change(
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


async def rotate(
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


async def delete(connection: AsyncConnection, integration: Integration) -> None:
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
    return await get(connection, integration.org_id, integration.id)


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
