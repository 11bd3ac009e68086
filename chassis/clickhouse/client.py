"""A few engine handles behind one bounded queue; every call runs on a thread of its own pool."""

import asyncio
import os
import re
import secrets
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError, Error
from urllib3.exceptions import HTTPError

from chassis.clickhouse import crashes, embedded, errors
from chassis.clickhouse.target import Target, new_connections, open_client, parse_url
from chassis.clickhouse.threads import PrestartedExecutor

T = TypeVar("T")


class QueryLimits(NamedTuple):
    """What one read may cost: seconds, bytes and rows. 0 means without limit."""

    max_seconds: float = 30.0
    max_memory_bytes: int = 2 * 2**30
    max_result_rows: int = 100_000
    max_result_bytes: int = 0  # as the engine holds them, uncompressed
    max_rows_to_read: int = 0
    max_rows_to_group_by: int = 0  # distinct keys; each thread of the engine counts its own
    max_threads: int = 0  # 0: the engine chooses
    # It pauses before each block, for milliseconds, while a call of a lesser number runs. Inserts are 1: nobody's
    # telemetry waits for somebody's chart.
    priority: int = 2


# Defaults of these changed between ClickHouse releases, or differ between installations: each is sent with every
# insert.
INSERT_SETTINGS: Final[Mapping[str, str | int]] = {
    "async_insert": 0,
    "insert_deduplicate": 1,
    "deduplicate_blocks_in_dependent_materialized_views": 1,
    "max_partitions_per_insert_block": 100,
    "throw_on_max_partitions_per_insert_block": 1,
    "max_insert_block_size": 1_048_576,
    "input_format_parallel_parsing": 0,
    "session_timezone": "UTC",
    "priority": 1,
}
# Sent where the server knows them: older ones refuse the name.
INSERT_SETTINGS_IF_KNOWN: Final[Mapping[str, str | int]] = {"deduplicate_insert": "enable"}

_QUERY_SETTINGS: Final[Mapping[str, str | int]] = {
    "session_timezone": "UTC",
    "timeout_overflow_mode": "throw",
    "read_overflow_mode": "throw",
    "result_overflow_mode": "throw",
    "group_by_overflow_mode": "throw",
    "join_use_nulls": 0,
    "group_by_use_nulls": 0,
    "use_query_cache": 0,
    "skip_unavailable_shards": 0,  # a part of the rows is no answer
    "precise_float_parsing": 1,  # numbers are read from their texts
    "cancel_http_readonly_queries_on_client_close": 1,
}
# How long a read pauses for others of a lesser `priority`: before every block, not once. With the 1000 of the engine a
# read of a hundred blocks stands still for minutes where inserts never end.
QUERY_SETTINGS_IF_KNOWN: Final[Mapping[str, str | int]] = {"low_priority_query_wait_time_ms": 10}

# The embedded client runs anything else as a command, with `SET readonly`, which then cannot be unset.
_READ: Final = re.compile(r"\s*(?:SELECT|WITH)\b", re.IGNORECASE)

_KILL: Final = "KILL QUERY WHERE Settings['log_comment'] = {comment:String} ASYNC"
_KILL_PAUSE_S: Final = 0.2
CLOSE_S: Final = 3.0  # calls that end by themselves have done so by then; a drain has waited before


class _Handle:
    """One clickhouse-connect client, opened when first used and again after it failed to open."""

    def __init__(self, target: Target, timeout_s: float) -> None:
        self._target = target
        self._timeout_s = timeout_s
        self._connections = new_connections(target)
        self._client: Client | None = None

    def client(self) -> Client:
        if self._client is None:
            self._client = open_client(self._target, self._timeout_s, self._connections)
        return self._client

    def abort(self) -> None:
        if self._connections is not None:
            self._connections.abort()

    def close(self) -> None:
        if self._client is not None:
            self._client.close()
            self._client = None
        if self._connections is not None:
            self._connections.close()


