"""The relational store: SQLAlchemy Core over an async engine, SQLite by default, PostgreSQL by URL.

There is one path for both: statements are Core expressions, times go through `UtcTime`, a transaction says up front
whether it writes. What differs lives in this module: SQLite gets its pragmas at connect, `BEGIN IMMEDIATE` for writes
(a transaction that turns from reading to writing would fail instead of waiting), one writer at a time in the process.
"""

import asyncio
import sqlite3
from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, TypeVar

import sqlalchemy as sa
import structlog
from sqlalchemy import exc
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.types import TypeDecorator

from chassis.errors import ServiceUnavailable, StartupError

POOL_SIZE: Final = 5
MAX_WAIT_S: Final = 10.0  # for a connection, for the write turn, and for another process's write lock
_DRIVERS: Final = {"sqlite": ("sqlite+pysqlite", "sqlite+aiosqlite"), "postgresql": ("postgresql+psycopg",) * 2}
_WRITES: Final = "sluice_writes"
# FULL: a revocation or a new key must survive power loss; a control database commits rarely enough to afford the fsync.
_PRAGMAS: Final = (
    f"PRAGMA busy_timeout = {int(MAX_WAIT_S * 1000)}",
    "PRAGMA journal_mode = WAL",
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
)
_FAULTS_OF_THE_STATEMENT: Final = (exc.IntegrityError, exc.ProgrammingError, exc.DataError, exc.NotSupportedError)
_TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%S.%f"

E = TypeVar("E")

log = structlog.get_logger(__name__)


class DatabaseUnusable(StartupError):
    """The URL, driver or file will not do; the message is one sentence for the operator."""


class DatabaseUnavailable(ServiceUnavailable):
    """The store is away or overloaded right now; the cause says why."""

    def __init__(self) -> None:
        super().__init__("The database is not available.")


class UtcTime(TypeDecorator[datetime]):
    """An aware UTC time, to the millisecond: TIMESTAMPTZ on PostgreSQL, on SQLite RFC 3339 text, which sorts alike."""

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        return sa.String(24) if dialect.name == "sqlite" else sa.DateTime(timezone=True)

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> Any:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("times are stored with their zone")
        rounded = to_milliseconds(value)
        return format_time(rounded) if dialect.name == "sqlite" else rounded

    def process_result_value(self, value: Any, _dialect: sa.Dialect) -> datetime | None:
        if value is None:
            return None
        return datetime.fromisoformat(value) if isinstance(value, str) else value.astimezone(UTC)


