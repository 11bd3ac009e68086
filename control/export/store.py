"""Sinks in the database, and the lease with which one exporter at a time works on a sink. Every function runs in the
caller's transaction.
"""

from collections.abc import Collection, Mapping, Sequence
from datetime import datetime, timedelta
from types import MappingProxyType
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import new_id, organizations
from chassis.errors import Conflict
from control.export.model import BigQueryConfig, BlobstoreConfig, Sink, SinkConfig, SinkKind, SnowflakeConfig, Stream
from control.export.tables import warehouse_checkpoints, warehouse_runs, warehouse_sinks
from control.secrets.secret_box import SecretBox

MAX_SINKS: Final = 50  # of an organization
LEASE: Final = timedelta(seconds=60)
MAX_CLOCK_DIFFERENCE: Final = timedelta(minutes=1)  # of two control services
CONFIGS: Final[Mapping[SinkKind, type[Any]]] = MappingProxyType(
    {
        SinkKind.BLOBSTORE: BlobstoreConfig,
        SinkKind.SNOWFLAKE: SnowflakeConfig,
        SinkKind.BIGQUERY: BigQueryConfig,
    }
)


class LeaseHeld(Exception):
    """Another exporter works on the sink."""


async def create(
    connection: AsyncConnection,
    secret_box: SecretBox,
    *,
    org_id: str,
    name: str,
    kind: SinkKind,
    streams: Sequence[Stream],
    config: SinkConfig,
    created_by: str,
    now: datetime,
) -> Sink:
    """A new sink, which is due. Raises Conflict when the organization has MAX_SINKS."""
    of_org = sa.select(sa.func.count()).select_from(warehouse_sinks).where(warehouse_sinks.c.org_id == org_id)
    if (await connection.scalar(of_org) or 0) >= MAX_SINKS:
        raise Conflict(f"The organization has {MAX_SINKS} sinks, the maximum. Delete one first.")
    sink = Sink(new_id("snk"), org_id, name, kind, True, tuple(streams), config, created_by, now, now)
    row = {
        "id": sink.id,
        "org_id": org_id,
        "name": name,
        "kind": kind.value,
        "enabled": True,
        "streams": [stream.value for stream in streams],
        "config": _sealed(secret_box, sink.id, org_id, config),
        "created_by": created_by,
        "created_at": now,
        "updated_at": now,
        "next_run_at": now,
    }
    await connection.execute(warehouse_sinks.insert().values(row))
    return sink


async def list_sinks(connection: AsyncConnection, secret_box: SecretBox, org_id: str) -> list[Sink]:
    """All sinks of an organization, oldest first."""
    found = sa.select(warehouse_sinks).where(warehouse_sinks.c.org_id == org_id).order_by(warehouse_sinks.c.id)
    return [_sink(row, secret_box) for row in (await connection.execute(found)).mappings()]


async def find(connection: AsyncConnection, secret_box: SecretBox, org_id: str, sink_id: str) -> Sink | None:
    """The organization's sink with this id."""
    found = sa.select(warehouse_sinks).where(warehouse_sinks.c.org_id == org_id, warehouse_sinks.c.id == sink_id)
    row = (await connection.execute(found)).mappings().one_or_none()
    return None if row is None else _sink(row, secret_box)


async def change(
    connection: AsyncConnection,
    sink: Sink,
    *,
    name: str | None,
    enabled: bool | None,
    streams: Sequence[Stream] | None,
    now: datetime,
) -> None:
    """Change what is not None."""
    values: dict[str, Any] = {"updated_at": now}
    if name is not None:
        values["name"] = name
    if enabled is not None:
        values["enabled"] = enabled
    if streams is not None:
        values["streams"] = [stream.value for stream in streams]
    await connection.execute(warehouse_sinks.update().where(warehouse_sinks.c.id == sink.id).values(values))


async def replace_config(
    connection: AsyncConnection, secret_box: SecretBox, sink: Sink, config: SinkConfig, now: datetime
) -> None:
    """Replace the config as a whole; the sink is due."""
    values = {"config": _sealed(secret_box, sink.id, sink.org_id, config), "updated_at": now, "next_run_at": now}
    await connection.execute(warehouse_sinks.update().where(warehouse_sinks.c.id == sink.id).values(values))


