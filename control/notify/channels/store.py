"""Channels in the database. Every function runs in the caller's transaction."""

import re
from collections.abc import Iterable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import new_id
from chassis.db.database import to_milliseconds
from chassis.errors import Conflict
from control.notify.channels.config import CONFIGS, Config, Kind
from control.notify.channels.tables import (
    ChannelEvent,
    DisabledReason,
    State,
    channel_subscriptions,
    deliveries,
    notification_channels,
)
from control.routing.resource import ids
from control.secrets.secret_box import SecretBox

MAX_CHANNELS: Final = 1_000  # per organization: one message may go to all of them

COLUMNS: Final = [
    notification_channels.c[name]
    for name in ("id", "org_id", "project_id", "name", "kind", "enabled", "created_at", "updated_at")
]
_CHANNEL_ID: Final = re.compile(ids("chn"))


@dataclass(frozen=True, slots=True)
class Channel:
    """A channel, without its config. `project_id`: None for a channel of the whole organization."""

    id: str
    org_id: str
    project_id: int | None
    name: str
    kind: Kind
    enabled: bool
    created_at: datetime
    updated_at: datetime


def is_channel_id(text: str) -> bool:
    """Whether the text has the format of a channel id. A body may contain characters that no database column
    accepts.
    """
    return _CHANNEL_ID.fullmatch(text) is not None


async def create(
    connection: AsyncConnection,
    secret_box: SecretBox,
    *,
    org_id: str,
    project_id: int | None,
    name: str,
    kind: Kind,
    config: Config,
    enabled: bool,
    created_by: str,
) -> Channel:
    """A new channel with an encrypted config. Raises Conflict when the organization has MAX_CHANNELS."""
    live = (notification_channels.c.org_id == org_id) & notification_channels.c.deleted_at.is_(None)
    if (await connection.scalar(sa.select(sa.func.count()).where(live)) or 0) >= MAX_CHANNELS:
        raise Conflict(f"The organization has {MAX_CHANNELS} channels, the maximum. Delete one first.")
    now = _now()
    channel = Channel(new_id("chn"), org_id, project_id, name, kind, enabled, now, now)
    row = {
        "id": channel.id,
        "org_id": org_id,
        "project_id": project_id,
        "name": name,
        "kind": kind.value,
        "enabled": enabled,
        "config": _encrypt_config(secret_box, org_id, channel.id, config),
        "created_by": created_by,
        "created_at": now,
        "updated_at": now,
    }
    await connection.execute(notification_channels.insert().values(row))
    return channel


async def find(connection: AsyncConnection, org_id: str, project_id: int, channel_id: str) -> Channel | None:
    """A channel visible in the project: a channel of the project, or of its organization."""
    statement = sa.select(*COLUMNS).where(notification_channels.c.id == channel_id, *_visible_from(org_id, project_id))
    row = (await connection.execute(statement)).mappings().one_or_none()
    return None if row is None else _channel(row)


async def change(
    connection: AsyncConnection,
    secret_box: SecretBox,
    channel: Channel,
    *,
    name: str | None = None,
    enabled: bool | None = None,
    config: Config | None = None,
) -> Channel:
    """Set the given values and return the changed channel. Disabling a channel cancels its waiting deliveries."""
    values: dict[str, Any] = {"updated_at": _now()}
    if name is not None:
        values["name"] = name
    if enabled is not None:
        values |= {"enabled": enabled, "off_reason": None, "failing_since": None}
    if config is not None:  # failures of the previous receiver do not count for the new one
        values |= {"off_reason": None, "failing_since": None}
        values["config"] = _encrypt_config(secret_box, channel.org_id, channel.id, config)
    where = notification_channels.c.id == channel.id
    await connection.execute(notification_channels.update().where(where).values(values))
    if enabled is False:
        await cancel_waiting(connection, channel.id, "The channel was disabled.")
    row = (await connection.execute(sa.select(*COLUMNS).where(where))).mappings().one()
    return _channel(row)


async def delete(connection: AsyncConnection, channel: Channel) -> None:
    """Erase the config and cancel waiting deliveries. The row is kept as long as deliveries reference it."""
    now = _now()
    await connection.execute(
        notification_channels.update()
        .where(notification_channels.c.id == channel.id)
        .values(config=None, enabled=False, deleted_at=now, updated_at=now)
    )
    await cancel_waiting(connection, channel.id, "The channel was deleted.")
    await purge_deleted(connection, 1, channel.id)


async def purge_deleted(connection: AsyncConnection, limit: int, channel_id: str | None = None) -> None:
    """Delete the rows of deleted channels, or of this channel, that no delivery references."""
    referenced = sa.exists().where(deliveries.c.channel_id == notification_channels.c.id)
    unused = sa.select(notification_channels.c.id).where(notification_channels.c.deleted_at.is_not(None), ~referenced)
    if channel_id is not None:
        unused = unused.where(notification_channels.c.id == channel_id)
    selected = notification_channels.c.id.in_(unused.limit(limit))
    await connection.execute(notification_channels.delete().where(selected))


