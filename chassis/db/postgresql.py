"""The PostgreSQL driver: connections that never wait without a limit.

A server may accept a connection and then stop responding, for example because the machine is paused or a proxy has lost
its upstream. The server's own timeouts do not help then, and the driver waits without limit. So a connection here waits
for each response for a limited time, and is closed when no response arrives. A connection is also closed when the
waiting request is cancelled, because the driver would ask the server to cancel and then wait for ten seconds. The
server gets timeouts too, for a client that stops responding inside a transaction while it holds the write lock.
"""

import asyncio
from collections.abc import Callable
from functools import partial
from typing import Any, Final, Self, TypeVar

import psycopg
import sqlalchemy as sa
from psycopg import pq, waiting
from psycopg.abc import PQGen
from psycopg.errors import _WaitTimeout

CONNECT_TIMEOUT_S: Final = 2  # for each host of the URL, so that an unresponsive host leaves time for the next one
PING_TIMEOUT_S: Final = 1.0  # for the pool's ping of an idle connection
CANCEL_TIMEOUT_S: Final = 1.0  # for asking the server to cancel a statement
_INTERVAL_S: Final = 0.1  # how often a blocked wait checks for an interrupt; the driver's own value
# For a client inside a transaction. Sluice pauses inside a transaction for microseconds, so an idle client has died.
IDLE_TIMEOUT_S: Final = 10.0
_SET_TIMEOUTS: Final = (
    "SELECT set_config('statement_timeout', %s, false), set_config('idle_in_transaction_session_timeout', %s, false)"
)

RV = TypeVar("RV")
K = TypeVar("K", "PostgresConnection", "AsyncPostgresConnection")


class PostgresConnection(psycopg.Connection[Any]):
    """A blocking connection, for migrations."""

    answer_timeout_s: float = 10.0

    @classmethod
    def connect_with_timeouts(cls, timeout_s: float, **parameters: Any) -> Self:
        """Connect, and set the timeouts of client and server."""
        connection = cls.connect(autocommit=True, **parameters)
        connection.answer_timeout_s = timeout_s
        try:
            connection.execute(_SET_TIMEOUTS, _timeout_parameters(timeout_s))
            connection.autocommit = False
        except BaseException:
            connection.pgconn.finish()  # no caller has the connection yet
            raise
        return connection

    def wait(self, gen: PQGen[RV], interval: float = _INTERVAL_S, timeout: float | None = None) -> RV:
        """The driver's `wait` with a timeout. Closes the connection when the timeout expires."""
        limit = timeout or self.answer_timeout_s
        try:
            return super().wait(gen, interval, timeout=limit)
        except _WaitTimeout as error:
            self.pgconn.finish()
            raise _timeout_error(limit) from error


class AsyncPostgresConnection(psycopg.AsyncConnection[Any]):
    """A connection for the event loop, with the same timeouts."""

    answer_timeout_s: float = 10.0
    ping_timeout_s: float = 10.0

    @classmethod
    async def connect_with_timeouts(cls, timeout_s: float, **parameters: Any) -> Self:
        """Connect, and set the timeouts of client and server."""
        # The attempt runs in its own task, which is never cancelled. A cancelled attempt of the driver would stay in a
        # reference cycle with its socket open, and the server would reserve a slot for it for a minute.
        attempt = asyncio.ensure_future(cls.connect(autocommit=True, **parameters))
        try:
            connection = await asyncio.shield(attempt)
        except asyncio.CancelledError:
            _ABANDONED.add(attempt)
            attempt.add_done_callback(_close_abandoned)
            raise
        connection.answer_timeout_s = connection.ping_timeout_s = timeout_s
        try:
            await connection.execute(_SET_TIMEOUTS, _timeout_parameters(timeout_s))
            await connection.set_autocommit(False)
        except BaseException:
            connection.pgconn.finish()  # no caller has the connection yet
            raise
        connection.ping_timeout_s = min(timeout_s, PING_TIMEOUT_S)
        return connection

    async def wait(
        self,
        gen: PQGen[RV],
        interval: float = _INTERVAL_S,
        timeout: float | None = None,  # noqa: ASYNC109 - the driver's signature
    ) -> RV:
        """The driver's `wait` with a timeout. Closes the connection when the timeout expires or the caller is
        cancelled.
        """
        # Once the connection is set up, only the pool's ping runs outside a transaction.
        limit = timeout or (self.ping_timeout_s if self.autocommit else self.answer_timeout_s)
        try:
            return await waiting.wait_async(gen, self.pgconn.socket, interval=interval, timeout=limit)
        except _WaitTimeout as error:
            self.pgconn.finish()
            raise _timeout_error(limit) from error
        except asyncio.CancelledError:
            if self.pgconn.transaction_status == pq.TransactionStatus.ACTIVE:
                await self._abandon()
            raise

    async def _abandon(self) -> None:
        """Ask the server to cancel the statement, because a backend that keeps running would keep its slot and the
        write lock.
        """
        try:
            async with asyncio.timeout(CANCEL_TIMEOUT_S):
                await self.cancel_safe(timeout=CANCEL_TIMEOUT_S)
        except (psycopg.Error, TimeoutError):
            pass  # the server's statement timeout ends the statement
        finally:
            self.pgconn.finish()


# Keeps references to tasks, because the event loop itself keeps only weak references.
_ABANDONED: Final[set[asyncio.Task[AsyncPostgresConnection]]] = set()


def connection_factory(connection_class: type[K], url: sa.URL, timeout_s: float) -> Callable[[], Any]:
    """The function with which an engine opens connections. libpq options in the URL override the defaults here."""
    _, url_options = url.get_dialect()().create_connect_args(url)
    parameters = {
        "connect_timeout": CONNECT_TIMEOUT_S,
        "application_name": "sluice",
        "client_encoding": "utf8",
        **url_options,
    }
    # A prepared statement fails after a migration has changed its table, and proxies that assign connections per
    # transaction confuse prepared statements. Sluice sends few statements, which are planned in a fraction of a
    # millisecond.
    return partial(connection_class.connect_with_timeouts, timeout_s, **parameters, prepare_threshold=None)


def _close_abandoned(attempt: asyncio.Task[AsyncPostgresConnection]) -> None:
    """Close a connection whose caller was cancelled, within CONNECT_TIMEOUT_S of the start of the attempt."""
    _ABANDONED.discard(attempt)
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().pgconn.finish()


def _timeout_parameters(timeout_s: float) -> tuple[str, str]:
    """`statement_timeout` and `idle_in_transaction_session_timeout` in milliseconds."""
    return str(max(1, round(timeout_s * 1_000))), str(round(max(timeout_s, IDLE_TIMEOUT_S) * 1_000))


def _timeout_error(limit: float) -> psycopg.OperationalError:
    return psycopg.OperationalError(f"no response within {limit:g} s")
