"""The two ClickHouse engines of the test session, each with one directory, and a database of its own per test."""

import itertools
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import clickhouse_connect
import pytest
from clickhouse_connect.driver._chdbclient import ChdbClient

from chassis.clickhouse import ClickHouse
from tests.engine.process import Engine
from tests.tables import CopiedTables, KeptTables

_numbers = itertools.count(1)


def pytest_configure() -> None:
    """Read the version and the settings of the embedded engine once per process. Each client reads them when it opens,
    which takes 10 ms of CPU, and most tests on ClickHouse open three clients.
    """
    read, apply = ChdbClient._init_common_settings, ChdbClient._apply_init_result
    results: list[Any] = []

    def read_once(client: ChdbClient, source: Any) -> None:
        if results:
            client.command("SELECT 1")  # fails for a missing database, as the first read does
            apply(client, results[0])
        else:
            read(client, source)

    def keep(client: ChdbClient, result: Any) -> None:
        results.append(result)
        apply(client, result)

    for name, method in (("_init_common_settings", read_once), ("_apply_init_result", keep)):
        setattr(ChdbClient, name, method)


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


@pytest.fixture(scope="session")
def kept_tables() -> dict[str, KeptTables]:
    """By URL of an engine."""
    return {}


@pytest.fixture(scope="session")
def copied_tables() -> dict[str, CopiedTables]:
    """By URL of an engine."""
    return {}


@pytest.fixture
async def clickhouse(
    clickhouse_url: str, new_database: Callable[[], str], kept_tables: dict[str, KeptTables]
) -> AsyncIterator[ClickHouse]:
    """Migrated and empty tables, rows kept for 30 days. Whoever changes the tables leaves them to nobody."""
    kept = kept_tables.setdefault(clickhouse_url, KeptTables(clickhouse_url, new_database))
    async with kept.empty() as store:
        yield store
