"""SQLite under the relational store: connections that end once.

A connection is a thread, which takes its orders from a queue until it is told to stop. aiosqlite tells it so each time
that somebody closes the connection, and waits for the thread to have heard: whoever comes second, when a task that is
being cancelled closes what another is closing, waits for a thread that is gone, for ever, and the process with him at
its end.
"""

import asyncio
import contextlib
import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import aiosqlite
import sqlalchemy as sa

_ROWS_AT_ONCE: Final = 64  # aiosqlite's own value


class Connection(aiosqlite.Connection):
    """Whoever closes it waits for the one end that there is."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        super().__init__(connect, _ROWS_AT_ONCE)
        self._thread.daemon = True  # a process that ends waits for none of them
        self._ending = False
        self._ended: asyncio.Future[Any] | None = None

    def stop(self) -> "asyncio.Future[Any] | None":
        """Done when the thread has ended; None where there is no event loop any more."""
        if not self._ending:
            self._ending, self._ended = True, super().stop()
        return None if self._ended is None else asyncio.shield(self._ended)


class _Ending(sqlite3.Connection):
    """One that ends its transaction with itself. SQLite keeps a closed connection alive, and its lock, for as long as
    somebody has a cursor of it: the traceback of a task that was cancelled does.
    """

    def close(self) -> None:
        with contextlib.suppress(sqlite3.Error):  # closed already, or the file is away
            self.rollback()
        super().close()


def creator(url: sa.URL) -> Callable[[], Connection]:
    """What makes an engine's connections."""
    arguments, options = url.get_dialect()().create_connect_args(url)
    return partial(Connection, partial(sqlite3.connect, *arguments, factory=_Ending, **options))
