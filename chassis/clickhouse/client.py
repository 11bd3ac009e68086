"""A few ClickHouse handles behind one bounded queue. Every call runs in a thread of the client's own pool."""

import asyncio
import os
import re
import secrets
import tempfile
from collections import deque
from collections.abc import Callable, Mapping, Sequence
from contextlib import nullcontext, suppress
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple, TypeVar

from clickhouse_connect.driver.client import Client
from clickhouse_connect.driver.exceptions import ClickHouseError, Error
from urllib3.exceptions import HTTPError

from chassis.clickhouse import embedded, errors
from chassis.clickhouse.embedded import activity_of
from chassis.clickhouse.stored_time import CLOCK_SQL, ClockReading, StoredTimeFloor
from chassis.clickhouse.target import Target, new_connections, open_client, parse_url
from chassis.clickhouse.threads import PrestartedExecutor

T = TypeVar("T")


class QueryLimits(NamedTuple):
    """The limits of one read: seconds, bytes and rows. 0 means unlimited."""

    max_seconds: float = 30.0
    max_memory_bytes: int = 2 * 2**30
    max_result_rows: int = 100_000
    max_result_bytes: int = 0  # uncompressed, in the engine's representation
    max_rows_to_read: int = 0
    max_rows_to_group_by: int = 0  # distinct keys; each thread of the engine counts its own
    max_threads: int = 0  # 0: the engine chooses
    # A sort with LIMIT discards rows beyond the limit whenever its buffer reaches this size. 0: at 1 GB
    remerge_sort_bytes: int = 0
    # A read pauses before each block, for milliseconds, while a call with a lower number runs. Inserts have 1, so
    # ingest does not wait for charts.
    priority: int = 2


# The defaults of these settings changed between ClickHouse releases or differ between installations, so every insert
# sends all of them.
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
# Sent only to servers that know these settings, because older servers reject an unknown name.
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
    "skip_unavailable_shards": 0,  # an incomplete result must be an error
    "precise_float_parsing": 1,  # numbers are parsed from text
    "cancel_http_readonly_queries_on_client_close": 1,
}
# How long a read pauses for calls with a lower `priority` number. The pause is repeated before every block: with the
# engine's default of 1000, a read of a hundred blocks would take minutes while inserts arrive continuously.
QUERY_SETTINGS_IF_KNOWN: Final[Mapping[str, str | int]] = {"low_priority_query_wait_time_ms": 10}

# The embedded client runs any other statement as a command with `SET readonly`, and `readonly` cannot be unset later.
_READ: Final = re.compile(r"\s*(?:SELECT|WITH)\b", re.IGNORECASE)

_KILL: Final = "KILL QUERY WHERE Settings['log_comment'] = {comment:String} ASYNC"
_KILL_PAUSE_S: Final = 0.2
_MAX_DISCARDS: Final = 100  # statements; the first or second answer is exact unless a kill interrupts the statement
CLOSE_S: Final = 3.0  # a drain precedes it, so calls that do not hang have ended by then


