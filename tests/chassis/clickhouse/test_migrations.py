"""ClickHouse migrations: applied once, repeatable, checked, and in step with what writers and readers assume."""

import asyncio
import gc
import socket
from collections.abc import AsyncIterator, Callable, Iterator

import pytest

from chassis.clickhouse import ClickHouse, QueryLimits, StoreUnavailable, migrations
from chassis.clickhouse.migrations import (
    ClickHouseSchemaMismatch,
    ClickHouseSchemaTooNew,
    ClickHouseSchemaTooOld,
    VerifiedClickHouse,
)
from proto.storage.tables import STORED_TIME, TABLES, TABLES_IN_STORAGE_ORDER
from tests.tables import migrated

pytestmark = pytest.mark.both_stores

LIMITS = QueryLimits()
NAMES = [migration.name for migration in migrations.migrations()]


@pytest.fixture
async def clickhouse(clickhouse_url: str, new_database: Callable[[], str]) -> AsyncIterator[ClickHouse]:
    """Migrated tables of this test alone: what these tests do to them is more than emptying undoes."""
    async with migrated(clickhouse_url, new_database()) as store:
        yield store


@pytest.fixture
async def empty(bare: ClickHouse) -> ClickHouse:
    """An empty database."""
    return bare


async def test_migrating_twice_applies_once(empty: ClickHouse) -> None:
    with pytest.raises(ClickHouseSchemaTooOld, match="sluice migrate"):
        await migrations.check(empty)
    assert await migrations.migrate(empty, retention_days=30) == NAMES
    assert await migrations.migrate(empty, retention_days=30) == []
    await migrations.check(empty)
    found = await empty.query("SELECT name FROM sluice_schema ORDER BY version", {}, limits=LIMITS)
    assert found == [(name,) for name in NAMES]


async def test_an_interrupted_migration_is_finished_by_the_next(empty: ClickHouse) -> None:
    first = migrations.migrations()[0].statements[0]
    await empty.command(migrations.render(first, embedded=True, retention_days=30))
    await migrations.migrate(empty, retention_days=30)
    await migrations.check(empty)


async def test_tables_of_a_later_release_are_left_alone(
    clickhouse: ClickHouse,
) -> None:
    async def is_refused(error: type[Exception], cure: str) -> None:
        with pytest.raises(error, match=cure):
            await migrations.check(clickhouse)
        with pytest.raises(error, match=cure):
            await migrations.migrate(clickhouse, retention_days=30)

    await clickhouse.command("INSERT INTO sluice_schema (version, name) VALUES (9999, 'later')")
    await is_refused(ClickHouseSchemaTooNew, "Upgrade Sluice")


async def test_the_tables_are_as_blocks_retention_and_repeated_inserts_want_them(clickhouse: ClickHouse) -> None:
    tables = sorted(table.name for table in TABLES)
    found = await clickhouse.query(
        "SELECT table, name, replaceRegexpOne(type, 'SimpleAggregateFunction\\\\(\\\\w+, (.*)\\\\)$', '\\\\1')"
        " FROM system.columns WHERE database = currentDatabase() AND table != 'sluice_schema'",
        {},
        limits=LIMITS,
    )
    of_blocks = [
        (table.name, column.name, column.type)
        for table in TABLES
        for column in (*table.columns, *([STORED_TIME] if table in TABLES_IN_STORAGE_ORDER else []))
    ]
    assert sorted(found) == sorted(of_blocks)

    fsync = int(clickhouse.embedded)  # a server is run with the settings and replicas that its operator trusts
    found = await clickhouse.query(
        "SELECT name FROM system.tables WHERE database = currentDatabase()"
        " AND position(create_table_query, 'non_replicated_deduplication_window = 10000') > 0"
        " AND position(create_table_query, {fsync:String}) > 0 ORDER BY name",
        {"fsync": f"fsync_after_insert = {fsync}"},
        limits=LIMITS,
    )
    assert found == [(name,) for name in tables]

    for days in (7, 0):
        await migrations.migrate(clickhouse, retention_days=days)
        found = await clickhouse.query(
            "SELECT name, position(create_table_query, 'toIntervalDay(' || {days:String} || ')') > 0,"
            " position(create_table_query, 'TTL ') > 0"
            " FROM system.tables WHERE database = currentDatabase() AND name != 'sluice_schema' ORDER BY name",
            {"days": str(days + 1)},
            limits=LIMITS,
        )
        assert found == [(name, int(days > 0), int(days > 0)) for name in tables]

    # An upgraded engine's new setting is given to tables that have all migrations.
    await clickhouse.command("ALTER TABLE logs RESET SETTING auto_statistics_types")
    assert "logs" not in await tables_without_statistics(clickhouse)
    assert await migrations.migrate(clickhouse, retention_days=30) == []
    assert "logs" in await tables_without_statistics(clickhouse)


