"""The database: SQLAlchemy Core over an async engine, SQLite by default, PostgreSQL by URL.

Both databases use the same code: statements are Core expressions, times are `UtcTime`, strings are `text`, and a
transaction declares at its start whether it writes. Write transactions are serialized, in this process and across
processes. SQLite has no alternative (`BEGIN IMMEDIATE`: a transaction that first reads and then writes would fail
instead of waiting), and on PostgreSQL an advisory lock does the same. So the data that a write transaction has read is
still current when the transaction writes, no transaction fails because of another one, and both databases give the same
guarantees. A control database has few enough writes for this.
"""

import asyncio
import sqlite3
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import AbstractAsyncContextManager, AsyncExitStack, asynccontextmanager, contextmanager
from datetime import UTC, datetime
from enum import StrEnum
from functools import partial
from pathlib import Path
from typing import Any, Final, Self

import sqlalchemy as sa
import structlog
from sqlalchemy import exc
from sqlalchemy.ext.asyncio import AsyncConnection, AsyncEngine, create_async_engine
from sqlalchemy.types import TypeDecorator

from chassis.db import sqlite
from chassis.errors import ServiceUnavailable, StartupError
from chassis.runtime.settings import ChassisSettings

POOL_SIZE: Final = 5
MAX_WAIT_S: Final = 5.0  # for the begin of a transaction (connection, write lock), and again for each response
MIGRATION_WAIT_S: Final = 600.0  # for each response; another process may be migrating
# An outage counts as over after this time without a failure, so that a partial outage is logged once.
RECOVERED_AFTER_S: Final = 1.0
_WAL_RETRY_S: Final = 0.01
_DRIVERS: Final = {"sqlite": ("sqlite+pysqlite", "sqlite+aiosqlite"), "postgresql": ("postgresql+psycopg",) * 2}
_WRITES: Final = "sluice_writes"
_READ_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "sqlite": {_WRITES: False},
    "postgresql": {_WRITES: False, "isolation_level": "REPEATABLE READ"},  # one snapshot
}
_WRITE_OPTIONS: Final[dict[str, dict[str, Any]]] = {
    "sqlite": {_WRITES: True},
    # Each statement sees what was committed before it. One snapshot for all could be older than the write lock.
    "postgresql": {_WRITES: True, "isolation_level": "READ COMMITTED"},
}
# FULL: a revocation or a new key must survive power loss, and a control database commits rarely enough for the fsync.
# secure_delete: deleted values are overwritten with zeros instead of remaining in free pages.
_PRAGMAS: Final = (
    "PRAGMA synchronous = FULL",
    "PRAGMA foreign_keys = ON",
    "PRAGMA secure_delete = ON",
)
_ACQUIRE_WRITE_LOCK: Final = f"SELECT pg_advisory_xact_lock({int.from_bytes(b'sluice', 'big')})"
_STATEMENT_ERRORS: Final = (exc.IntegrityError, exc.ProgrammingError, exc.DataError, exc.NotSupportedError)
_TIME_FORMAT: Final = "%Y-%m-%dT%H:%M:%S.%f"

log = structlog.get_logger(__name__)


class DatabaseUnusable(StartupError):
    """The URL, driver or file cannot be used. The message is one sentence for the operator."""


class DatabaseUnavailable(ServiceUnavailable):
    """The database is unavailable or overloaded (503). The exception's cause has the reason."""

    def __init__(self) -> None:
        super().__init__("The database is temporarily unavailable. Retry later.")


class UtcTime(TypeDecorator[datetime]):
    """An aware UTC time in milliseconds: TIMESTAMPTZ on PostgreSQL, and RFC 3339 text, which sorts the same way, on
    SQLite.
    """

    impl = sa.DateTime(timezone=True)
    cache_ok = True

    def load_dialect_impl(self, dialect: sa.Dialect) -> sa.types.TypeEngine[Any]:
        return sa.String(24) if dialect.name == "sqlite" else sa.DateTime(timezone=True)

    def process_bind_param(self, value: datetime | None, dialect: sa.Dialect) -> Any:
        if value is None:
            return None
        if value.tzinfo is None:
            raise ValueError("a stored time requires a time zone")
        rounded = to_milliseconds(value)
        return format_time(rounded) if dialect.name == "sqlite" else rounded

    def process_result_value(self, value: Any, _dialect: sa.Dialect) -> datetime | None:
        if value is None:
            return None
        return datetime.fromisoformat(value) if isinstance(value, str) else value.astimezone(UTC)


