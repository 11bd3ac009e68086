"""Sinks in the database, their checkpoints and runs, and the leases, which let one exporter at a time work on a sink.
Every function runs in the caller's transaction.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import new_id, organizations
from chassis.errors import Conflict
from control.export.model import (
    CONFIGS,
    Intent,
    Run,
    RunStatus,
    Sink,
    SinkConfig,
    SinkKind,
    Stream,
    StreamCheckpoint,
)
from control.export.tables import MAX_ERROR_LENGTH, warehouse_checkpoints, warehouse_runs, warehouse_sinks
from control.secrets.secret_box import SecretBox

MAX_SINKS: Final = 50  # per organization
LEASE: Final = timedelta(seconds=60)
MAX_CLOCK_DIFFERENCE: Final = timedelta(minutes=1)  # between two control services


class LeaseUnavailable(Exception):
    """The lease of the sink was not taken: another exporter holds it, or the sink was deleted."""


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
    """Create a sink, which is due at once. Raises Conflict if the organization has MAX_SINKS sinks."""
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
    statement = sa.select(warehouse_sinks).where(warehouse_sinks.c.org_id == org_id).order_by(warehouse_sinks.c.id)
    return [_sink(row, secret_box) for row in (await connection.execute(statement)).mappings()]


async def find(connection: AsyncConnection, secret_box: SecretBox, org_id: str, sink_id: str) -> Sink | None:
    """The organization's sink with this id."""
    statement = sa.select(warehouse_sinks).where(warehouse_sinks.c.org_id == org_id, warehouse_sinks.c.id == sink_id)
    row = (await connection.execute(statement)).mappings().one_or_none()
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
    """Change the values that are not None."""
    changed = {"name": name, "enabled": enabled, "streams": None if streams is None else [one.value for one in streams]}
    values = {column: value for column, value in changed.items() if value is not None} | {"updated_at": now}
    await connection.execute(warehouse_sinks.update().where(warehouse_sinks.c.id == sink.id).values(values))


async def replace_config(
    connection: AsyncConnection, secret_box: SecretBox, sink: Sink, config: SinkConfig, now: datetime
) -> None:
    """Replace the complete config. The sink is due at once."""
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
    """Find the sink that has been due longest, and its organization, which is not one of `busy`. Returns None if no
    sink is due, or other exporters have all due sinks.
    """
    next_run_at = warehouse_sinks.c.next_run_at
    is_due = (next_run_at <= now) | (next_run_at > now + interval + MAX_CLOCK_DIFFERENCE)
    statement = (
        sa.select(warehouse_sinks.c.id, warehouse_sinks.c.org_id)
        .join_from(warehouse_sinks, organizations, organizations.c.id == warehouse_sinks.c.org_id)
        .where(is_due, warehouse_sinks.c.enabled, _has_no_exporter(now))
        .where(organizations.c.deleted_at.is_(None), organizations.c.id.not_in(sorted(busy)))
        .order_by(warehouse_sinks.c.next_run_at)
        .limit(1)
    )
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else (row.id, row.org_id)


async def postpone(connection: AsyncConnection, sink_id: str, until: datetime) -> None:
    """Set when a sink is due again."""
    of_sink = warehouse_sinks.c.id == sink_id
    await connection.execute(warehouse_sinks.update().where(of_sink).values(next_run_at=until))


async def take_lease(connection: AsyncConnection, sink_id: str, owner: str, now: datetime) -> None:
    """Take or renew the lease of a sink. Raises LeaseUnavailable."""
    columns = warehouse_sinks.c
    is_free = _has_no_exporter(now) | (columns.lease_owner == owner)
    values = {"lease_owner": owner, "lease_until": now + LEASE}
    taken = await connection.execute(warehouse_sinks.update().where(columns.id == sink_id, is_free).values(values))
    if taken.rowcount != 1:
        raise LeaseUnavailable(sink_id)