class _Handle:
    """One clickhouse-connect client, opened on first use. A failed attempt is repeated on the next use."""

    def __init__(self, target: Target, timeout_s: float) -> None:
        self._target = target
        self._timeout_s = timeout_s
        self._connections = new_connections(target)
        self._client: Client | None = None
        self._has_left_over = False  # output of a failed statement, which the next statement may return

    def run(self, call: Callable[[Client], T]) -> T:
        """Call `call` with the client and return its result."""
        client = self.client()
        if self._has_left_over:
            _discard_left_over(client)
            self._has_left_over = False
        try:
            return call(client)
        except Exception:
            self._has_left_over = self._target.directory is not None
            raise

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

    At most `handles` calls run at once and `max_waiting` calls wait. Any further call raises StoreBusy. `timeout_s`
    limits the wait for a server's response. `database` overrides the database of the URL. `scratch` is the directory
    for the embedded engine's insert files, each of which exists for one call (default: the process's temporary
    directory). `memory_bytes` is the embedded engine's memory limit (0: two fifths of what the process may use). With
    `stored_time_floor`, inserted rows have a place in storage order. Every method raises a `StoreError`.
    """

    name: Final = "clickhouse"  # as a dependency, in `/readyz`

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
        stored_time_floor: StoredTimeFloor | None = None,
    ) -> None:
        self._target = parse_url(url, database)._replace(memory_bytes=memory_bytes)
        self._max_read_bytes = embedded.max_read_bytes(embedded.engine_bytes(memory_bytes)) if self.embedded else 0
        self._timeout_s = timeout_s
        self._max_waiting = max_waiting
        self._scratch = scratch
        self._handles = [_Handle(self._target, timeout_s) for _ in range(handles)]
        self._idle = list(self._handles)
        self._waiters: deque[asyncio.Future[_Handle]] = deque()
        # Kills need a handle and a thread that no query can occupy.
        self._kill_handle = _Handle(self._target, timeout_s)
        self._kills: set[asyncio.Task[None]] = set()
        self._running: dict[asyncio.Future[Any], str | None] = {}  # the value: the log comment that identifies a read
        self._threads = PrestartedExecutor(handles + 1)
        self._stored_time_floor = stored_time_floor
        self._inserts = None if self.directory is None else activity_of(self.directory)

    @property
    def embedded(self) -> bool:
        """Whether the engine runs in this process."""
        return self._target.directory is not None

    @property
    def directory(self) -> Path | None:
        """The directory of the embedded engine; None for a server."""
        return self._target.directory

    @property
    def address(self) -> str:
        """The URL for messages, without credentials."""
        return self._target.redacted_url

    async def start(self) -> None:
        """Start the threads and open the embedded engine. Raises StoreError when a thread limit prevents it, or when
        the directory is unusable or locked. A server is contacted at the first call.
        """
        self._threads.start()
        if not self.embedded:
            return
        if self._scratch is not None:
            self._prepare_scratch(self._scratch)
        await self._call(lambda _client: None)
        embedded.abort_on_crash()

    async def close(self) -> None:
        """Kill pending reads, wait for the inserts and close the handles. With a server, which may hang, the wait for
        reads and the wait for inserts take at most CLOSE_S each.
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
        """Insert one block in Native format, given in pieces. A repetition with the same token changes nothing.

        `columns` does not contain `stored_time`, because ClickHouse computes that column.
        """

        def call(client: Client) -> None:
            settings: dict[str, str | int] = {**INSERT_SETTINGS, "insert_deduplication_token": token}
            settings |= _supported_settings(client, INSERT_SETTINGS_IF_KNOWN)
            if self._stored_time_floor is not None:
                settings["log_comment"] = self._stored_time_floor.insert_comment(partial(_read_clock, client))
            _require(client, settings)
            client.raw_insert(
                table,
                column_names=columns,
                insert_block=(piece for piece in pieces),  # a list would be joined into one copy
                settings=settings,
                fmt="Native",
                # With a length, clickhouse-connect does not copy the pieces into chunks.
                transport_settings={"Content-Length": str(sum(map(len, pieces)))},
            )

        inserts = self._inserts

        def tracked_call(client: Client) -> None:
            with nullcontext() if inserts is None else inserts.running(table):
                call(client)

        await self._call(tracked_call, errors.from_insert)

    def idle_since(self, table: str) -> float | None:
        """The time, by `time.monotonic()`, since which nothing was inserted into the table. Infinity while an insert
        runs. None for a server, because other processes insert into its tables.
        """
        return None if self._inserts is None else self._inserts.idle_since(table)

    async def query(
        self, sql: str, parameters: Mapping[str, object], *, limits: QueryLimits
    ) -> list[tuple[object, ...]]:
        """The rows of a read. The engine binds values: `{name:Type}` in the statement, `name` in `parameters`.

        FixedString values are returned as bytes. Cancelling the caller cancels the query in the engine.
        """

        def read(client: Client, **options: Any) -> list[tuple[object, ...]]:
            return [tuple(row) for row in client.query(sql, **options).result_rows]

        return await self._read(sql, parameters, limits, read)

    async def query_arrow(self, sql: str, parameters: Mapping[str, object], limits: QueryLimits) -> Any:
        """The same as `query` with the rows in a `pyarrow.Table`, for callers whose Python code reads few values."""

        def read(client: Client, parameters: Any, settings: dict[str, Any]) -> Any:
            settings = {**settings, "output_format_arrow_string_as_string": 1}
            if not self.embedded:
                return client.query_arrow(sql, parameters, settings)
            # clickhouse-connect runs `SET` for each setting, and cannot unset `readonly`.
            clause = ", ".join(f"{name} = {value!r}" for name, value in settings.items())
            return client.query_arrow(f"{sql} SETTINGS {clause}", parameters)

        return await self._read(sql, parameters, limits, read)

    async def _read(self, sql: str, parameters: Mapping[str, object], limits: QueryLimits, read: Callable[..., T]) -> T:
        if not _READ.match(sql):
            raise ValueError("query() accepts only SELECT statements")
        unbound = [name for name in parameters if f"{{{name}:" not in sql]
        if unbound:
            raise ValueError(f"the statement does not use these parameters: {unbound}")
        comment = f"sluice:{secrets.token_hex(12)}"

        def call(client: Client) -> T:
            settings = {**_QUERY_SETTINGS, **_limit_settings(self._cap_memory(limits)), "log_comment": comment}
            settings |= _supported_settings(client, QUERY_SETTINGS_IF_KNOWN)
            # A user whose profile is read-only may not send the setting.
            if client.server_settings["readonly"].value == "0":
                settings["readonly"] = 1
            _require(client, settings)
            return read(client, parameters=dict(parameters) or None, settings=settings)

        return await self._call(call, errors.from_query, comment)

    async def command(
        self,
        sql: str,
        parameters: Mapping[str, object] | None = None,
        settings: Mapping[str, str | int | float] | None = None,
        *,
        stores_rows: bool = False,
    ) -> None:
        """Run a statement that Sluice wrote (DDL, INSERT SELECT). `sql` never contains a caller's values: they are
        bound as `parameters`.

        `stores_rows`: the rows that the statement inserts get a place in storage order, as rows of `insert` do.
        """

        def call(client: Client) -> None:
            used = dict(settings or {})
            if stores_rows and self._stored_time_floor is not None:
                used["log_comment"] = self._stored_time_floor.insert_comment(partial(_read_clock, client))
            _require(client, used)
            client.command(sql, parameters=dict(parameters or {}) or None, settings=used or None)

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
        """Make a round trip that reads no table. Raises a StoreError when there is no response, or when the response
        does not come from ClickHouse.
        """
        if await self.query("SELECT 1", {}, limits=QueryLimits(max_seconds=5)) != [(1,)]:
            raise errors.StoreUnavailable(f"The server at {self.address} is not ClickHouse.")

    async def _call(
        self,
        call: Callable[[Client], T],
        classify: Callable[[int | None, str], errors.StoreError] = errors.from_query,
        comment: str | None = None,
    ) -> T:
        handle = await self._acquire()
        try:
            done = self._threads.run(_classify_errors, lambda: handle.run(call), classify)
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
        """`limits`, with the memory of a read capped in the embedded engine, so that inserts and merges have memory."""
        if not self._max_read_bytes:
            return limits
        requested = limits.max_memory_bytes or self._max_read_bytes
        return limits._replace(max_memory_bytes=min(requested, self._max_read_bytes))

    def _cancel_query(self, running: "asyncio.Future[T]", comment: str | None) -> None:
        """Start to cancel a read in the engine, unless the cancellation is already in progress."""
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
            raise errors.StoreBusy(f"The queue for ClickHouse is full: {len(self._waiters)} calls are waiting.")
        waiter: asyncio.Future[_Handle] = asyncio.get_running_loop().create_future()
        self._waiters.append(waiter)
        try:
            return await waiter
        except asyncio.CancelledError:
            if waiter.cancelled():
                with suppress(ValueError):  # `_release` has already skipped and removed it
                    self._waiters.remove(waiter)
            else:  # the handle was assigned at the moment of the cancellation
                self._release(waiter.result())
            raise

    def _on_done(self, handle: _Handle, future: "asyncio.Future[T]") -> None:
        self._running.pop(future, None)
        if not future.cancelled():
            future.exception()  # retrieved here, because the caller may not wait any more
        self._release(handle)

    def _release(self, handle: _Handle) -> None:
        while self._waiters:
            waiter = self._waiters.popleft()
            if not waiter.done():
                waiter.set_result(handle)
                return
        self._idle.append(handle)

    async def _kill(self, comment: str, running: "asyncio.Future[T]") -> None:
        """Cancel the query in the engine. The kill is repeated while the query runs, because the first kill may come
        before the query has started.
        """

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
            return  # another client in this process already uses it
        try:
            scratch.mkdir(parents=True, exist_ok=True, mode=0o700)
            for left_over in scratch.glob("*.raw"):
                left_over.unlink()
        except OSError as error:
            raise errors.StoreMisconfigured(f"The directory {scratch} cannot be used: {error.strerror}.") from error
        # clickhouse-connect uses `tempfile`; the system's directory may be small or on another file system.
        tempfile.tempdir = os.fspath(scratch)