def to_milliseconds(time: datetime) -> datetime:
    """The same instant in UTC, cut to whole milliseconds: what the store keeps."""
    utc = time.astimezone(UTC)
    return utc.replace(microsecond=utc.microsecond // 1000 * 1000)


def format_time(time: datetime) -> str:
    """`2026-11-20T15:17:03.123Z`."""
    return time.astimezone(UTC).strftime(_TIME_FORMAT)[:-3] + "Z"


class Database:
    """A small pool of connections; every use is one transaction.

    A transaction that cannot get what it needs (a connection, the write turn, the file, the server) raises
    DatabaseUnavailable, which is answered 503. Faults of a statement (a broken constraint) come through as they are.
    """

    name: Final = "database"

    def __init__(self, url: str, *, pool_size: int = POOL_SIZE, max_wait_s: float = MAX_WAIT_S) -> None:
        self._url = _with_driver(url, asynchronous=True)
        self._pool_size = pool_size
        self._max_wait_s = max_wait_s
        self._engine: AsyncEngine | None = None
        self._in_use = 0
        self._unused = asyncio.Event()
        self._unused.set()
        self._write_turn = asyncio.Semaphore(1 if self._url.get_backend_name() == "sqlite" else pool_size)

    async def start(self) -> None:
        """Make the pool. Nothing is connected yet, so a server that is away does not keep a service from starting."""
        options = {"pool_size": self._pool_size, "max_overflow": 0, "pool_timeout": self._max_wait_s}
        self._engine = _build_engine(self._url, lambda: create_async_engine(self._url, hide_parameters=True, **options))
        _prepare(self._engine.sync_engine)

    async def close(self) -> None:
        """Let transactions under way finish, then close every connection; later uses raise DatabaseUnavailable."""
        engine, self._engine = self._engine, None
        if engine is None:
            return
        try:
            async with asyncio.timeout(self._max_wait_s):
                await self._unused.wait()
        except TimeoutError:
            log.warning("database closed with transactions under way", transactions=self._in_use)
        await engine.dispose()

    async def probe(self) -> None:
        """Read one row of the schema's own table; raises DatabaseUnavailable."""
        async with self.read() as connection:
            await connection.execute(sa.text("SELECT version_num FROM alembic_version"))

    def read(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """A transaction that only reads, on one snapshot."""
        return self._transaction(writes=False)

    @asynccontextmanager
    async def write(self) -> AsyncIterator[AsyncConnection]:
        """A transaction that may write: committed at the end of the block, rolled back when the block raises."""
        try:
            async with asyncio.timeout(self._max_wait_s):
                await self._write_turn.acquire()
        except TimeoutError as error:
            raise DatabaseUnavailable from error
        try:
            async with self._transaction(writes=True) as connection:
                yield connection
        finally:
            self._write_turn.release()

    @asynccontextmanager
    async def _transaction(self, *, writes: bool) -> AsyncIterator[AsyncConnection]:
        if self._engine is None:
            raise DatabaseUnavailable
        self._in_use += 1
        self._unused.clear()
        try:
            async with self._connected(self._engine) as plain:
                connection = await plain.execution_options(**{_WRITES: writes})
                async with connection.begin():
                    yield connection
        except (exc.DBAPIError, exc.TimeoutError) as error:
            if is_fault_of_statement(error):
                raise
            cause = error.orig if isinstance(error, exc.DBAPIError) else error
            log.warning("database unavailable", reason=str(cause))
            raise DatabaseUnavailable from error
        finally:
            self._in_use -= 1
            if not self._in_use:
                self._unused.set()

    @asynccontextmanager
    async def _connected(self, engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
        async with engine.connect() as connection:
            try:
                yield connection
            finally:
                if self._engine is not engine:  # its pool is gone or about to go, and nobody else would close it
                    await connection.invalidate()


def is_fault_of_statement(error: exc.SQLAlchemyError) -> bool:
    """Whether the same statement would fail again on a healthy store: a broken constraint, a missing table."""
    cause = getattr(error, "orig", None)
    if isinstance(cause, sqlite3.Error):
        # The generic code stands for bad SQL; a busy, full, unreadable or damaged file has a code of its own.
        code = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        return isinstance(error, _FAULTS_OF_THE_STATEMENT) or code == sqlite3.SQLITE_ERROR
    return isinstance(error, _FAULTS_OF_THE_STATEMENT)


def migration_engine(url: str) -> sa.Engine:
    """A blocking engine on the same store, one connection, every transaction a writing one. Raises DatabaseUnusable."""
    parsed = _with_driver(url, asynchronous=False)
    engine = _build_engine(
        parsed, lambda: sa.create_engine(parsed, poolclass=sa.NullPool, execution_options={_WRITES: True})
    )
    _prepare(engine)
    return engine


def sqlite_file(url: str) -> Path | None:
    """The file behind a `sqlite://` URL; None for a server."""
    parsed = _with_driver(url, asynchronous=False)
    return Path(parsed.database or "") if parsed.get_backend_name() == "sqlite" else None


def shown(url: str) -> str:
    """The URL for people: without its password."""
    return (
        _with_driver(url, asynchronous=False).set(drivername=url.partition(":")[0]).render_as_string(hide_password=True)
    )


def _with_driver(url: str, *, asynchronous: bool) -> sa.URL:
    try:
        parsed = sa.make_url(url)
        drivers = _DRIVERS[parsed.get_backend_name()]
    except (exc.ArgumentError, KeyError, ValueError) as error:
        raise DatabaseUnusable(
            "The database URL must be sqlite:///FILE or postgresql://user:password@host/name."
        ) from error
    if parsed.get_backend_name() == "sqlite" and parsed.database in (None, "", ":memory:"):
        raise DatabaseUnusable("The database URL must name a file: sqlite:///FILE.")
    return parsed.set(drivername=drivers[asynchronous])


def _build_engine(url: sa.URL, build: Callable[[], E]) -> E:
    try:
        return build()
    except ModuleNotFoundError as error:
        needed = f"The database {url.get_backend_name()} needs the Python package {error.name}, which is not installed."
        raise DatabaseUnusable(needed) from error


def _prepare(engine: sa.Engine) -> None:
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", _configure_sqlite)
        sa.event.listen(engine, "begin", _begin_sqlite)


def _configure_sqlite(connection: Any, _record: object) -> None:
    connection.isolation_level = None  # transactions begin where `_begin_sqlite` says, not where the driver guesses
    cursor = connection.cursor()
    for pragma in _PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


def _begin_sqlite(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql("BEGIN IMMEDIATE" if writes else "BEGIN")