class ClickHouse:
    """ClickHouse at `url`: `chdb:///DIR` or `http(s)://user:pw@host:port/db`.

    At most `handles` calls run at once and `max_waiting` wait; the next is refused with StoreBusy. `timeout_s` bounds
    the wait for a server's answer. `database` overrides the URL's. `scratch` is where the embedded engine's insert
    files go (they live for one call; default: the process's temporary directory), `memory_bytes` what it may hold in
    memory (0: a share of what the process may use). Every method raises a `StoreError`.
    """

    def __init__(
        self,
        url: str,
        *,
        handles: int = 2,
        max_waiting: int = 64,
        timeout_s: float = 30.0,
        database: str | None = None,
        scratch: Path | None = None,
        memory_bytes: int = 0,
    ) -> None:
        self._target = parse_url(url, database)._replace(memory_bytes=memory_bytes)
        self._max_read_bytes = embedded.max_read_bytes(embedded.engine_bytes(memory_bytes)) if self.embedded else 0
        self._timeout_s = timeout_s
        self._max_waiting = max_waiting
        self._scratch = scratch
        self._handles = [_Handle(self._target, timeout_s) for _ in range(handles)]
        self._idle = list(self._handles)
        self._waiters: deque[asyncio.Future[_Handle]] = deque()
        # Kills need a handle and a thread that no query can hold.
        self._kill_handle = _Handle(self._target, timeout_s)
        self._kills: set[asyncio.Task[None]] = set()
        self._running: dict[asyncio.Future[Any], str | None] = {}  # with the comment by which a read is killed
        self._threads = PrestartedExecutor(handles + 1)

    @property
    def embedded(self) -> bool:
        """Whether the engine runs in this process."""
        return self._target.directory is not None

    @property
    def address(self) -> str:
        """Where it is, for messages; without credentials."""
        return self._target.redacted_url

    async def start(self) -> None:
        """Start the threads and open the embedded engine: a limit on threads, or a bad or taken directory, stops the
        start. A server is met at the first call.
        """
        self._threads.start()
        if not self.embedded:
            return
        if self._scratch is not None:
            self._prepare_scratch(self._scratch)
        await self._call(lambda _client: None)
        crashes.abort_on_crash()

    async def close(self) -> None:
        """End the reads under way, wait for the inserts, close the handles. A server gets no more than CLOSE_S for
        either: it may hang.
        """
        for done, comment in self._running.items():
            self._cancel_query(done, comment)
        if self._kills:
            await asyncio.wait(self._kills, timeout=CLOSE_S)
        for kill in self._kills:
            kill.cancel()
        if self._running and not self.embedded:
            await asyncio.wait(self._running, timeout=CLOSE_S)
        for handle in (*self._handles, self._kill_handle):
            handle.abort()
        await asyncio.get_running_loop().run_in_executor(None, self._close_handles)

    async def insert(self, table: str, columns: Sequence[str], pieces: Sequence[bytes], *, token: str) -> None:
        """Insert one block in Native format, given in pieces. The same token again is a no-op in the table."""

        def call(client: Client) -> None:
            settings: dict[str, str | int] = {**INSERT_SETTINGS, "insert_deduplication_token": token}
            settings |= _supported_settings(client, INSERT_SETTINGS_IF_KNOWN)
            _require(client, settings)
            client.raw_insert(
                table,
                column_names=columns,
                insert_block=(piece for piece in pieces),  # a list would be joined
                settings=settings,
                fmt="Native",
                transport_settings={"Content-Length": str(sum(map(len, pieces)))},  # else each is copied into a chunk
            )

        await self._call(call, errors.from_insert)

    async def query(
        self, sql: str, parameters: Mapping[str, object], *, limits: QueryLimits
    ) -> list[tuple[object, ...]]:
        """Rows of a read. Values are bound by the engine: `{name:Type}` in the statement, `name` in `parameters`.

        FixedString comes back as bytes. Cancelling the caller cancels the query in the engine.
        """
        if not _READ.match(sql):
            raise ValueError("a query is a SELECT")
        unbound = [name for name in parameters if f"{{{name}:" not in sql]
        if unbound:
            raise ValueError(f"parameters without a place in the statement: {unbound}")
        comment = f"sluice:{secrets.token_hex(12)}"

        def call(client: Client) -> list[tuple[object, ...]]:
            settings = {**_QUERY_SETTINGS, **_limit_settings(self._cap_memory(limits)), "log_comment": comment}
            settings |= _supported_settings(client, QUERY_SETTINGS_IF_KNOWN)
            # A user whose profile is read-only already may not send the setting.
            if client.server_settings["readonly"].value == "0":
                settings["readonly"] = 1
            _require(client, settings)
            rows = client.query(sql, parameters=dict(parameters) or None, settings=settings).result_rows
            return [tuple(row) for row in rows]

        return await self._call(call, errors.from_query, comment)

    async def command(
        self,
        sql: str,
        parameters: Mapping[str, object] | None = None,
        settings: Mapping[str, str | int | float] | None = None,
    ) -> None:
        """Run a statement of ours (DDL, INSERT SELECT); never text with a caller's values in it, those are bound."""

        def call(client: Client) -> None:
            _require(client, settings or {})
            client.command(sql, parameters=dict(parameters or {}) or None, settings=dict(settings or {}) or None)

        await self._call(call, errors.from_query)

    async def create_database(self) -> None:
        """Create the URL's database if it names one and it is missing."""
        name = self._target.database
        if name is None:
            return

        def create() -> None:
            client = open_client(self._target._replace(database=None), self._timeout_s)
            try:
                client.command(f"CREATE DATABASE IF NOT EXISTS {name}")
            finally:
                client.close()

        await self._threads.run(_classify_errors, create, errors.from_query)

    async def probe(self) -> None:
        """A round trip that reads nothing; raises when ClickHouse does not answer, or something else answers 200."""
        if await self.query("SELECT 1", {}, limits=QueryLimits(max_seconds=5)) != [(1,)]:
            raise errors.StoreUnavailable(f"What answers at {self.address} is not ClickHouse.")

    async def _call(
        self,
        call: Callable[[Client], T],
        classify: Callable[[int | None, str], errors.StoreError] = errors.from_query,
        comment: str | None = None,
    ) -> T:
        handle = await self._acquire()
        try:
            done = self._threads.run(_classify_errors, lambda: call(handle.client()), classify)
        except BaseException:
            self._release(handle)
            raise
        self._running[done] = comment
        done.add_done_callback(lambda future: self._on_done(handle, future))
        try:
            return await asyncio.shield(done)
        except asyncio.CancelledError:
            self._cancel_query(done, comment)
            raise

    def _cap_memory(self, limits: QueryLimits) -> QueryLimits:
        """`limits`, and in the embedded engine no more memory than leaves room for inserts and merges."""
        if not self._max_read_bytes:
            return limits
        asked = limits.max_memory_bytes or self._max_read_bytes
        return limits._replace(max_memory_bytes=min(asked, self._max_read_bytes))

    def _cancel_query(self, running: "asyncio.Future[T]", comment: str | None) -> None:
        """Begin to cancel a read in the engine, unless that has begun."""
        if comment is None or running.done():
            return
        self._running[running] = None
        kill = asyncio.get_running_loop().create_task(self._kill(comment, running))
        self._kills.add(kill)
        kill.add_done_callback(self._kills.discard)

    async def _acquire(self) -> _Handle:
        if self._idle:
            return self._idle.pop()
        if len(self._waiters) >= self._max_waiting:
            raise errors.StoreBusy(f"{len(self._waiters)} calls already wait for ClickHouse.")
        waiter: asyncio.Future[_Handle] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                with suppress(ValueError):  # a handle came free in the same moment, and passed it by
                    self._waiters.remove(waiter)
            else:  # the handle arrived in the moment of the cancellation
                self._release(waiter.result())
            raise

    def _on_done(self, handle: _Handle, future: "asyncio.Future[T]") -> None:
        self._running.pop(future, None)
        if not future.cancelled():
            future.exception()  # an abandoned call's error is nobody's
        self._release(handle)

    def _release(self, handle: _Handle) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(handle)
                return
        self._idle.append(handle)

    async def _kill(self, comment: str, running: "asyncio.Future[T]") -> None:
        """Cancel the query in the engine; again while it runs, since it may not have begun when the first kill came."""

        def kill() -> None:
            self._kill_handle.client().command(_KILL, parameters={"comment": comment})

        while not running.done():
            try:
                await self._threads.run(_classify_errors, kill, errors.from_query)
            except errors.StoreError:
                return  # the query's own time limit ends it
            await asyncio.wait((running,), timeout=_KILL_PAUSE_S)

    def _close_handles(self) -> None:
        self._threads.close()
        for handle in (*self._handles, self._kill_handle):
            handle.close()

    @staticmethod
    def _prepare_scratch(scratch: Path) -> None:
        if tempfile.tempdir == os.fspath(scratch):
            return  # another store of this process uses it already
        try:
            scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
            for left_over in scratch.glob("*.raw"):
                left_over.unlink()
        except OSError as error:
            raise errors.StoreMisconfigured(f"The directory {scratch} cannot be used: {error.strerror}.") from error
        # clickhouse-connect asks `tempfile` for a place; the system's may be small or another file system.
        tempfile.tempdir = os.fspath(scratch)


