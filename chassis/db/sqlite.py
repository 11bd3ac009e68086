"""The SQLite driver: connections that can be closed twice, and one thread call per statement.

An aiosqlite connection is a thread that takes calls from a queue until it is stopped. aiosqlite stops the thread
whenever a task closes the connection, and waits for the thread to confirm. If a task that is being cancelled closes a
connection that another task is already closing, the second task would wait for a thread that has ended. That task, and
the process at its end, would wait for ever.

A statement of a read transaction that takes too long is interrupted, as with `statement_timeout` on PostgreSQL.

Each call costs two switches between threads, which take more time than most statements. aiosqlite makes four calls for
one statement (open a cursor, execute, fetch, close the cursor). This driver makes one call, and no cursor stays open.

`SqliteSnapshot` keeps the state of a database in use at one moment, and copies it while others write.
"""

import asyncio
import contextlib
import os
import sqlite3
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from threading import Thread
from typing import Any, Final, Self
from urllib.parse import quote

import aiosqlite
import sqlalchemy as sa
from aiosqlite.core import _STOP_RUNNING_SENTINEL, set_exception, set_result

BEGIN_READ: Final = "BEGIN"
BEGIN_WRITE: Final = "BEGIN IMMEDIATE"
_ITER_CHUNK_SIZE: Final = 64  # aiosqlite's own value
_PROGRESS_STEPS: Final = 100_000  # steps of SQLite's virtual machine (some milliseconds) between two timeout checks


