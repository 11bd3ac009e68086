"""The embedded ClickHouse engine of the test session: one directory per process, a database of its own per test."""

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import clickhouse_connect
import pytest

from chassis import schema
from chassis.clickhouse import ClickHouse
from tests.postgresql import PostgreSQL
from tests.postgresql import running as running_postgresql

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def clickhouse_url() -> Iterator[str]:
    """URL of the session's engine, kept open so that tests do not restart it."""
    with TemporaryDirectory(prefix="sluice-test-") as parent:
        directory = Path(parent).resolve() / "chdb"
        anchor = clickhouse_connect.get_client(interface="chdb", path=str(directory))
        yield f"chdb://{directory}"
        anchor.close()


@pytest.fixture
def new_database() -> Callable[[], str]:
    """Names of databases that no other test uses."""
    return lambda: f"t_{next(_numbers)}"


@pytest.fixture
async def clickhouse(clickhouse_url: str, new_database: Callable[[], str]) -> AsyncIterator[ClickHouse]:
    """Migrated tables in a fresh database, rows kept for 30 days."""
    store = ClickHouse(clickhouse_url, database=(name := new_database()))
    await schema.migrate(store, retention_days=30)
    await store.start()
    yield store
    await store.command(f"DROP DATABASE {name}")
    await store.close()


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgreSQL]:
    """The session's PostgreSQL server, started by the first test that asks for it."""
    with running_postgresql(tmp_path_factory.mktemp("postgresql")) as server:
        yield server