def test_placeholders_are_all_filled_in() -> None:
    for migration in migrations.migrations():
        for statement in migration.statements:
            rendered = migrations.render(statement, embedded=False, retention_days=0)
            assert "{" not in rendered
            assert "TTL" not in rendered
            assert ("fsync_after_insert = 0" in rendered) == ("CREATE TABLE" in rendered)


@pytest.fixture
def silent() -> Iterator[str]:
    """The URL of a server that accepts connections and never answers."""
    with socket.create_server(("127.0.0.1", 0), backlog=64) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


async def test_all_share_one_look_at_a_server_that_hangs(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """More of them than may wait for ClickHouse; those who come later share the next look."""
    monkeypatch.setattr(migrations, "VERIFY_TIMEOUT_S", 0.3)
    monkeypatch.setattr("chassis.clickhouse.client.CLOSE_S", 0.1)
    looks: list[object] = []
    look_at = migrations.check

    async def check(clickhouse: migrations.SchemaReader) -> None:
        looks.append(clickhouse)
        await look_at(clickhouse)

    monkeypatch.setattr(migrations, "check", check)
    async with asyncio.timeout(30):
        store = VerifiedClickHouse(silent, handles=2, max_waiting=2, timeout_s=3_600)
        for seen in (1, 2):
            calls = [
                store.query("SELECT 1", {}, limits=LIMITS),
                store.insert("t", ["n"], [], token="a"),
                store.verify_schema(),
            ]
            calls += [store.probe() for _ in range(5)]
            for end in await asyncio.gather(*calls, return_exceptions=True):
                assert isinstance(end, StoreUnavailable)
                assert "did not respond within 0.3 s" in str(end)
            assert len(looks) == seen
        await store.close()


async def test_who_gives_up_on_a_look_leaves_it_to_the_others(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    unhandled: list[object] = []
    asyncio.get_running_loop().set_exception_handler(lambda _loop, context: unhandled.append(context))
    monkeypatch.setattr(migrations, "VERIFY_TIMEOUT_S", 0.3)
    monkeypatch.setattr("chassis.clickhouse.client.CLOSE_S", 0.1)
    async with asyncio.timeout(30):
        store = VerifiedClickHouse(silent, timeout_s=3_600)
        first, second = (asyncio.ensure_future(store.verify_schema()) for _ in range(2))
        while not store._running:
            await asyncio.sleep(0.01)
        first.cancel()
        with pytest.raises(StoreUnavailable, match=r"did not respond within 0\.3 s"):
            await second
        assert first.cancelled()
        alone = asyncio.ensure_future(store.verify_schema())
        await asyncio.sleep(0)
        look = store._verification
        assert look is not None
        alone.cancel()
        await asyncio.wait((look,))
        await store.close()
    del look, alone
    gc.collect()
    assert unhandled == []


async def test_closing_ends_a_look_for_all(silent: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "VERIFY_TIMEOUT_S", 3_600)
    monkeypatch.setattr("chassis.clickhouse.client.CLOSE_S", 0.1)
    async with asyncio.timeout(30):
        store = VerifiedClickHouse(silent, timeout_s=3_600)
        waiting = asyncio.ensure_future(store.probe())
        while not store._running:
            await asyncio.sleep(0.01)
        await store.close()
        with pytest.raises(StoreUnavailable, match="is closing"):
            await waiting


async def build_before(clickhouse: ClickHouse, version: int) -> None:
    """Make the tables look like those of a build before the first release: the same tables, of another history."""
    await clickhouse.command("TRUNCATE TABLE sluice_schema")
    rows = ", ".join(f"({number}, '{number:04}_a.sql')" for number in range(1, version + 1))
    await clickhouse.command(f"INSERT INTO sluice_schema (version, name) VALUES {rows}")


async def test_tables_of_the_last_build_before_the_first_release_are_taken_over(clickhouse: ClickHouse) -> None:
    await build_before(clickhouse, 6)
    with pytest.raises(ClickHouseSchemaTooOld, match="sluice migrate"):
        await migrations.check(clickhouse)
    assert await migrations.migrate(clickhouse, retention_days=30) == NAMES[1:]
    await migrations.check(clickhouse)
    assert await tables_without_statistics(clickhouse) == sorted([*(table.name for table in TABLES), "sluice_schema"])


async def test_other_tables_of_builds_before_the_first_release_are_refused(clickhouse: ClickHouse) -> None:
    await build_before(clickhouse, 5)
    for refused in (migrations.check(clickhouse), migrations.migrate(clickhouse, retention_days=30)):
        with pytest.raises(ClickHouseSchemaMismatch, match=r"version 5\. .* Start the last build before"):
            await refused
    await build_before(clickhouse, 6)
    await clickhouse.command("ALTER TABLE logs DROP COLUMN truncations")
    with pytest.raises(
        ClickHouseSchemaMismatch, match=r"table logs lacks the column truncations\. This release can migrate"
    ):
        await migrations.migrate(clickhouse, retention_days=30)


async def test_merges_that_an_interrupted_migration_has_stopped_go_on(clickhouse: ClickHouse) -> None:
    await clickhouse.command("SYSTEM STOP MERGES logs")  # and had the setting, when it was killed
    await clickhouse.command("ALTER TABLE sluice_schema DELETE WHERE version > 0", settings={"mutations_sync": 2})
    assert await migrations.migrate(clickhouse, retention_days=30) == NAMES
    columns = "INSERT INTO logs (project_id, time) VALUES (1, now64(9))"
    for _ in range(2):
        await clickhouse.command(columns, settings={"insert_deduplicate": 0})
    await clickhouse.command("OPTIMIZE TABLE logs FINAL", settings={"optimize_throw_if_noop": 1})


async def test_tables_that_keep_no_rows_of_their_own_are_left_alone(empty: ClickHouse) -> None:
    """As Distributed ones, which refuse the statement: the release would not start on a cluster."""
    for migration in migrations.migrations():
        for statement in migration.statements:
            if "CREATE TABLE" in statement:
                await empty.command(migrations.render(statement, embedded=True, retention_days=0))
    await empty.command("RENAME TABLE logs TO logs_local")
    await empty.command("CREATE VIEW logs AS SELECT * FROM logs_local")
    assert await migrations.migrate(empty, retention_days=0) == NAMES
    await migrations.check(empty)
    assert "logs" not in await tables_without_statistics(empty)


async def tables_without_statistics(clickhouse: ClickHouse) -> list[object]:
    sql = (
        "SELECT name FROM system.tables WHERE database = currentDatabase()"
        " AND position(engine_full, 'auto_statistics_types = \\'\\'') > 0 ORDER BY name"
    )
    return [name for (name,) in await clickhouse.query(sql, {}, limits=LIMITS)]