async def release_lease(connection: AsyncConnection, sink_id: str, owner: str, next_run_at: datetime | None) -> None:
    """Release the lease if it is still held. `next_run_at`: when the sink is due again. None: the due time is not
    changed.
    """
    values: dict[str, Any] = {"lease_owner": None, "lease_until": None}
    if next_run_at is not None:
        values["next_run_at"] = next_run_at
    held = (warehouse_sinks.c.id == sink_id) & (warehouse_sinks.c.lease_owner == owner)
    await connection.execute(warehouse_sinks.update().where(held).values(values))


def _has_no_exporter(now: datetime) -> sa.ColumnElement[bool]:
    """The condition that no lease is held. A lease that ends too far in the future is from before the clock was set
    back, and is ignored. Checkpoints are safe without leases, because they have versions.
    """
    until = warehouse_sinks.c.lease_until
    return until.is_(None) | (until <= now) | (until > now + LEASE + MAX_CLOCK_DIFFERENCE)


def _sealed(secret_box: SecretBox, sink_id: str, org_id: str, config: SinkConfig) -> bytes:
    context = {"table": warehouse_sinks.name, "row": sink_id, "org": org_id, "column": "config"}
    return secret_box.encrypt(msgspec.json.encode(config), **context)


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


KEPT_RUNS: Final = 500  # per sink
INTERRUPTED: Final = "The export was interrupted. The next run continues it."


class CheckpointChanged(Exception):
    """Another exporter has exported the batch, or the sink was deleted. Nothing may be stored."""


async def load_checkpoint(connection: AsyncConnection, sink_id: str, org_id: str, stream: Stream) -> StreamCheckpoint:
    """Load the checkpoint of a stream. Its version is 0 if there is none."""
    where = (warehouse_checkpoints.c.sink_id == sink_id) & (warehouse_checkpoints.c.stream == stream.value)
    row = (await connection.execute(sa.select(warehouse_checkpoints).where(where))).mappings().one_or_none()
    if row is None:
        return StreamCheckpoint(sink_id, org_id, stream, 0, None, None, None, None, 0, None)
    return _checkpoint(row)


async def list_checkpoints(connection: AsyncConnection, sink_id: str) -> dict[Stream, StreamCheckpoint]:
    """The stored checkpoints of a sink, by stream."""
    statement = sa.select(warehouse_checkpoints).where(warehouse_checkpoints.c.sink_id == sink_id)
    return {Stream(row["stream"]): _checkpoint(row) for row in (await connection.execute(statement)).mappings()}


async def store_intent(connection: AsyncConnection, old: StreamCheckpoint, intent: Intent) -> StreamCheckpoint:
    """Store the batch that will be exported. Raises CheckpointChanged, after which the caller has to roll back the
    transaction.
    """
    return await _store(connection, old, replace(old, intent=intent))


async def store_exported(
    connection: AsyncConnection, old: StreamCheckpoint, intent: Intent, rows: int, started_at: datetime
) -> StreamCheckpoint:
    """Record that a batch of `rows` rows is exported, and move the cursor behind it. Raises CheckpointChanged like
    `store_intent`.
    """
    new = replace(
        old,
        cursor=intent.until,
        cursor_at=intent.until_at,
        cursor_id=intent.until_id,
        intent=None,
        rows_exported=old.rows_exported + rows,
        last_run_at=started_at,
    )
    return await _store(connection, old, new)


async def note_run(connection: AsyncConnection, old: StreamCheckpoint, started_at: datetime) -> StreamCheckpoint:
    """Record that a run has ended without a batch. Raises CheckpointChanged like `store_intent`."""
    return await _store(connection, old, replace(old, last_run_at=started_at))


async def store_run(connection: AsyncConnection, run: Run) -> None:
    """Insert a run, or replace the stored one."""
    row = {**asdict(run), "stream": run.stream.value, "status": run.status.value, "object_keys": list(run.object_keys)}
    row["error"] = None if run.error is None else run.error[:MAX_ERROR_LENGTH]
    changed = await connection.execute(warehouse_runs.update().where(warehouse_runs.c.id == run.id).values(row))
    if changed.rowcount != 1:
        await connection.execute(warehouse_runs.insert().values(row))


