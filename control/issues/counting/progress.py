"""The progress of a follower, in the database. A follower is background work that reads a table of ClickHouse in
storage order, each row once. Every function runs in the caller's transaction.

Progress is stored in the transaction that stores the results of a page, and only if no other process has changed it
since it was read. A page is therefore counted once, after any crash and with any number of processes. A lease of some
seconds keeps the other processes from reading the same page in vain.

The batch ids of ClickHouse are unsigned. They are stored minus 2**63, which keeps their order.
"""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import Any, Final

import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import metadata
from chassis.clickhouse.storage_order import BlockKey, BlockProgress, Checkpoint, Position
from chassis.db.database import UtcTime, text, to_milliseconds
from control.issues.store import insert_rows

MAX_NAME_LENGTH: Final = 64
MAX_OWNER_LENGTH: Final = 200

follower_progress: Final = sa.Table(
    "follower_progress",
    metadata,
    sa.Column("follower", text(MAX_NAME_LENGTH), primary_key=True),
    sa.Column("stored_us", sa.BigInteger, nullable=False),
    sa.Column("batch_id", sa.BigInteger, nullable=False),
    sa.Column("row", sa.BigInteger, nullable=False),
    sa.Column("rows", sa.BigInteger, nullable=False),  # read so far
    sa.Column("quiet_until_us", sa.BigInteger, nullable=False),  # rows stored before notify no channel
    sa.Column("version", sa.BigInteger, nullable=False),  # a process that has read another version stores nothing
    sa.Column("lease_owner", text(MAX_OWNER_LENGTH), nullable=False),  # the process that read last
    sa.Column("lease_until", UtcTime, nullable=False),  # until then other processes do not read
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("updated_at", UtcTime, nullable=False),
)

follower_blocks: Final = sa.Table(
    "follower_blocks",
    metadata,
    sa.Column("follower", text(MAX_NAME_LENGTH), sa.ForeignKey("follower_progress.follower"), primary_key=True),
    sa.Column("batch_id", sa.BigInteger, primary_key=True),
    sa.Column("day", sa.Integer, primary_key=True),  # the day of the rows' own time, in days since 1970
    sa.Column("stored_us", sa.BigInteger, nullable=False),
    sa.Column("row", sa.BigInteger, nullable=False),
)


LEASE: Final = timedelta(seconds=5)
_SIGN: Final = 2**63


class ProgressChanged(Exception):
    """Another process has read further or is about to. The results of the page must not be stored."""


@dataclass(frozen=True, slots=True)
class Progress:
    """The progress of a follower. `rows`: the number of rows read. `quiet_until_us`: rows stored until then are
    history, of which no channel is notified, in microseconds.
    """

    follower: str
    checkpoint: Checkpoint
    rows: int
    quiet_until_us: int
    version: int
    lease_owner: str
    lease_until: datetime

    def is_left_to_another(self, owner: str, now: datetime) -> bool:
        """Whether another process holds the lease."""
        return self.lease_owner != owner and self.lease_until > now


async def create(connection: AsyncConnection, follower: str, quiet_until_us: int, owner: str, now: datetime) -> None:
    """Create the progress of a follower that has read nothing, unless it has progress already."""
    if await find(connection, follower) is not None:
        return
    new = {"follower": follower, "quiet_until_us": quiet_until_us, "version": 1, "created_at": now}
    await connection.execute(follower_progress.insert().values(new | _row(Checkpoint(), 0, owner, now)))


async def find(connection: AsyncConnection, follower: str) -> Progress | None:
    """The stored progress, without the blocks of the checkpoint (there are many). None before `create`."""
    statement = sa.select(follower_progress).where(follower_progress.c.follower == follower)
    row = (await connection.execute(statement)).mappings().one_or_none()
    if row is None:
        return None
    names = ("follower", "rows", "quiet_until_us", "version", "lease_owner", "lease_until")
    checkpoint = Checkpoint(Position(row["stored_us"], row["batch_id"] + _SIGN, row["row"]))
    return Progress(checkpoint=checkpoint, **{name: row[name] for name in names})


async def load(connection: AsyncConnection, follower: str) -> Progress | None:
    """The stored progress, with the blocks of the checkpoint."""
    progress = await find(connection, follower)
    if progress is None:
        return None
    statement = sa.select(follower_blocks).where(follower_blocks.c.follower == follower)
    recent = {
        (row.batch_id + _SIGN, row.day): BlockProgress(row.stored_us, row.row)
        for row in await connection.execute(statement)
    }
    return replace(progress, checkpoint=Checkpoint(progress.checkpoint.position, recent))


async def store(
    connection: AsyncConnection, old: Progress, checkpoint: Checkpoint, rows: int, owner: str, now: datetime
) -> Progress:
    """Store that `rows` more rows were read, up to the checkpoint. Raises ProgressChanged, after which the caller has
    to roll back the transaction.
    """
    columns = follower_progress.c
    changed = await connection.execute(
        follower_progress.update()
        .where(
            columns.follower == old.follower,
            columns.version == old.version,
            (columns.lease_owner == owner) | (columns.lease_until <= now),
        )
        .values(_row(checkpoint, old.rows + rows, owner, now) | {"version": old.version + 1})
    )
    if changed.rowcount != 1:
        raise ProgressChanged(old.follower)
    await _store_blocks(connection, old.follower, old.checkpoint.recent, checkpoint.recent)
    return replace(
        old,
        checkpoint=checkpoint,
        rows=old.rows + rows,
        version=old.version + 1,
        lease_owner=owner,
        lease_until=to_milliseconds(now) + LEASE,
    )


async def _store_blocks(
    connection: AsyncConnection,
    follower: str,
    old: Mapping[BlockKey, BlockProgress],
    new: Mapping[BlockKey, BlockProgress],
) -> None:
    """Write only the differences: a checkpoint has the blocks of half an hour, a page the blocks of one second."""
    columns = follower_blocks.c
    gone = [key for key in old if new.get(key) != old[key]]
    if gone:
        block = follower_blocks.delete().where(
            columns.follower == follower,
            columns.batch_id == sa.bindparam("of_batch"),
            columns.day == sa.bindparam("of_day"),
        )
        await connection.execute(block, [{"of_batch": batch_id - _SIGN, "of_day": day} for batch_id, day in gone])
    written = [
        {"follower": follower, "batch_id": batch_id - _SIGN, "day": day, **block._asdict()}
        for (batch_id, day), block in new.items()
        if block != old.get((batch_id, day))
    ]
    await insert_rows(connection, follower_blocks, written)


def _row(checkpoint: Checkpoint, rows: int, owner: str, now: datetime) -> dict[str, Any]:
    position = checkpoint.position
    return {
        "stored_us": position.stored_us,
        "batch_id": position.batch_id - _SIGN,
        "row": position.row,
        "rows": rows,
        "lease_owner": owner,
        "lease_until": to_milliseconds(now) + LEASE,
        "updated_at": now,
    }