async def disable(connection: AsyncConnection, channel_id: str, reason: DisabledReason) -> bool:
    """Disable a channel because of its receiver. Returns False if it is already disabled."""
    live = (notification_channels.c.id == channel_id) & notification_channels.c.enabled
    values = {"enabled": False, "off_reason": reason.value, "updated_at": _now()}
    changed = await connection.execute(notification_channels.update().where(live).values(values))
    if changed.rowcount != 1:
        return False
    await cancel_waiting(connection, channel_id, "The channel was disabled.")
    return True


async def cancel_waiting(connection: AsyncConnection, channel_id: str, detail: str) -> None:
    """Cancel the waiting deliveries of the channel. Attempts that have begun are finished."""
    where = (deliveries.c.channel_id == channel_id) & (deliveries.c.state == State.READY.value)
    values = {"state": State.CANCELLED.value, "next_at": None, "ended_at": _now(), "detail": detail}
    await connection.execute(deliveries.update().where(where).values(values))


async def resolve_targets(
    connection: AsyncConnection, org_id: str, *, channel_ids: Iterable[str] | None, project_id: int | None
) -> list[Channel]:
    """The channels with these ids anywhere in the organization. Without ids: the enabled channels that are visible in
    the project, or only the channels of the organization if `project_id` is None. Oldest first.
    """
    live = (notification_channels.c.org_id == org_id) & notification_channels.c.deleted_at.is_(None)
    statement = sa.select(*COLUMNS).where(live).order_by(notification_channels.c.id)
    if channel_ids is not None:
        statement = statement.where(notification_channels.c.id.in_(list(channel_ids)))
    else:
        statement = statement.where(*_visible_from(org_id, project_id), notification_channels.c.enabled)
    return [_channel(row) for row in (await connection.execute(statement)).mappings()]


async def resolve_subscribers(
    connection: AsyncConnection, org_id: str, project_id: int, events: Iterable[ChannelEvent]
) -> list[Channel]:
    """The enabled channels visible in the project that subscribe to one of the events, oldest first."""
    subscribed = sa.select(channel_subscriptions.c.channel_id).where(
        channel_subscriptions.c.org_id == org_id,
        channel_subscriptions.c.event.in_([event.value for event in events]),
    )
    statement = (
        sa.select(*COLUMNS)
        .where(
            notification_channels.c.id.in_(subscribed),
            *_visible_from(org_id, project_id),
            notification_channels.c.enabled,
        )
        .order_by(notification_channels.c.id)
    )
    return [_channel(row) for row in (await connection.execute(statement)).mappings()]


async def list_subscriptions(connection: AsyncConnection, channel_id: str) -> list[ChannelEvent]:
    """The events that a channel subscribes to, in the order of the enum."""
    columns = channel_subscriptions.c
    statement = sa.select(columns.event).where(columns.channel_id == channel_id)
    events = set((await connection.execute(statement)).scalars())
    return [event for event in ChannelEvent if event.value in events]


async def set_subscriptions(connection: AsyncConnection, channel: Channel, events: Iterable[ChannelEvent]) -> None:
    """Subscribe a channel to these events and no others."""
    where = channel_subscriptions.c.channel_id == channel.id
    await connection.execute(channel_subscriptions.delete().where(where))
    rows = [
        {"channel_id": channel.id, "event": event.value, "org_id": channel.org_id} for event in dict.fromkeys(events)
    ]
    if rows:
        await connection.execute(channel_subscriptions.insert(), rows)


def decrypt_config(secret_box: SecretBox, org_id: str, channel_id: str, kind: Kind, ciphertext: bytes) -> Config:
    """Decrypt the config of a row. Raises DecryptionError."""
    plain = secret_box.decrypt(ciphertext, **_encryption_context(org_id, channel_id))
    config: Config = msgspec.json.decode(plain, type=CONFIGS[kind])  # it was validated when it was stored
    return config


def _encrypt_config(secret_box: SecretBox, org_id: str, channel_id: str, config: Config) -> bytes:
    return secret_box.encrypt(msgspec.json.encode(config), **_encryption_context(org_id, channel_id))


def _encryption_context(org_id: str, channel_id: str) -> dict[str, str]:
    return {"table": notification_channels.name, "row": channel_id, "org": org_id, "column": "config"}


def _visible_from(org_id: str, project_id: int | None) -> tuple[sa.ColumnElement[bool], ...]:
    column = notification_channels.c.project_id
    return (
        notification_channels.c.org_id == org_id,
        column.is_(None) if project_id is None else column.is_(None) | (column == project_id),
        notification_channels.c.deleted_at.is_(None),
    )


def _channel(row: sa.RowMapping) -> Channel:
    return Channel(**{**row, "kind": Kind(row["kind"])})


def _now() -> datetime:
    return to_milliseconds(datetime.now(UTC))
