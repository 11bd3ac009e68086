"""Migrated ClickHouse databases for tests. Migrating takes far longer than most tests do, so a worker does it once for
a database that many tests use, emptied in between (what a test left in another shape is migrated anew for the next
one), and once for a database that is copied for each test that needs one of its own.
"""

from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Final

from chassis.clickhouse import ClickHouse, QueryLimits, migrations

RETENTION_DAYS: Final = 30

Shape = dict[str, str]  # how each table is created


@asynccontextmanager
async def migrated(url: str, name: str) -> AsyncIterator[ClickHouse]:
    """Tables in a database of this name, which is gone afterwards."""
    async with _opened(url, name) as store:
        await migrations.migrate(store, retention_days=RETENTION_DAYS)
        await store.start()
        yield store
        await store.command(f"DROP DATABASE {name}")


class CopiedTables:
    """Copies of migrated tables on the engine of one URL. `retention_days` 0: rows are kept whatever the date is."""

    def __init__(self, url: str, new_name: Callable[[], str], retention_days: int = RETENTION_DAYS) -> None:
        self._url, self._new_name, self._retention_days = url, new_name, retention_days
        self._source: tuple[str, Sequence[str]] | None = None

    @asynccontextmanager
    async def copy(self) -> AsyncIterator[ClickHouse]:
        """A store over tables of its own, which are gone afterwards."""
        source, tables = await self._prepared()
        name = self._new_name()
        async with _opened(self._url, name) as store:
            await store.create_database()
            for table in tables:
                await store.command(f"CREATE TABLE {table} AS {source}.{table}")
            await store.command(f"INSERT INTO sluice_schema SELECT * FROM {source}.sluice_schema")
            await store.start()
            yield store
            await store.command(f"DROP DATABASE {name}")

    async def _prepared(self) -> tuple[str, Sequence[str]]:
        if self._source is None:
            name = self._new_name()
            self._source = name, [*await _migrate(self._url, name, self._retention_days)]
        return self._source


class KeptTables:
    """Migrated tables on the engine of one URL, one database for many tests."""

    def __init__(self, url: str, new_name: Callable[[], str]) -> None:
        self._url, self._new_name = url, new_name
        self._kept: tuple[str, Shape] | None = None

    @asynccontextmanager
    async def empty(self) -> AsyncIterator[ClickHouse]:
        """A store over them, for one test."""
        name, shape = await self._prepared()
        store = ClickHouse(self._url, database=name)
        await store.start()
        try:
            yield store
            found, used = await _shape(store)
            if found == shape:
                for table in used - {"sluice_schema"}:
                    await store.command(f"TRUNCATE TABLE {table}")
            else:
                self._kept = None
                await store.command(f"DROP DATABASE {name}")
        except BaseException:
            self._kept = None  # whatever it is in
            raise
        finally:
            await store.close()

    async def _prepared(self) -> tuple[str, Shape]:
        if self._kept is None:
            name = self._new_name()
            self._kept = name, await _migrate(self._url, name)
        return self._kept


@asynccontextmanager
async def _opened(url: str, name: str) -> AsyncIterator[ClickHouse]:
    store = ClickHouse(url, database=name)
    try:
        yield store
    finally:
        await store.close()


async def _migrate(url: str, name: str, retention_days: int = RETENTION_DAYS) -> Shape:
    async with _opened(url, name) as store:
        await migrations.migrate(store, retention_days=retention_days)
        await store.start()
        return (await _shape(store))[0]


async def _shape(store: ClickHouse) -> tuple[Shape, set[str]]:
    """How the tables are created, and which ones hold something."""
    sql = """SELECT name, create_table_query, total_rows FROM system.tables WHERE database = currentDatabase()
        ORDER BY name"""
    found = await store.query(sql, {}, limits=QueryLimits())
    return {str(name): str(created) for name, created, _ in found}, {str(name) for name, _, rows in found if rows != 0}
