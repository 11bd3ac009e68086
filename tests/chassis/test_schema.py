"""ClickHouse migrations: applied once, repeatable, checked, and in step with what writers and readers assume."""

from collections.abc import Callable

import pytest

from chassis import schema
from chassis.clickhouse import ClickHouse, QueryLimits
from chassis.schema import SchemaForeign, SchemaTooNew, SchemaTooOld
from proto.storage.tables import TABLES

LIMITS = QueryLimits()


@pytest.fixture
async def empty(clickhouse_url: str, new_database: Callable[[], str]) -> ClickHouse:
    """An empty database."""
    store = ClickHouse(clickhouse_url, database=new_database())
    await store.create_database()
    return store


async def test_migrating_twice_applies_once(empty: ClickHouse) -> None:
    names = [migration.name for migration in schema.migrations()]
    assert await schema.migrate(empty, retention_days=30) == names
    assert await schema.migrate(empty, retention_days=30) == []
    await schema.check(empty)
    assert await empty.query("SELECT name FROM sluice_schema ORDER BY version", {}, limits=LIMITS) == [
        (name,) for name in names
    ]
    await empty.close()


async def test_an_interrupted_migration_is_finished_by_the_next(empty: ClickHouse) -> None:
    first = schema.migrations()[0].statements[0]
    await empty.command(schema.render(first, embedded=True, retention_days=30))
    await schema.migrate(empty, retention_days=30)
    await schema.check(empty)
    await empty.close()


async def test_missing_tables_are_one_sentence(empty: ClickHouse) -> None:
    with pytest.raises(SchemaTooOld, match="sluice migrate"):
        await schema.check(empty)
    await empty.close()


async def test_tables_of_a_later_release_are_left_alone(clickhouse: ClickHouse) -> None:
    await clickhouse.command("INSERT INTO sluice_schema (version, name) VALUES (9999, 'later')")
    with pytest.raises(SchemaTooNew, match="upgrade Sluice"):
        await schema.check(clickhouse)
    with pytest.raises(SchemaTooNew, match="upgrade Sluice"):
        await schema.migrate(clickhouse, retention_days=30)


async def test_tables_of_a_build_before_the_release_are_left_alone(clickhouse: ClickHouse) -> None:
    await clickhouse.command("INSERT INTO sluice_schema (version, name) VALUES (1, '0001_telemetry.sql')")
    with pytest.raises(SchemaForeign, match="empty database or data directory"):
        await schema.check(clickhouse)
    with pytest.raises(SchemaForeign, match="empty database or data directory"):
        await schema.migrate(clickhouse, retention_days=30)


@pytest.mark.parametrize("days", [7, 0])
async def test_another_retention_changes_the_tables(clickhouse: ClickHouse, days: int) -> None:
    await schema.migrate(clickhouse, retention_days=days)
    rows = await clickhouse.query(
        "SELECT name, position(create_table_query, 'toIntervalDay(' || {days:String} || ')') > 0,"
        " position(create_table_query, 'TTL ') > 0"
        " FROM system.tables WHERE database = currentDatabase() AND name != 'sluice_schema' ORDER BY name",
        {"days": str(days + 1)},
        limits=LIMITS,
    )
    assert rows == [(table.name, int(days > 0), int(days > 0)) for table in sorted(TABLES)]


async def test_the_tables_have_the_columns_that_blocks_have(clickhouse: ClickHouse) -> None:
    for table in TABLES:
        rows = await clickhouse.query(
            "SELECT name, replaceRegexpOne(type, 'SimpleAggregateFunction\\\\(\\\\w+, (.*)\\\\)$', '\\\\1')"
            " FROM system.columns WHERE database = currentDatabase() AND table = {table:String} ORDER BY position",
            {"table": table.name},
            limits=LIMITS,
        )
        assert rows == [(column.name, column.type) for column in table.columns] or sorted(rows) == sorted(
            (column.name, column.type) for column in table.columns
        )


async def test_every_table_tells_repeated_blocks_apart(clickhouse: ClickHouse) -> None:
    fsync = int(clickhouse.embedded)  # a server is run with the settings and replicas that its operator trusts
    rows = await clickhouse.query(
        "SELECT name FROM system.tables WHERE database = currentDatabase()"
        " AND position(create_table_query, 'non_replicated_deduplication_window = 10000') > 0"
        " AND position(create_table_query, {fsync:String}) > 0 ORDER BY name",
        {"fsync": f"fsync_after_insert = {fsync}"},
        limits=LIMITS,
    )
    assert rows == [(table.name,) for table in sorted(TABLES)]


def test_placeholders_are_all_filled_in() -> None:
    for migration in schema.migrations():
        for statement in migration.statements:
            rendered = schema.render(statement, embedded=False, retention_days=0)
            assert "{" not in rendered
            assert "TTL" not in rendered
            assert "fsync_after_insert = 0" in rendered