async def end_interrupted(connection: AsyncConnection, sink_id: str, now: datetime) -> None:
    """Mark the runs of the sink without an end as failed. The caller has the lease, so no other exporter is running."""
    open_ones = (warehouse_runs.c.sink_id == sink_id) & warehouse_runs.c.finished_at.is_(None)
    values = {"status": RunStatus.FAILED.value, "error": INTERRUPTED, "finished_at": now}
    await connection.execute(warehouse_runs.update().where(open_ones).values(values))


async def list_runs(connection: AsyncConnection, sink_id: str, limit: int) -> Sequence[Any]:
    """The newest runs of a sink as rows, newest first."""
    statement = sa.select(warehouse_runs).where(warehouse_runs.c.sink_id == sink_id)
    return (await connection.execute(statement.order_by(warehouse_runs.c.id.desc()).limit(limit))).all()


async def delete_old_runs(connection: AsyncConnection, sink_id: str) -> None:
    """Keep the newest KEPT_RUNS of a sink."""
    of_sink = warehouse_runs.c.sink_id == sink_id
    newest = sa.select(warehouse_runs.c.id).where(of_sink).order_by(warehouse_runs.c.id.desc())
    last = await connection.scalar(newest.offset(KEPT_RUNS - 1).limit(1))
    if last is not None:
        await connection.execute(warehouse_runs.delete().where(of_sink, warehouse_runs.c.id < last))


async def _store(connection: AsyncConnection, old: StreamCheckpoint, new: StreamCheckpoint) -> StreamCheckpoint:
    stored = replace(new, version=old.version + 1)
    row = {
        "version": stored.version,
        "cursor": stored.cursor,
        "cursor_at": stored.cursor_at,
        "cursor_id": stored.cursor_id,
        "intent": None if stored.intent is None else msgspec.json.encode(stored.intent),
        "rows_exported": stored.rows_exported,
        "last_run_at": stored.last_run_at,
    }
    columns = warehouse_checkpoints.c
    where = (columns.sink_id == old.sink_id) & (columns.stream == old.stream.value)
    if old.version:
        changed = await connection.execute(
            warehouse_checkpoints.update().where(where, columns.version == old.version).values(row)
        )
        if changed.rowcount != 1:
            raise CheckpointChanged(old.stream)
    else:
        if await connection.scalar(sa.select(columns.version).where(where)) is not None:
            raise CheckpointChanged(old.stream)
        key = {"sink_id": old.sink_id, "stream": old.stream.value, "org_id": old.org_id}
        try:
            await connection.execute(warehouse_checkpoints.insert().values({**key, **row}))
        except sa.exc.IntegrityError as error:  # the sink was deleted
            raise CheckpointChanged(old.stream) from error
    return stored


def _checkpoint(row: Mapping[Any, Any]) -> StreamCheckpoint:
    intent = None if row["intent"] is None else msgspec.json.decode(row["intent"], type=Intent)
    return StreamCheckpoint(**{**row, "stream": Stream(row["stream"]), "intent": intent})


async def list_exported(connection: AsyncConnection, org_id: str, before: datetime | None) -> Sequence[Any]:
    """The exports of an organization by sinks that were created before a time (None: all sinks): `sink_id`,
    `sink_name`, `sink_kind`, `stream`, and `exported_until`, which may be None.
    """
    sinks, checkpoints = warehouse_sinks.c, warehouse_checkpoints.c
    wanted = (
        sa.select(
            sinks.id.label("sink_id"),
            sinks.name.label("sink_name"),
            sinks.kind.label("sink_kind"),
            checkpoints.stream,
            checkpoints.cursor_at.label("exported_until"),
        )
        .join_from(warehouse_checkpoints, warehouse_sinks, sinks.id == checkpoints.sink_id)
        .where(checkpoints.org_id == org_id, checkpoints.rows_exported > 0)
        .order_by(sinks.id, checkpoints.stream)
    )
    if before is not None:
        wanted = wanted.where(sinks.created_at <= before)
    return (await connection.execute(wanted)).all()
