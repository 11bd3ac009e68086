"""The two ClickHouse engines of the test session, each with one directory, and a database of its own per test."""

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import clickhouse_connect
import pytest

from chassis import schema
from chassis.clickhouse import ClickHouse
from tests.engine.process import Engine

_numbers = itertools.count(1)


@pytest.fixture(scope="session")
def embedded_url() -> Iterator[str]:
    """URL of the engine in this process, kept open so that tests do not restart it."""
    with TemporaryDirectory(prefix="sluice-test-") as parent:
        directory = Path(parent).resolve() / "chdb"
        anchor = clickhouse_connect.get_client(interface="chdb", path=str(directory))
        yield f"chdb://{directory}"
        anchor.close()


@pytest.fixture(scope="session")
def engine() -> Iterator[Engine]:
    """The engine as a server of its own. Whoever stops it, kills it or wants other options takes one for himself."""
    with TemporaryDirectory(prefix="sluice-test-") as parent:
        engine = Engine(Path(parent).resolve() / "engine")
        engine.start()
        yield engine
        engine.stop()


@pytest.fixture(scope="session", params=["embedded", pytest.param("http", marks=pytest.mark.second_store)])
def clickhouse_url(request: pytest.FixtureRequest) -> str:
    """URL of one engine, then of the other: what takes this is tested on both."""
    if request.param == "embedded":
        return str(request.getfixturevalue("embedded_url"))
    return str(request.getfixturevalue("engine").url)


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