def _classify_errors(call: Callable[[], T], classify: Callable[[int | None, str], errors.StoreError]) -> T:
    try:
        return call()
    except Error as error:
        raise classify(error.code, errors.reason(error)) from error
    except MemoryError as error:  # in the embedded engine, or while its result was converted to Python objects
        message = "The process ran out of memory for the result. Request less, or give the process more memory."
        raise classify(errors.MEMORY_LIMIT_EXCEEDED, message) from error
    except (ClickHouseError, HTTPError, OSError) as error:
        raise errors.StoreUnavailable(f"ClickHouse does not respond: {errors.reason(error)}") from error


def _discard_left_over(client: Client) -> None:
    """Discard the output that a failed or cancelled statement left in the session.

    chDB answers the next statement of the session in the format of the failed statement, and adds the rows that the
    failed statement had written. These rows may belong to another organization. So this function repeats a statement
    with a known answer until the answer is exact.

    Raises StoreUnavailable when no answer is exact.
    """
    for _ in range(_MAX_DISCARDS):
        with suppress(Exception):  # a repeated kill may also hit this statement
            if client.raw_query("SELECT 1", fmt="TabSeparated") == b"1\n":
                return
    raise errors.StoreUnavailable("The embedded engine gives wrong answers since a statement failed.")


