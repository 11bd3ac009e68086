"""Checkpoints and runs in the database. Every function runs in the caller's transaction."""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from datetime import datetime
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from control.export.model import Checkpoint, Intent, Run, RunStatus, Stream
from control.export.tables import MAX_ERROR_LENGTH, warehouse_checkpoints, warehouse_runs, warehouse_sinks

KEPT_RUNS: Final = 500  # of a sink
INTERRUPTED: Final = "The export was interrupted; the next run continues it."


class CheckpointChanged(Exception):
    """Another exporter has exported the batch, or the sink is gone: nothing may be stored."""


async def load_checkpoint(connection: AsyncConnection, sink_id: str, org_id: str, stream: Stream) -> Checkpoint:
    """The checkpoint of a stream; version 0 if there is none."""
    where = (warehouse_checkpoints.c.sink_id == sink_id) & (warehouse_checkpoints.c.stream == stream.value)
    row = (await connection.execute(sa.select(warehouse_checkpoints).where(where))).mappings().one_or_none()
    if row is None:
        return Checkpoint(sink_id, org_id, stream, 0, None, None, None, None, 0, None)
    return _checkpoint(row)


async def list_checkpoints(connection: AsyncConnection, sink_id: str) -> dict[Stream, Checkpoint]:
    """The checkpoints of a sink by stream, as far as there are some."""
    found = sa.select(warehouse_checkpoints).where(warehouse_checkpoints.c.sink_id == sink_id)
    return {Stream(row["stream"]): _checkpoint(row) for row in (await connection.execute(found)).mappings()}


async def store_intent(connection: AsyncConnection, old: Checkpoint, intent: Intent) -> Checkpoint:
    """Note the batch that will be exported. Raises CheckpointChanged, which has to roll back the transaction."""
    return await _store(connection, old, replace(old, intent=intent))


async def store_exported(
    connection: AsyncConnection, old: Checkpoint, intent: Intent, rows: int, now: datetime
) -> Checkpoint:
    """Note that a batch of so many rows is exported: the cursor is behind it. Raises CheckpointChanged as
    `store_intent`.
    """
    new = replace(
        old,
        cursor=intent.until,
        cursor_at=intent.until_at,
        cursor_id=intent.until_id,
        intent=None,
        rows_exported=old.rows_exported + rows,
        last_run_at=now,
    )
    return await _store(connection, old, new)


async def note_run(connection: AsyncConnection, old: Checkpoint, now: datetime) -> Checkpoint:
    """Note that a run has ended without a batch. Raises CheckpointChanged as `store_intent`."""
    return await _store(connection, old, replace(old, last_run_at=now))


async def store_run(connection: AsyncConnection, run: Run) -> None:
    """Insert a run, or replace what is known of it."""
    row = {**asdict(run), "stream": run.stream.value, "status": run.status.value, "object_keys": list(run.object_keys)}
    row["error"] = None if run.error is None else run.error[:MAX_ERROR_LENGTH]
    changed = await connection.execute(warehouse_runs.update().where(warehouse_runs.c.id == run.id).values(row))
    if changed.rowcount != 1:
        await connection.execute(warehouse_runs.insert().values(row))


async def end_interrupted(connection: AsyncConnection, sink_id: str, now: datetime) -> None:
    """Runs of the sink without an end have failed: whoever calls this has the lease."""
    open_ones = (warehouse_runs.c.sink_id == sink_id) & warehouse_runs.c.finished_at.is_(None)
    values = {"status": RunStatus.FAILED.value, "error": INTERRUPTED, "finished_at": now}
    await connection.execute(warehouse_runs.update().where(open_ones).values(values))


async def list_runs(connection: AsyncConnection, sink_id: str, limit: int) -> Sequence[Any]:
    """The newest runs of a sink as rows, newest first."""
    found = sa.select(warehouse_runs).where(warehouse_runs.c.sink_id == sink_id)
    return (await connection.execute(found.order_by(warehouse_runs.c.id.desc()).limit(limit))).all()


async def delete_old_runs(connection: AsyncConnection, sink_id: str) -> None:
    """Keep the newest KEPT_RUNS of a sink."""
    of_sink = warehouse_runs.c.sink_id == sink_id
    newest = sa.select(warehouse_runs.c.id).where(of_sink).order_by(warehouse_runs.c.id.desc())
    last = await connection.scalar(newest.offset(KEPT_RUNS - 1).limit(1))
    if last is not None:
        await connection.execute(warehouse_runs.delete().where(of_sink, warehouse_runs.c.id < last))


async def _store(connection: AsyncConnection, old: Checkpoint, new: Checkpoint) -> Checkpoint:
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


def _checkpoint(row: Mapping[Any, Any]) -> Checkpoint:
    intent = row["intent"]
    return Checkpoint(
        row["sink_id"],
        row["org_id"],
        Stream(row["stream"]),
        row["version"],
        row["cursor"],
        row["cursor_at"],
        row["cursor_id"],
        None if intent is None else msgspec.json.decode(intent, type=Intent),
        row["rows_exported"],
        row["last_run_at"],
    )


async def list_exported(connection: AsyncConnection, org_id: str, before: datetime | None) -> Sequence[Any]:
    """What the sinks of an organization have exported that were created before a time (None: all): `sink_id`,
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
