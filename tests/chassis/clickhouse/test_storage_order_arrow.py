"""Storage order as columns: the same rows and checkpoints as by tuples."""

import random
from collections.abc import Callable

import pyarrow as pa  # type: ignore[import-untyped]
import pytest

from chassis.clickhouse import ClickHouse, QueryLimits, QueryTooLarge, migrations
from chassis.clickhouse.storage_order import (
    BlockKey,
    BlockProgress,
    Checkpoint,
    OrderedTable,
    Position,
    StorageOrderReader,
    StoredRow,
    StoredRowList,
)
from chassis.clickhouse.storage_order_arrow import ArrowRows, OrderedArrowTable
from chassis.clickhouse.stored_time import StoredTimeFloor
from proto.storage.tables import FIRST_REBUILT_ROW


def as_columns(rows: StoredRowList) -> ArrowRows:
    places = [(*row.position, row.day, row.values[0]) for row in rows]
    types = {"stored_us": pa.int64(), "batch_id": pa.uint64(), "row": pa.uint32(), "day": pa.uint16(), "0": pa.int64()}
    columns = list(zip(*places, strict=True)) or [()] * len(types)
    return ArrowRows(
        pa.table({name: pa.array(column, types[name]) for name, column in zip(types, columns, strict=True)})
    )


def as_tuples(rows: ArrowRows) -> list[StoredRow]:
    return [
        StoredRow(Position(*place), day, (value,))
        for *place, day, value in zip(*(column.to_pylist() for column in rows.table.columns), strict=True)
    ]


def random_rows(chance: random.Random) -> StoredRowList:
    """Blocks, some of them twice, some rebuilt, some at one time."""
    copies = chance.choice((1, 1, 3))
    places = {
        (chance.randrange(4) * 10, 2**63 + chance.randrange(3), row, chance.randrange(2))
        for _ in range(copies)
        for row in chance.sample([0, 1, 2, 3, FIRST_REBUILT_ROW, FIRST_REBUILT_ROW + 1], chance.randrange(1, 7))
    }
    return StoredRowList(StoredRow(Position(*place), day, (at,)) for at, (*place, day) in enumerate(sorted(places)))


def test_second_copies_are_the_same_as_by_tuples() -> None:
    chance = random.Random(7)
    kept_whole = 0
    for _ in range(500):
        rows = random_rows(chance)
        seen = random_rows(chance)
        recent: dict[BlockKey, BlockProgress] = {}
        if chance.random() < 0.5:
            seen.without_delivered(recent)
        by_columns = dict(recent)
        found = as_columns(rows).without_delivered(by_columns)
        assert as_tuples(found) == rows.without_delivered(recent)
        assert by_columns == recent
        kept_whole += len(found) == len(rows)
    assert 50 < kept_whole < 450


def test_rows_up_to_a_position() -> None:
    rows = random_rows(random.Random(3))
    for row in rows:
        last = row.position
        assert as_tuples(as_columns(rows).until(last)) == [row for row in rows if row.position <= last]
    assert len(as_columns(rows).until(Position(0, 0, 0))) == 0


@pytest.mark.both_stores
async def test_clickhouse_answers_the_same_in_columns(clickhouse_url: str, new_database: Callable[[], str]) -> None:
    name = new_database()
    store = ClickHouse(clickhouse_url, database=name, stored_time_floor=StoredTimeFloor())
    await migrations.migrate(store, retention_days=0)
    await store.start()
    fill = (
        "INSERT INTO error_occurrences (project_id, time, message, batch_id, row)"
        " SELECT 7 + number % 2, toDateTime64(86400 * (20780 + number % 3), 9, 'UTC'), concat('é', toString(number)),"
        " {batch:UInt64}, number FROM numbers(40)"
    )
    for batch in (1, 2**63 + 5, 1):  # the last one is another copy of the first
        await store.command(fill, {"batch": batch}, stores_rows=True)
    by_tuples = StorageOrderReader(OrderedTable(store, "error_occurrences", ["message"], [7]))
    columns = OrderedArrowTable(store, "error_occurrences", ["message"], [7])
    assert [column.num_chunks for column in columns.no_rows().values] == [1]
    for page_rows in (1_000, 9):
        expected, checkpoint = list[StoredRow](), Checkpoint()
        while True:
            page = await by_tuples.read(checkpoint)
            expected += page.rows
            checkpoint = page.checkpoint
            if len(expected) == 40:
                break
        reader, found, read = StorageOrderReader(columns, page_rows=page_rows), list[StoredRow](), Checkpoint()
        while len(found) < 40 or read.position < checkpoint.position:
            part = await reader.read(read)
            found += as_tuples(part.rows)
            read = part.checkpoint
        assert found == expected
    await store.command(f"DROP DATABASE {name}")
    await store.close()


@pytest.mark.both_stores
async def test_what_is_asked_after_a_read_that_failed_is_answered(clickhouse_url: str) -> None:
    """chDB keeps the format of a statement that failed."""
    store = ClickHouse(clickhouse_url, handles=1)
    await store.start()
    numbers = "SELECT number FROM numbers(10)"
    with pytest.raises(QueryTooLarge):
        await store.query_arrow(numbers, {}, QueryLimits(max_result_rows=5))
    assert await store.query("SELECT 1", {}, limits=QueryLimits()) == [(1,)]
    assert (await store.query_arrow(numbers, {}, QueryLimits())).num_rows == 10
    await store.close()
