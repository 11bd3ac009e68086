"""SQLite under the relational store: connections that end once, and do a statement in one order.

A connection is a thread, which takes its orders from a queue until it is told to stop. aiosqlite tells it so each time
that somebody closes the connection, and waits for the thread to have heard: whoever comes second, when a task that is
being cancelled closes what another is closing, waits for a thread that is gone, for ever, and the process with him at
its end.

Each order costs two switches between threads, which is more than most statements do. aiosqlite gives four for one
statement (a cursor, the statement, its rows, the cursor's end); here it is one, and no cursor is left behind.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final, Self

import aiosqlite
import sqlalchemy as sa

_ITER_CHUNK_SIZE: Final = 64  # aiosqlite's own value


class SqliteConnection(aiosqlite.Connection):
    """Whoever closes it waits for the one end that there is; a cursor of it does a statement as a whole."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        super().__init__(connect, _ITER_CHUNK_SIZE)
        self._thread.daemon = True  # a process that ends waits for none of them
        self._stop_requested = False
        self._stopped: asyncio.Future[Any] | None = None

    def stop(self) -> "asyncio.Future[Any] | None":
        """Done when the thread has ended; None where there is no event loop any more."""
        if not self._stop_requested:
            self._stop_requested, self._stopped = True, super().stop()
        return None if self._stopped is None else asyncio.shield(self._stopped)

    def cursor(self) -> "Cursor":  # type: ignore[override]
        """Asks nothing of the thread yet."""
        return Cursor(self)

    async def run_statement(self, method: str, sql: str, parameters: Any) -> "_StatementResult":
        """A statement, in one order; `how` is the name of a method of `sqlite3.Cursor`."""
        done: _StatementResult = await self._execute(_execute_statement, self._conn, method, sql, parameters)  # type: ignore[no-untyped-call]
        return done


class Cursor:
    """As much of an `aiosqlite.Cursor` as the dialect uses. All rows are in memory, those of streams too."""

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
        taken = rows[: size or self.arraysize]
        del rows[: len(taken)]
        return taken

    async def close(self) -> None:
        """Nothing is open."""

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
    """What came of a statement, as PEP 249 has it."""

    description: Any = None
    rows: list[Any] = field(default_factory=list)
    rowcount: int = -1
    lastrowid: int | None = None


def _execute_statement(connection: sqlite3.Connection, how: str, sql: str, parameters: Any) -> _StatementResult:
    with contextlib.closing(connection.cursor()) as cursor:
        getattr(cursor, how)(sql, parameters)
        rows = cursor.fetchall() if cursor.description else []
        return _StatementResult(cursor.description, rows, cursor.rowcount, cursor.lastrowid)


class _RollbackOnClose(sqlite3.Connection):
    """One that ends its transaction with itself. SQLite keeps a closed connection alive, and its lock, for as long as
    somebody has a cursor of it: the traceback of a task that was cancelled does.
    """

    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error):  # closed already, or the file is away
            self.rollback()
        super().close()


def connection_factory(url: sa.URL) -> Callable[[], SqliteConnection]:
    """What makes an engine's connections."""
    arguments, options = url.get_dialect()().create_connect_args(url)
    return partial(SqliteConnection, partial(sqlite3.connect, *arguments, factory=_RollbackOnClose, **options))