async def delete(connection: AsyncConnection, sink_id: str) -> None:
    """Delete a sink, its checkpoints and its runs."""
    for table in (warehouse_runs, warehouse_checkpoints):
        await connection.execute(table.delete().where(table.c.sink_id == sink_id))
    await connection.execute(warehouse_sinks.delete().where(warehouse_sinks.c.id == sink_id))


async def find_due(
    connection: AsyncConnection, now: datetime, interval: timedelta, busy: Collection[str] = ()
) -> tuple[str, str] | None:
    """The sink that is due for the longest time, and its organization, which is none of `busy`; None if none is, or
    other exporters have all.
    """
    next_run_at = warehouse_sinks.c.next_run_at
    is_due = (next_run_at <= now) | (next_run_at > now + interval + MAX_CLOCK_DIFFERENCE)
    found = (
        sa.select(warehouse_sinks.c.id, warehouse_sinks.c.org_id)
        .join_from(warehouse_sinks, organizations, organizations.c.id == warehouse_sinks.c.org_id)
        .where(is_due, warehouse_sinks.c.enabled, _has_no_exporter(now))
        .where(organizations.c.deleted_at.is_(None), organizations.c.id.not_in(sorted(busy)))
        .order_by(warehouse_sinks.c.next_run_at)
        .limit(1)
    )
    row = (await connection.execute(found)).one_or_none()
    return None if row is None else (row.id, row.org_id)


async def postpone(connection: AsyncConnection, sink_id: str, until: datetime) -> None:
    """Say when a sink is due again."""
    of_sink = warehouse_sinks.c.id == sink_id
    await connection.execute(warehouse_sinks.update().where(of_sink).values(next_run_at=until))


async def take_lease(connection: AsyncConnection, sink_id: str, owner: str, now: datetime) -> None:
    """Raises LeaseHeld, also for a sink that is gone."""
    columns = warehouse_sinks.c
    is_free = _has_no_exporter(now) | (columns.lease_owner == owner)
    values = {"lease_owner": owner, "lease_until": now + LEASE}
    taken = await connection.execute(warehouse_sinks.update().where(columns.id == sink_id, is_free).values(values))
    if taken.rowcount != 1:
        raise LeaseHeld(sink_id)


async def release_lease(connection: AsyncConnection, sink_id: str, owner: str, next_run_at: datetime | None) -> None:
    """Give the lease back if it is still held. `next_run_at`: when the sink is due again; None: as before."""
    values: dict[str, Any] = {"lease_owner": None, "lease_until": None}
    if next_run_at is not None:
        values["next_run_at"] = next_run_at
    held = (warehouse_sinks.c.id == sink_id) & (warehouse_sinks.c.lease_owner == owner)
    await connection.execute(warehouse_sinks.update().where(held).values(values))


def _has_no_exporter(now: datetime) -> sa.ColumnElement[bool]:
    """Whether no lease holds. One that is too far in the future is from before the clock was set back: it holds up
    nobody, and checkpoints have versions whatever leases do.
    """
    until = warehouse_sinks.c.lease_until
    return until.is_(None) | (until <= now) | (until > now + LEASE + MAX_CLOCK_DIFFERENCE)


def _sealed(secret_box: SecretBox, sink_id: str, org_id: str, config: SinkConfig) -> bytes:
    plain = msgspec.json.encode(config)
    return secret_box.encrypt(plain, table=warehouse_sinks.name, row=sink_id, org=org_id, column="config")


def _sink(row: Mapping[Any, Any], secret_box: SecretBox) -> Sink:
    kind = SinkKind(row["kind"])
    plain = secret_box.decrypt(
        row["config"], table=warehouse_sinks.name, row=row["id"], org=row["org_id"], column="config"
    )
    return Sink(
        row["id"],
        row["org_id"],
        row["name"],
        kind,
        row["enabled"],
        tuple(Stream(one) for one in row["streams"]),
        msgspec.json.decode(plain, type=CONFIGS[kind]),
        row["created_by"],
        row["created_at"],
        row["updated_at"],
    )
