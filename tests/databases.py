"""The relational stores of the tests: what takes one of these fixtures is tested on SQLite and on PostgreSQL.

The PostgreSQL server starts with the first test that needs it. A schema is migrated once for each of them.
"""

import shutil
from collections import defaultdict
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import psycopg
import pytest
from psycopg import sql
from sqlalchemy.engine import Engine
from sqlalchemy.engine.default import DefaultDialect
from sqlalchemy.util import LRUCache

from chassis.db.database import Database
from chassis.db.migrations import migrate, versions
from tests.postgresql import PostgreSQL, running

REVISIONS = sorted(file.name[:4] for file in Path(versions.__file__ or "").parent.glob("[0-9]*.py"))

STORES = ("sqlite", pytest.param("postgresql", marks=pytest.mark.second_store))
WAIT_S = 6.0  # for a transaction to begin: the disks of a machine that runs several suites hold a sync for seconds

_COLUMNS = (
    "SELECT relname, attname FROM pg_attribute JOIN pg_class ON pg_class.oid = attrelid"
    " WHERE relnamespace = 'public'::regnamespace AND NOT attisdropped ORDER BY 1, 2"
)
_TABLES = (
    "SELECT tablename FROM pg_tables WHERE schemaname = 'public' AND tablename <> 'alembic_version' ORDER BY tablename"
)


def pytest_configure() -> None:
    """Let engines of one dialect share the statements that they have compiled. SQLAlchemy keeps them by engine, and
    each test has an engine of its own: compiling took a quarter of the time of the tests of control.
    """
    compiled: dict[type, LRUCache[object, object]] = defaultdict(lambda: LRUCache(2_000))
    shared = property(lambda self: compiled[type(self.dialect)], lambda self, value: None)  # noqa: ARG005 (not its own)
    Engine._compiled_cache = shared  # type: ignore[assignment]
    # The dialect is a part of the key of a compiled statement.
    DefaultDialect.__hash__ = lambda self: hash(type(self))  # type: ignore[method-assign]
    DefaultDialect.__eq__ = lambda self, other: type(self) is type(other)  # type: ignore[method-assign]


@pytest.fixture(scope="session")
def postgresql(tmp_path_factory: pytest.TempPathFactory) -> Iterator[PostgreSQL]:
    """The session's server. Whoever stops, kills or pauses one takes one for himself."""
    with running(tmp_path_factory.mktemp("postgresql")) as server:
        yield server


@pytest.fixture(params=STORES)
def database_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """URL of a store of its own, without a schema."""
    if request.param == "sqlite":
        yield f"sqlite:///{tmp_path / 'sluice.db'}"
        return
    server: PostgreSQL = request.getfixturevalue("postgresql")
    url = server.new_database()
    yield url
    server.drop_database(url)


@pytest.fixture(params=STORES)
def migrated_url(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[str]:
    """URL of a store of its own, with the schema of this release."""
    if request.param == "sqlite":
        shutil.copyfile(request.getfixturevalue("migrated_file"), tmp_path / "sluice.db")
        yield f"sqlite:///{tmp_path / 'sluice.db'}"
        return
    kept: MigratedDatabase = request.getfixturevalue("migrated_database")
    yield kept.url
    kept.clear()


@pytest.fixture
async def database(migrated_url: str) -> AsyncIterator[Database]:
    """Open, of the newest schema, and empty."""
    database = Database(migrated_url, max_wait_s=WAIT_S)
    await database.start()
    yield database
    await database.close()


class MigratedDatabase:
    """One PostgreSQL database for many tests, emptied in between: making one takes far longer than most tests."""

    def __init__(self, server: PostgreSQL) -> None:
        self._server = server
        self._make()

    def _make(self) -> None:
        self.url = self._server.new_database()
        migrate(self.url)
        with self._connect() as connection:
            self._columns = connection.execute(_COLUMNS).fetchall()
            deletions = [
                sql.SQL("DELETE FROM {};").format(sql.Identifier(table)) for (table,) in connection.execute(_TABLES)
            ]
        # without triggers and foreign keys; in one message, which is one transaction
        self._emptying = sql.SQL("").join([sql.SQL("SET session_replication_role = replica;"), *deletions])

    def _connect(self) -> psycopg.Connection:
        return self._server.connect(self.url.rpartition("/")[2])

    def clear(self) -> None:
        """Break off what a test has left open, then remove its rows; a new one when it has changed the tables."""
        with self._connect() as connection:
            connection.execute(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity"
                " WHERE datname = current_database() AND pid <> pg_backend_pid()"
            )
            if connection.execute(_COLUMNS).fetchall() != self._columns:
                self._make()
                return
            connection.execute(self._emptying)


@pytest.fixture(scope="session")
def migrated_file(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A SQLite file to copy."""
    file = tmp_path_factory.mktemp("migrated") / "sluice.db"
    migrate(f"sqlite:///{file}")
    return file


@pytest.fixture(scope="session")
def migrated_database(postgresql: PostgreSQL) -> MigratedDatabase:
    """The session's PostgreSQL database with the schema of this release."""
    return MigratedDatabase(postgresql)
