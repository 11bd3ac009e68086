"""PostgreSQL under the relational store: connections that never wait for ever.

A server may accept a connection and fall silent: a paused machine, a proxy whose other side is gone. Its own timeouts
do not run then, and the driver waits for as long as it takes. So a connection here waits for each answer for a limited
time and is closed when there is none; whoever gives up waiting (a cancelled request) closes it as well: the driver
alone would ask the server to cancel and then wait for ten seconds. The server gets limits too, for when it is the
client that falls silent in the midst of a transaction, holding the turn to write.
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

CONNECT_TIMEOUT_S: Final = 2  # for each host of the URL: a silent one leaves time for the next
PING_TIMEOUT_S: Final = 1.0  # for the pool's look at an idle connection
CANCEL_TIMEOUT_S: Final = 1.0  # for telling the server that nobody waits for its answer any more
_INTERVAL_S: Final = 0.1  # how often a blocked wait looks for an interrupt; the driver's own value
IDLE_TIMEOUT_S: Final = 10.0  # for a client within a transaction: ours think for microseconds, so it is gone then
_SET_TIMEOUTS: Final = (
    "SELECT set_config('statement_timeout', %s, false), set_config('idle_in_transaction_session_timeout', %s, false)"
)

RV = TypeVar("RV")
K = TypeVar("K", "PostgresConnection", "AsyncPostgresConnection")


class PostgresConnection(psycopg.Connection[Any]):
    """Blocking; for migrations."""

    answer_timeout_s: float = 10.0

    @classmethod
    def connect_with_timeouts(cls, timeout_s: float, **parameters: Any) -> Self:
        """Connected, with its limits set on both sides."""
        connection = cls.connect(autocommit=True, **parameters)
        connection.answer_timeout_s = timeout_s
        try:
            connection.execute(_SET_TIMEOUTS, _timeout_parameters(timeout_s))
            connection.autocommit = False
        except BaseException:
            connection.pgconn.finish()  # nobody else has it
            raise
        return connection

    def wait(self, gen: PQGen[RV], interval: float = _INTERVAL_S, timeout: float | None = None) -> RV:
        """As the driver's, for a limited time."""
        limit = timeout or self.answer_timeout_s
        try:
            return super().wait(gen, interval, timeout=limit)
        except _WaitTimeout as error:
            self.pgconn.finish()
            raise _no_answer_error(limit) from error


class AsyncPostgresConnection(psycopg.AsyncConnection[Any]):
    """The same for the event loop."""

    answer_timeout_s: float = 10.0
    ping_timeout_s: float = 10.0

    @classmethod
    async def connect_with_timeouts(cls, timeout_s: float, **parameters: Any) -> Self:
        """Connected, with its limits set on both sides."""
        # In a task of its own, which nobody cancels: the driver's attempt would outlive that in a cycle of references
        # with its socket open, and the server keep a slot for it for a minute.
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
            connection.pgconn.finish()  # nobody else has it
            raise
        connection.ping_timeout_s = min(timeout_s, PING_TIMEOUT_S)
        return connection

    async def wait(
        self,
        gen: PQGen[RV],
        interval: float = _INTERVAL_S,
        timeout: float | None = None,  # noqa: ASYNC109 - the driver's signature
    ) -> RV:
        """As the driver's, for a limited time; and who stops waiting takes the connection along."""
        # Once opened, only a look at an idle connection is without a transaction.
        limit = timeout or (self.ping_timeout_s if self.autocommit else self.answer_timeout_s)
        try:
            return await waiting.wait_async(gen, self.pgconn.socket, interval=interval, timeout=limit)
        except _WaitTimeout as error:
            self.pgconn.finish()
            raise _no_answer_error(limit) from error
        except asyncio.CancelledError:
            if self.pgconn.transaction_status == pq.TransactionStatus.ACTIVE:
                await self._abandon()
            raise

    async def _abandon(self) -> None:
        """Have the server stop, when it still listens: a backend at work would keep its slot and the turn to write."""
        try:
            async with asyncio.timeout(CANCEL_TIMEOUT_S):
                await self.cancel_safe(timeout=CANCEL_TIMEOUT_S)
        except (psycopg.Error, TimeoutError):
            pass  # its own limit ends the statement
        finally:
            self.pgconn.finish()


_ABANDONED: Final[set[asyncio.Task[AsyncPostgresConnection]]] = set()  # the event loop alone does not keep a task alive


def connection_factory(connection_class: type[K], url: sa.URL, timeout_s: float) -> Callable[[], Any]:
    """What makes an engine's connections. Options of libpq in the URL come through, before what is set here."""
    _, asked = url.get_dialect()().create_connect_args(url)
    chosen = {"connect_timeout": CONNECT_TIMEOUT_S, "application_name": "sluice", "client_encoding": "utf8", **asked}
    # A prepared statement fails once a migration has changed its table, and proxies that lend a connection for one
    # transaction mix them up. Ours are few, and planned in a fraction of a millisecond.
    return partial(connection_class.connect_with_timeouts, timeout_s, **chosen, prepare_threshold=None)


def _close_abandoned(attempt: asyncio.Task[AsyncPostgresConnection]) -> None:
    """End a connection that nobody waits for any more, within CONNECT_TIMEOUT_S of its begin."""
    _ABANDONED.discard(attempt)
    if not attempt.cancelled() and attempt.exception() is None:
        attempt.result().pgconn.finish()


def _timeout_parameters(timeout_s: float) -> tuple[str, str]:
    """In milliseconds, as the server takes them."""
    return str(max(1, round(timeout_s * 1_000))), str(round(max(timeout_s, IDLE_TIMEOUT_S) * 1_000))


def _no_answer_error(limit: float) -> psycopg.OperationalError:
    return psycopg.OperationalError(f"no answer within {limit:g} s")
