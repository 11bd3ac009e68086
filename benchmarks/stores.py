"""The stores that benchmarks fill: relational databases, and the tables of an embedded engine."""

from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path

from benchmarks.command import DATABASES
from chassis.clickhouse import ClickHouse, migrations
from chassis.clickhouse.stored_time import StoredTimeFloor
from chassis.db.database import Database
from tests.postgresql import running


def wanted_databases(option: str) -> Sequence[str]:
    """The names of those that `--database` names."""
    return DATABASES if option == "both" else (option,)


@contextmanager
def database(name: str, directory: Path) -> Iterator[str]:
    """The URL of an empty database in a new directory; that of PostgreSQL as a deployment has it."""
    directory.mkdir(parents=True)
    if name == "sqlite":
        yield f"sqlite:///{directory / 'sluice.db'}"
        return
    settings = {"fsync": "on", "autovacuum": "on", "shared_buffers": "128MB"}
    with running(directory / "server", settings=settings) as server:
        yield server.new_database()


@asynccontextmanager
async def opened(url: str) -> AsyncIterator[Database]:
    """The relational store at a URL; a transaction waits for as long as a slow benchmark takes."""
    store = Database(url, max_wait_s=120)
    await store.start()
    try:
        yield store
    finally:
        await store.close()


@asynccontextmanager
async def tables(directory: Path, retention_days: int = 0) -> AsyncIterator[ClickHouse]:
    """An embedded engine with the product's tables, by its migrations; rows are kept for ever."""
    clickhouse = ClickHouse(f"chdb://{directory}", timeout_s=120, stored_time_floor=StoredTimeFloor())
    await clickhouse.start()
    try:
        await migrations.migrate(clickhouse, retention_days=retention_days)
        yield clickhouse
    finally:
        await clickhouse.close()
