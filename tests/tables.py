"""The migrated ClickHouse database of a worker: one for many tests, emptied in between, for migrating takes far longer
than most tests do. What a test left in another shape is migrated anew for the next one.
"""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from typing import Final

from chassis.clickhouse import ClickHouse, QueryLimits, migrations

RETENTION_DAYS: Final = 30

Shape = list[tuple[object, ...]]


@asynccontextmanager
async def migrated(url: str, name: str) -> AsyncIterator[ClickHouse]:
    """Tables in a database of this name, which is gone afterwards."""
    store = ClickHouse(url, database=name)
    try:
        await migrations.migrate(store, retention_days=RETENTION_DAYS)
        await store.start()
        yield store
        await store.command(f"DROP DATABASE {name}")
    finally:
        await store.close()


class KeptTables:
    """Migrated tables on the engine of one URL."""

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
            if await _shape(store) == shape:
                for table, _ in shape:
                    if table != "sluice_schema":
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
            store = ClickHouse(self._url, database=name)
            await migrations.migrate(store, retention_days=RETENTION_DAYS)
            await store.start()
            self._kept = name, await _shape(store)
            await store.close()
        return self._kept


async def _shape(store: ClickHouse) -> Shape:
    sql = "SELECT name, create_table_query FROM system.tables WHERE database = currentDatabase() ORDER BY name"
    return await store.query(sql, {}, limits=QueryLimits())