def to_milliseconds(time: datetime) -> datetime:
    """The same instant in UTC, truncated to the milliseconds that the database stores."""
    utc = time.astimezone(UTC)
    return utc.replace(microsecond=utc.microsecond // 1000 * 1000)


def format_time(time: datetime) -> str:
    """RFC 3339 in UTC with milliseconds: `2026-11-20T15:17:03.123Z`."""
    return time.astimezone(UTC).strftime(_TIME_FORMAT)[:-3] + "Z"


def text(length: int) -> sa.types.TypeEngine[str]:
    """Text that compares by code point in both databases, regardless of the collation of a PostgreSQL database."""
    return sa.String(length).with_variant(sa.String(length, collation="C"), "postgresql")


def enum_check(column: str, values: type[StrEnum]) -> sa.CheckConstraint:
    """A CHECK constraint that limits a column to the values of an enum."""
    quoted = ", ".join(f"'{value}'" for value in values)
    return sa.CheckConstraint(f"{column} IN ({quoted})", name=column)


class Database:
    """A small pool of connections; every use is one transaction.

    A transaction that cannot get a connection, the write lock, the file or the server raises DatabaseUnavailable, which
    becomes a 503. It raises within `max_wait_s` when the transaction cannot begin, and within another `max_wait_s` when
    a response is missing. Errors of a statement, such as a violated constraint, are raised unchanged. They end the
    transaction, because PostgreSQL accepts no further statement in it.
    """

    name: Final = "database"

    def __init__(self, url: str, *, pool_size: int = POOL_SIZE, max_wait_s: float = MAX_WAIT_S) -> None:
        self._url = _with_driver(url, asynchronous=True)
        self._pool_size = pool_size
        self._max_wait_s = max_wait_s
        self._engine: AsyncEngine | None = None
        self._active_transactions = 0
        self._idle = asyncio.Event()
        self._idle.set()
        self._write_lock = asyncio.Semaphore(1)
        self._outage_log = _OutageLog()

    @classmethod
    def from_settings(cls, settings: ChassisSettings) -> Self:
        """The database that the settings name."""
        return cls(
            settings.effective_database_url,
            pool_size=settings.database_connections,
            max_wait_s=settings.database_timeout_s,
        )

    async def start(self) -> None:
        """Create the pool. No connection is opened yet, so a service can start while its server is unavailable."""
        pool = {"pool_size": self._pool_size, "max_overflow": 0, "pool_timeout": self._max_wait_s}
        with _report_missing_driver(self._url):
            options = _engine_options(self._url, self._max_wait_s, asynchronous=True)
            self._engine = create_async_engine(self._url, **pool, **options)
        _register_listeners(self._engine.sync_engine, self._max_wait_s)

    async def close(self) -> None:
        """Wait for active transactions, then close every connection. Later uses raise DatabaseUnavailable."""
        engine, self._engine = self._engine, None
        if engine is None:
            return
        try:
            async with asyncio.timeout(self._max_wait_s):
                await self._idle.wait()
        except TimeoutError:
            log.warning("database closed with transactions in progress", transactions=self._active_transactions)
        await engine.dispose()

    async def probe(self) -> None:
        """Read one row of Alembic's version table; raises DatabaseUnavailable."""
        async with self.read() as connection:
            await connection.execute(sa.text("SELECT version_num FROM alembic_version"))

    async def compact(self) -> None:
        """Rewrite a SQLite file without the remains of deleted rows, and empty its write-ahead log. Pages may contain
        copies of cells that were moved before they were deleted, and the log contains earlier versions of pages.
        Writers wait meanwhile. Does nothing on PostgreSQL, whose own vacuum frees the rows. Raises DatabaseUnavailable,
        for example when another process uses the file for longer than `max_wait_s`.
        """
        engine = self._engine
        if engine is None:
            raise DatabaseUnavailable
        if engine.dialect.name != "sqlite":
            return
        try:
            async with self._write_lock, self._checkout(engine) as connection:
                driver = (await connection.get_raw_connection()).driver_connection
                await sqlite.compact(driver)
        except (exc.DBAPIError, exc.TimeoutError, sqlite3.Error) as error:
            self._outage_log.failed(str(error))
            raise DatabaseUnavailable from error

    def read(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """A read-only transaction on one snapshot."""
        return self._transaction(writes=False)

    def write(self) -> AbstractAsyncContextManager[AsyncConnection]:
        """A transaction that may write: committed at the end of the block, rolled back when the block raises."""
        return self._transaction(writes=True)

    @asynccontextmanager
    async def _transaction(self, *, writes: bool) -> AsyncIterator[AsyncConnection]:
        engine = self._engine
        if engine is None:
            raise DatabaseUnavailable
        self._active_transactions += 1
        self._idle.clear()
        try:
            async with AsyncExitStack() as stack:
                yield await self._begin_transaction(stack, engine, writes=writes)
            self._outage_log.succeeded()
        except (exc.DBAPIError, exc.TimeoutError) as error:
            if is_statement_error(error):
                raise
            self._outage_log.failed(str(error.orig if isinstance(error, exc.DBAPIError) else error))
            raise DatabaseUnavailable from error
        finally:
            self._active_transactions -= 1
            if not self._active_transactions:
                self._idle.set()

    async def _begin_transaction(self, stack: AsyncExitStack, engine: AsyncEngine, *, writes: bool) -> AsyncConnection:
        """A connection inside a transaction. Closing `stack` ends the transaction and releases the connection."""
        try:
            async with asyncio.timeout(self._max_wait_s):
                if writes:
                    await stack.enter_async_context(self._write_lock)
                connection = await stack.enter_async_context(self._checkout(engine))
                await connection.execution_options(**(_WRITE_OPTIONS if writes else _READ_OPTIONS)[engine.dialect.name])
                if writes:
                    await stack.enter_async_context(connection.begin())
                else:
                    await connection.begin()  # never committed: returning the connection to the pool rolls back
        except TimeoutError as error:
            self._outage_log.failed(f"no transaction could start within {self._max_wait_s:g} s")
            raise DatabaseUnavailable from error
        return connection

    @asynccontextmanager
    async def _checkout(self, engine: AsyncEngine) -> AsyncIterator[AsyncConnection]:
        async with engine.connect() as connection:
            try:
                yield connection
            finally:
                if self._engine is not engine:  # a disposed pool would not close the connection
                    await connection.invalidate()


class _OutageLog:
    """Logs the begin and the end of an outage, instead of every failed request."""

    def __init__(self) -> None:
        self._is_down = False
        self._failed_at = 0.0

    def failed(self, reason: str) -> None:
        """A transaction failed or could not begin."""
        self._failed_at = time.monotonic()
        if not self._is_down:
            self._is_down = True
            log.warning("database unavailable", reason=one_line(reason))

    def succeeded(self) -> None:
        """A transaction succeeded."""
        if self._is_down and time.monotonic() - self._failed_at >= RECOVERED_AFTER_S:
            self._is_down = False
            log.warning("database recovered")


def one_line(reason: str) -> str:
    """A driver's error, which may span several lines, as one line for a log or a message. libpq does not end its lines
    with full stops, so a line that begins with a capital letter becomes a sentence of its own.
    """
    line = ""
    for part in (" ".join(each.split()) for each in reason.splitlines()):
        if line and part:
            line += ". " if line[-1] not in ".,:;?!" and part[0].isupper() else " "
        line += part
    return line


def is_statement_error(error: exc.SQLAlchemyError) -> bool:
    """Whether the same statement would fail again on a healthy database: a violated constraint, a missing table."""
    cause = getattr(error, "orig", None)
    if isinstance(cause, sqlite3.Error):
        # The generic code means that the SQL is wrong. A busy, full, unreadable or damaged file has another code.
        code = getattr(cause, "sqlite_errorcode", sqlite3.SQLITE_ERROR) & 0xFF
        return isinstance(error, _STATEMENT_ERRORS) or code == sqlite3.SQLITE_ERROR
    return isinstance(error, _STATEMENT_ERRORS)


def migration_engine(url: str, max_wait_s: float = MIGRATION_WAIT_S) -> sa.Engine:
    """A blocking engine for the same database, with one connection and write transactions only. Raises
    DatabaseUnusable.
    """
    parsed = _with_driver(url, asynchronous=False)
    write_options = _WRITE_OPTIONS[parsed.get_backend_name()]
    with _report_missing_driver(parsed):
        options = _engine_options(parsed, max_wait_s, asynchronous=False)
        engine = sa.create_engine(parsed, poolclass=sa.NullPool, execution_options=write_options, **options)
    _register_listeners(engine, max_wait_s)
    return engine


def server_version(connection: sa.Connection) -> str:
    """`PostgreSQL 18.4`, `SQLite 3.46.0`."""
    dialect = connection.dialect
    names = {"sqlite": "SQLite", "postgresql": "PostgreSQL"}
    return f"{names[dialect.name]} {'.'.join(map(str, dialect.server_version_info or ()))}"


def sqlite_file(url: str) -> Path | None:
    """The file of a `sqlite://` URL. None for a server."""
    parsed = _with_driver(url, asynchronous=False)
    return Path(parsed.database or "") if parsed.get_backend_name() == "sqlite" else None


def redacted_url(url: str) -> str:
    """The URL for messages: without the password, and without options, which may contain another password."""
    parsed = _with_driver(url, asynchronous=False)
    return parsed.set(drivername=url.partition(":")[0], query={}).render_as_string(hide_password=True)


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
    if parsed.get_backend_name() == "postgresql" and url.partition("?")[0].count("@") > 1:
        # A part of the password would be parsed as the host, and would be shown.
        raise DatabaseUnusable("The database URL contains more than one @. Encode an @ in the user or password as %40.")
    return parsed.set(drivername=drivers[asynchronous])


def _engine_options(url: sa.URL, max_wait_s: float, *, asynchronous: bool) -> dict[str, Any]:
    """The engine options that depend on the database."""
    options: dict[str, Any] = {"hide_parameters": True}
    if url.get_backend_name() == "postgresql":
        from chassis.db import postgresql  # noqa: PLC0415 - the driver is installed only where a server is used

        options["pool_pre_ping"] = asynchronous  # replaces connections that broke when the server was restarted
        if asynchronous:
            options["async_creator"] = postgresql.connection_factory(
                postgresql.AsyncPostgresConnection, url, max_wait_s
            )
        else:
            options["creator"] = postgresql.connection_factory(postgresql.PostgresConnection, url, max_wait_s)
    elif asynchronous:
        options["async_creator"] = sqlite.connection_factory(url, max_wait_s)
    return options


@contextmanager
def _report_missing_driver(url: sa.URL) -> Iterator[None]:
    try:
        yield
    except ModuleNotFoundError as error:
        backend = url.get_backend_name()
        message = (
            f"The database {backend} needs the Python package {error.name}, which is not installed: "
            f"pip install 'sluice[{backend}]'."
        )
        raise DatabaseUnusable(message) from error


def _register_listeners(engine: sa.Engine, max_wait_s: float) -> None:
    if engine.dialect.name == "sqlite":
        sa.event.listen(engine, "connect", partial(_configure_sqlite, max_wait_s))
        sa.event.listen(engine, "begin", _begin_sqlite)
    else:
        sa.event.listen(engine, "begin", _begin_postgresql)


def _configure_sqlite(max_wait_s: float, connection: Any, _record: object) -> None:
    connection.isolation_level = None  # `_begin_sqlite` begins transactions, and the driver must not begin them itself
    cursor = connection.cursor()
    cursor.execute(f"PRAGMA busy_timeout = {round(max_wait_s * 1_000)}")
    _enter_wal_mode(cursor, max_wait_s)
    for pragma in _PRAGMAS:
        cursor.execute(pragma)
    cursor.close()


def _enter_wal_mode(cursor: Any, max_wait_s: float) -> None:
    """Set write-ahead logging, which is a property of the file. If several connections set it at the same time in a new
    file, one of them immediately gets "database is locked" despite its busy timeout, because SQLite does not wait where
    waiting could be a deadlock. Migrations open a new file outside of an event loop, so this function may sleep.
    """
    deadline = time.monotonic() + max_wait_s
    while True:
        try:
            cursor.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() >= deadline:
                raise
            time.sleep(_WAL_RETRY_S)
        else:
            return


def _begin_sqlite(connection: sa.Connection) -> None:
    writes = connection.get_execution_options().get(_WRITES, False)
    connection.exec_driver_sql(sqlite.BEGIN_WRITE if writes else sqlite.BEGIN_READ)


def _begin_postgresql(connection: sa.Connection) -> None:
    if connection.get_execution_options().get(_WRITES, False):
        connection.exec_driver_sql(_ACQUIRE_WRITE_LOCK)