def _read_clock(client: Client) -> ClockReading:
    rows = client.query(CLOCK_SQL).result_rows
    if not rows:  # the statement's time limit of one second ended before it had read anything
        raise errors.StoreUnavailable(
            "ClickHouse did not return the time of its clock within one second, which is the limit."
        )
    ((now_us, latest_us),) = rows
    return ClockReading(now_us, latest_us)


def _supported_settings(client: Client, settings: Mapping[str, str | int]) -> dict[str, str | int]:
    """The settings that the server knows."""
    return {name: value for name, value in settings.items() if name in client.server_settings}


def _require(client: Client, settings: Mapping[str, object]) -> None:
    """Raises StoreMisconfigured if the server does not know one of these settings, or the user may not change it."""
    for name in settings:
        known = client.server_settings.get(name)
        if known is None:
            raise errors.StoreMisconfigured(
                f"This ClickHouse server is too old: it does not support the setting {name}, which Sluice requires."
            )
        if known.readonly:
            raise errors.StoreMisconfigured(
                f"The ClickHouse user may not change the setting {name}: its profile must have "
                "readonly = 0, or 2 if the user only reads."
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
    if limits.remerge_sort_bytes:
        settings["max_bytes_before_remerge_sort"] = limits.remerge_sort_bytes
    return settings