class SqliteConnection(aiosqlite.Connection):
    """A connection that can be closed concurrently, with cursors that execute a statement in one call.
    `read_timeout_s` limits a statement of a read transaction. Write statements need no timeout: Sluice's own code
    limits the data that they are given.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection], read_timeout_s: float) -> None:
        super().__init__(connect, _ITER_CHUNK_SIZE)
        self._read_timeout_s = read_timeout_s
        self._is_reading = False
        self._thread = Thread(target=_run_calls, args=(self._tx,), daemon=True)  # the process does not wait for it
        self._stop_requested = False
        self._stopped: asyncio.Future[Any] | None = None

    def stop(self) -> "asyncio.Future[Any] | None":
        """A future that is done when the thread has ended. None when there is no event loop any more."""
        if not self._stop_requested:
            self._stop_requested, self._stopped = True, super().stop()
        return None if self._stopped is None else asyncio.shield(self._stopped)

    def cursor(self) -> "Cursor":  # type: ignore[override]
        """Create a cursor, without a call to the thread."""
        return Cursor(self)

    async def run_statement(self, method: str, sql: str, parameters: Any) -> "_StatementResult":
        """Execute a statement in one call to the thread. `method` is a method of `sqlite3.Cursor`. Raises
        sqlite3.OperationalError (SQLITE_INTERRUPT) after the read timeout.
        """
        if sql in (BEGIN_READ, BEGIN_WRITE):
            self._is_reading = sql == BEGIN_READ
        timeout_s = self._read_timeout_s if self._is_reading else None
        result: _StatementResult = await self._execute(  # type: ignore[no-untyped-call]
            _execute_statement, self._conn, method, sql, parameters, timeout_s
        )
        return result


def _run_calls(calls: Any) -> None:
    """Run calls until the thread is stopped. An application that ends cancels the waiting tasks and may close the event
    loop before the thread has ended. The results of calls are lost then, but the waiting calls are made nevertheless,
    because they close the connection.
    """
    while True:
        future, function = calls.get()
        result, error = None, None
        try:
            result = function()
        except BaseException as raised:  # noqa: BLE001 (it is passed to the waiting task)
            error = raised
        is_told = _tell(future, result, error)
        if result is _STOP_RUNNING_SENTINEL or (not is_told and calls.empty()):
            return
        del future, function, result, error  # otherwise they would be kept until the next call


def _tell(future: "asyncio.Future[Any] | None", result: Any, error: BaseException | None) -> bool:
    """Set the result or the error of the future. False if the event loop is closed."""
    if future is None:
        return True
    try:
        if error is None:
            future.get_loop().call_soon_threadsafe(set_result, future, result)
        else:
            future.get_loop().call_soon_threadsafe(set_exception, future, error)
    except RuntimeError:  # it is closed
        return False
    return True


class Cursor:
    """The part of `aiosqlite.Cursor` that the dialect uses. All rows are in memory, also for streamed results."""

    def __init__(self, connection: SqliteConnection) -> None:
        self._connection = connection
        self._result = _StatementResult()
        self.arraysize = 1

    async def __aenter__(self) -> Self:
        return self

    async def execute(self, sql: str, parameters: Any = ()) -> Self:
        self._result = await self._connection.run_statement("execute", sql, parameters)
        return self

    async def executemany(self, sql: str, parameters: Any) -> Self:
        self._result = await self._connection.run_statement("executemany", sql, parameters)
        return self

    async def fetchall(self) -> list[Any]:
        return self._result.rows

    async def fetchone(self) -> Any:
        return next(iter(await self.fetchmany(1)), None)

    async def fetchmany(self, size: int | None = None) -> list[Any]:
        rows = self._result.rows
        batch = rows[: size or self.arraysize]
        del rows[: len(batch)]
        return batch

    async def close(self) -> None:
        """Do nothing, because no SQLite cursor is open."""

    @property
    def description(self) -> Any:
        return self._result.description

    @property
    def rowcount(self) -> int:
        return self._result.rowcount

    @property
    def lastrowid(self) -> int | None:
        return self._result.lastrowid


@dataclass(frozen=True, slots=True)
class _StatementResult:
    """The result of a statement, with the attributes of a PEP 249 cursor."""

    description: Any = None
    rows: list[Any] = field(default_factory=list)
    rowcount: int = -1
    lastrowid: int | None = None


def _execute_statement(
    connection: sqlite3.Connection, method: str, sql: str, parameters: Any, timeout_s: float | None
) -> _StatementResult:
    with contextlib.closing(connection.cursor()) as cursor, _interrupted_after(connection, timeout_s):
        getattr(cursor, method)(sql, parameters)
        rows = cursor.fetchall() if cursor.description else []
        return _StatementResult(cursor.description, rows, cursor.rowcount, cursor.lastrowid)


@contextlib.contextmanager
def _interrupted_after(connection: sqlite3.Connection, timeout_s: float | None) -> Iterator[None]:
    if timeout_s is None:
        yield
        return
    deadline = time.monotonic() + timeout_s
    connection.set_progress_handler(lambda: time.monotonic() > deadline, _PROGRESS_STEPS)
    try:
        yield
    finally:
        connection.set_progress_handler(None, 0)


async def compact(connection: Any) -> None:
    """Rewrite the file of a connection (SqliteConnection) outside a transaction, and empty its write-ahead log. Raises
    sqlite3.OperationalError, for example when other connections use the file for longer than the busy timeout.
    """
    await connection.run_statement("execute", "VACUUM", ())
    ((is_busy, *_),) = (await connection.run_statement("execute", "PRAGMA wal_checkpoint(TRUNCATE)", ())).rows
    if is_busy:
        raise sqlite3.OperationalError("the write-ahead log is in use")


class _RollbackOnClose(sqlite3.Connection):
    """A connection that rolls back its transaction when it is closed. SQLite keeps a closed connection and its lock as
    long as a cursor of the connection is referenced, for example by the traceback of a cancelled task.
    """

    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error):  # already closed, or the file is unavailable
            self.rollback()
        super().close()


def connection_factory(url: sa.URL, read_timeout_s: float) -> Callable[[], SqliteConnection]:
    """The function with which an engine opens connections. `read_timeout_s` limits a statement of a read
    transaction.
    """
    arguments, options = url.get_dialect()().create_connect_args(url)
    connect = partial(sqlite3.connect, *arguments, factory=_RollbackOnClose, **options)
    return partial(SqliteConnection, connect, read_timeout_s)


WAIT_S: Final = 5.0  # for a writer that is about to change the journal mode, or for recovery


class SqliteSnapshot:
    """An open read transaction. In WAL mode the transaction sees one state of the database, and delays no writer."""

    def __init__(self, file: Path) -> None:
        """Begin the transaction. Raises sqlite3.Error."""
        self._connection = sqlite3.connect(
            f"file:{quote(str(file))}?mode=rw", uri=True, timeout=WAIT_S, isolation_level=None, check_same_thread=False
        )
        try:
            self._connection.execute("BEGIN")
            # From this statement on, the transaction sees one state.
            self._connection.execute("SELECT count(*) FROM sqlite_schema").fetchone()
        except BaseException:
            self._connection.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_error: object) -> None:
        self._connection.close()

    def revision(self) -> str:
        """The revision of the schema (Alembic's). Raises sqlite3.Error."""
        return str(self._connection.execute("SELECT version_num FROM alembic_version").fetchone()[0])

    def copy_to(self, target: Path) -> None:
        """Copy the state to a new file with mode 0600. The file is on disk when this function returns. Blocks, without
        holding the interpreter's lock. Raises sqlite3.Error, OSError.
        """
        os.close(os.open(target, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o600))
        with closing(sqlite3.connect(target)) as copy:
            self._connection.backup(copy)
        with target.open("rb") as file:
            os.fsync(file.fileno())
