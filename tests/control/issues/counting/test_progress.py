"""How far a follower has read: stored once, by one process, with the blocks that it has read lately."""

from datetime import UTC, datetime, timedelta

import pytest

from chassis.clickhouse.storage_order import BlockProgress, Checkpoint, Position
from chassis.db.database import Database
from control.issues.counting import progress
from control.issues.counting.progress import LEASE, Progress, ProgressChanged

pytestmark = pytest.mark.both_stores

NOW = datetime(2026, 11, 23, 12, tzinfo=UTC)
LARGEST = 2**64 - 1
NAME = "followed"


async def created(database: Database) -> Progress:
    async with database.write() as connection:
        await progress.create(connection, NAME, 77, "one", NOW)
    return await loaded(database)


async def loaded(database: Database) -> Progress:
    async with database.read() as connection:
        found = await progress.load(connection, NAME)
    assert found is not None
    return found


async def stored(
    database: Database, old: Progress, checkpoint: Checkpoint, owner: str = "one", now: datetime = NOW
) -> Progress:
    async with database.write() as connection:
        return await progress.store(connection, old, checkpoint, 3, owner, now)


async def test_a_follower_begins_once(database: Database) -> None:
    first = await created(database)
    async with database.write() as connection:
        await progress.create(connection, NAME, 99, "two", NOW)
    assert await loaded(database) == first
    assert (first.checkpoint, first.rows, first.quiet_until_us) == (Checkpoint(), 0, 77)
    async with database.read() as connection:
        assert await progress.find(connection, "another") is None


async def test_what_is_stored_is_what_is_loaded_with_every_block(database: Database) -> None:
    held = await created(database)
    blocks = {(LARGEST, 20_000): BlockProgress(5, 7), (0, 20_001): BlockProgress(6, 8), (9, 1): BlockProgress(7, 9)}
    held = await stored(database, held, Checkpoint(Position(7, LARGEST, 2**32 - 1), blocks))
    assert await loaded(database) == held
    assert held.rows == 3
    changed = {(LARGEST, 20_000): BlockProgress(5, 9), (9, 1): BlockProgress(7, 9), (10, 1): BlockProgress(8, 0)}
    held = await stored(database, held, Checkpoint(Position(8, 10, 0), changed))
    assert (await loaded(database)).checkpoint.recent == changed
    assert (await loaded(database)).rows == 6


async def test_who_was_overtaken_stores_nothing(database: Database) -> None:
    old = await created(database)
    new = await stored(database, old, Checkpoint(Position(1, 1, 1), {(1, 1): BlockProgress(1, 1)}))
    with pytest.raises(ProgressChanged):
        await stored(database, old, Checkpoint(Position(2, 2, 2), {(2, 2): BlockProgress(2, 2)}))
    assert await loaded(database) == new


async def test_others_leave_the_work_to_who_has_read_lately(database: Database) -> None:
    held = await created(database)
    soon, later = NOW + LEASE - timedelta(seconds=1), NOW + LEASE
    assert not held.is_left_to_another("one", soon)
    assert held.is_left_to_another("two", soon)
    assert not held.is_left_to_another("two", later)
    with pytest.raises(ProgressChanged):
        await stored(database, held, Checkpoint(Position(1, 1, 1)), "two", soon)
    taken = await stored(database, held, Checkpoint(Position(1, 1, 1)), "two", later)
    assert taken.is_left_to_another("one", later)