def _classify_errors(call: Callable[[], T], classify: Callable[[int | None, str], errors.StoreError]) -> T:
    try:
        return call()
    except Error as error:
        raise classify(error.code, errors.reason(error)) from error
    except MemoryError as error:  # of the embedded engine, or while its answer became Python objects
        message = "This process has no memory left for the result; ask for less, or give the process more memory."
        raise classify(errors.MEMORY_LIMIT_EXCEEDED, message) from error
    except (ClickHouseError, HTTPError, OSError) as error:
        raise errors.StoreUnavailable(f"ClickHouse does not answer: {errors.reason(error)}") from error


def _supported_settings(client: Client, settings: Mapping[str, str | int]) -> dict[str, str | int]:
    """Those that the server knows."""
    return {name: value for name, value in settings.items() if name in client.server_settings}


def _require(client: Client, settings: Mapping[str, object]) -> None:
    """StoreMisconfigured where the server or its user would refuse what every call of ours sends."""
    for name in settings:
        known = client.server_settings.get(name)
        if known is None:
            raise errors.StoreMisconfigured(
                f"This ClickHouse server is too old: it does not know the setting {name}, which Sluice needs."
            )
        if known.readonly:
            raise errors.StoreMisconfigured(
                f"The ClickHouse user may not change the setting {name}: its profile needs readonly = 0, "
                "or 2 where it only reads."
            )


def _limit_settings(limits: QueryLimits) -> dict[str, str | int | float]:
    settings: dict[str, str | int | float] = {
        "max_execution_time": limits.max_seconds,
        "max_memory_usage": limits.max_memory_bytes,
        "max_result_rows": limits.max_result_rows,
        "max_result_bytes": limits.max_result_bytes,
        "max_rows_to_read": limits.max_rows_to_read,
        "max_rows_to_group_by": limits.max_rows_to_group_by,
        "priority": limits.priority,
    }
    if limits.max_threads:
        settings["max_threads"] = limits.max_threads
    return settings
