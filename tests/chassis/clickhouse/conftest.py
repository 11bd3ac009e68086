"""A database without Sluice's tables: tests that make tables of their own need no migration, which takes far longer."""

from collections.abc import AsyncIterator, Callable

import pytest

from chassis.clickhouse import ClickHouse


@pytest.fixture
async def bare(clickhouse_url: str, new_database: Callable[[], str]) -> AsyncIterator[ClickHouse]:
    """A store over an empty database, which is gone afterwards."""
    name = new_database()
    store = ClickHouse(clickhouse_url, database=name)
    await store.create_database()
    await store.start()
    yield store
    await store.command(f"DROP DATABASE {name}")
    await store.close()
