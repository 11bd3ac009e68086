"""Connections to SQLite do a statement in one order, and end, whoever closes them, how often and at what moment."""

import asyncio
import contextlib
import gc
import sqlite3
import warnings
from pathlib import Path
from threading import Event
from typing import Any

import pytest
import sqlalchemy as sa

from chassis.db.database import Database, DatabaseUnavailable
from chassis.db.sqlite import SqliteConnection, connection_factory


async def opened(path: Path) -> SqliteConnection:
    made = connection_factory(sa.make_url(f"sqlite+aiosqlite:///{path / 'x.db'}"), 5.0)()
    await made
    return made


async def test_who_closes_what_was_told_to_stop_waits_for_nothing(tmp_path: Path) -> None:
    """As a task does that is cancelled a second time while it closes its connection."""
    connection = await opened(tmp_path)
    closing = asyncio.create_task(connection.close())
    await asyncio.sleep(0)
    connection.stop()
    async with asyncio.timeout(5):
        await asyncio.gather(closing, return_exceptions=True)
        await connection.close()


async def test_whoever_is_cancelled_while_he_waits_for_the_end_takes_it_from_nobody(tmp_path: Path) -> None:
    connection = await opened(tmp_path)
    first, second = connection.stop(), connection.stop()
    if first is None or second is None:
        pytest.fail("there is an event loop")
    first.cancel()
    async with asyncio.timeout(5):
        await second


async def test_a_transaction_ends_with_its_connection_whoever_still_has_a_cursor(tmp_path: Path) -> None:
    connection, other = await opened(tmp_path), await opened(tmp_path)
    await connection.execute("BEGIN IMMEDIATE")
    cursor = await connection.execute("VALUES (1), (2)")  # its rows are not read
    await connection.close()
    await other.execute("PRAGMA busy_timeout = 0")
    await other.execute("BEGIN IMMEDIATE")
    await other.close()
    del cursor


async def test_tasks_that_are_cancelled_twice_leave_nothing_that_waits(tmp_path: Path) -> None:
    """At every step of a transaction."""
    database = Database(f"sqlite:///{tmp_path / 'x.db'}", max_wait_s=2.0)
    await database.start()

    async def work() -> None:
        async with database.write() as connection:
            await connection.execute(sa.text("SELECT 1"))

    before = asyncio.all_tasks()
    for first in range(12):
        for second in range(4):
            task = asyncio.create_task(work())
            for steps in (first, second):
                for _ in range(steps):
                    await asyncio.sleep(0.0005)
                task.cancel()
            await asyncio.gather(task, return_exceptions=True)
    async with asyncio.timeout(10):
        while left := asyncio.all_tasks() - before:
            await asyncio.wait(left)
        await work()
        await database.close()


async def test_a_statement_is_one_order_to_the_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A read is its begin, its statements and its end."""
    orders = []
    execute = SqliteConnection._execute

    async def counted(self: SqliteConnection, function: Any, *args: Any, **named: Any) -> Any:
        orders.append(function)
        return await execute(self, function, *args, **named)  # type: ignore[no-untyped-call]

    database = Database(f"sqlite:///{tmp_path / 'x.db'}")
    await database.start()
    async with database.read():
        pass  # the connection is made
    monkeypatch.setattr(SqliteConnection, "_execute", counted)
    async with database.read() as connection:
        for number in range(2):
            rows = await connection.execute(sa.text(f"VALUES ({number}), (9)"))
            assert [tuple(row) for row in rows] == [(number,), (9,)]
    assert len(orders) == 4
    await database.close()


async def test_a_statement_tells_what_it_did(tmp_path: Path) -> None:
    connection = await opened(tmp_path)
    await connection.executescript("CREATE TABLE t (a INTEGER PRIMARY KEY, b TEXT)")
    cursor = await connection.cursor().executemany("INSERT INTO t (b) VALUES (?)", [("x",), ("y",)])
    assert (cursor.rowcount, cursor.description, await cursor.fetchall()) == (2, None, [])
    cursor = await connection.cursor().execute("UPDATE t SET b = ? RETURNING a", ("z",))
    assert (cursor.rowcount, cursor.description[0][0], await cursor.fetchall()) == (2, "a", [(1,), (2,)])
    cursor = await connection.cursor().execute("INSERT INTO t (b) VALUES ('w')")
    assert (cursor.rowcount, cursor.lastrowid) == (1, 3)
    cursor = await connection.cursor().execute("SELECT b FROM t ORDER BY a")
    assert [await cursor.fetchmany(2), await cursor.fetchmany(2), await cursor.fetchmany()] == [
        [("z",), ("z",)],
        [("w",)],
        [],
    ]
    cursor = await connection.cursor().execute("SELECT b FROM t WHERE a = 1")
    assert [await cursor.fetchone(), await cursor.fetchone()] == [("z",), None]
    with pytest.raises(sqlite3.OperationalError, match="no such table"):
        await connection.cursor().execute("SELECT 1 FROM missing")
    await connection.close()


def test_a_connection_that_is_opened_when_the_loop_has_ended_is_nobodys() -> None:
    """Its thread ends without a word."""
    begun, ended = Event(), Event()
    opened: list[SqliteConnection] = []

    def connect() -> sqlite3.Connection:
        begun.set()
        ended.wait(10)
        raise sqlite3.OperationalError("the directory is gone")

    async def open_it() -> None:
        opened.append(SqliteConnection(connect, 5.0))
        await opened[0]

    async def open_and_leave() -> None:
        opening = asyncio.create_task(open_it())
        await asyncio.to_thread(begun.wait, 10)
        opening.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await opening

    asyncio.run(open_and_leave())
    ended.set()
    opened[0]._thread.join(10)
    assert not opened[0]._thread.is_alive()


def test_what_was_told_to_stop_is_closed_though_the_loop_has_ended(tmp_path: Path) -> None:
    """As a connection is that a cancelled task leaves while its statement is still being executed."""
    begun, go_on = Event(), Event()
    left: list[SqliteConnection] = []

    def wait() -> int:
        begun.set()
        return go_on.wait(10)

    async def leave() -> None:
        connection = await opened(tmp_path)
        left.append(connection)
        await connection.create_function("wait", 0, wait)
        waiting = asyncio.create_task(connection.run_statement("execute", "SELECT wait()", ()))
        await asyncio.to_thread(begun.wait, 10)
        waiting.cancel()
        connection.stop()

    asyncio.run(leave())
    go_on.set()
    thread = left[0]._thread
    thread.join(10)
    assert not thread.is_alive()
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        left.clear()
        gc.collect()
    assert [each.message for each in warned] == []


ENDLESS = sa.text(
    "WITH RECURSIVE numbers(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM numbers WHERE n < :until)"
    " SELECT count(*) FROM numbers"
)


async def test_a_read_that_takes_too_long_is_interrupted(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'x.db'}", max_wait_s=0.2)
    await database.start()
    try:
        async with asyncio.timeout(20):
            with pytest.raises(DatabaseUnavailable):
                async with database.read() as connection:
                    await connection.execute(ENDLESS, {"until": 10**12})
        async with database.read() as connection:  # the connection works on
            assert await connection.scalar(ENDLESS, {"until": 10}) == 10
    finally:
        await database.close()


async def test_a_write_is_not_interrupted(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path / 'x.db'}", max_wait_s=0.05)
    await database.start()
    try:
        async with database.write() as connection:
            assert await connection.scalar(ENDLESS, {"until": 2_000_000}) == 2_000_000
    finally:
        await database.close()
