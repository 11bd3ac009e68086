"""The state of ClickHouse, as far as the gateway knows it.

`InsertBreaker`: whether ClickHouse accepts inserts. A failed insert opens the circuit breaker at once, a successful
probe closes it. But a full or read-only ClickHouse answers the probe and refuses the next insert. So ClickHouse counts
as unavailable until an insert into each table that refused one has succeeded, and each failure doubles the pause before
the next attempt.

`StoredBlockChecker`: which blocks of a batch ClickHouse has, by batch id instead of its deduplication log. The log may
outlive the parts that it records: after a power loss a part may be lost while its token is still known, and an insert
under this token succeeds but stores nothing.

`RestartDetector`: whether ClickHouse has restarted. No insert notices a crash between two inserts, although the crash
may have lost parts.

`PartMonitor`: how many parts ClickHouse has. When merges fall behind inserts, ClickHouse delays inserts and then
refuses them (`parts_to_delay_insert`, `parts_to_throw_insert`; both apply to a partition, which is a day).
"""

import asyncio
from collections import defaultdict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextvars import Context
from typing import Final, Protocol

import structlog

from chassis.clickhouse import QueryLimits, StoreError, StoreUnavailable
from chassis.runtime.periodic import PeriodicTask, cancel_tasks
from gateway.journal import Batch, TableDay
from gateway.metrics import Metrics
from proto.storage.tables import ERROR_OCCURRENCES, INGEST_OUTCOMES, LOGS, SPANS, TABLES

FIRST_PROBE_S: Final = 0.05  # short, because most failures are one lost connection
MAX_PAUSE_S: Final = 5.0  # between two attempts while the probe succeeds and inserts fail
PROBE_TIMEOUT_S: Final = 5.0
OUTAGE_S: Final = 0.5  # no server restarts faster; a lost connection recovers sooner


class InsertStore(Protocol):
    """The ClickHouse operations that inserts use. They raise StoreError."""

    async def insert(self, table: str, columns: Sequence[str], pieces: Sequence[bytes], *, token: str) -> None: ...

    async def probe(self) -> None: ...


class HealthListener(Protocol):
    """Is notified when ClickHouse becomes unavailable or available."""

    def on_down(self) -> None:
        """An insert failed, and ClickHouse was up before."""

    def on_up(self, *, lost: bool) -> None:
        """A probe succeeded, or a restart was detected. `lost`: ClickHouse may have restarted and lost rows."""


class InsertBreaker:
    """State of the circuit breaker. In mode `store` requests are admitted only while `is_up`, so that a request costs
    little during an outage.
    """

    name = "clickhouse"

    def __init__(
        self,
        store: InsertStore,
        metrics: Metrics,
        log: structlog.stdlib.BoundLogger,
        probe_s: float = 1.0,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._metrics = metrics
        self._log = log
        self._probe_s = probe_s
        self._sleep = sleep
        self._pause_s = FIRST_PROBE_S
        self._refusing: set[str] = set()  # tables, from a failed insert until one succeeds, even if `is_up`
        self._up = asyncio.Event()
        self._up.set()
        self._probing: asyncio.Task[None] | None = None
        self._listeners: list[HealthListener] = []
        self.possible_losses = 0  # how often ClickHouse may have lost stored rows
        metrics.store_up.set(1)

    @property
    def is_up(self) -> bool:
        """Whether inserts are worth trying."""
        return self._up.is_set()

    def subscribe(self, listener: "HealthListener") -> Callable[[], None]:
        """Notify `listener` of every change; the function returned unsubscribes it."""
        self._listeners.append(listener)
        return lambda: self._listeners.remove(listener)

    def restarted(self) -> None:
        """Report that ClickHouse has restarted, whether an insert failed meanwhile or not."""
        self._notify_up(lost=True)

    def failed(self, error: StoreUnavailable, table: str) -> None:
        """Report that an insert into `table` failed although the insert was valid, and start probing."""
        if not self.is_up:
            return
        self._up.clear()
        self._metrics.store_up.set(0)
        if not self._refusing:
            self._log.warning("clickhouse unavailable", table=table, error=error.message, code=error.code)
        self._set_refusing(table, now=True)
        for listener in self._listeners:
            listener.on_down()
        probing = self._probe_until_up(self._pause_s)
        self._probing = asyncio.get_running_loop().create_task(probing, context=Context())  # belongs to no request
        self._pause_s = min(2 * self._pause_s, MAX_PAUSE_S)

    def succeeded(self, table: str) -> None:
        """Report an insert that succeeded. While not `is_up` it is ignored: it began before the failure."""
        if table in self._refusing and self.is_up:
            self._set_refusing(table, now=False)
            if not self._refusing:
                self._pause_s = FIRST_PROBE_S
                self._log.warning("clickhouse recovered")

    async def wait_until_up(self, timeout_s: float) -> bool:
        """Wait until ClickHouse is available, at most `timeout_s`; returns whether it is."""
        if self.is_up:
            return True
        try:
            async with asyncio.timeout(timeout_s):
                await self._up.wait()
        except TimeoutError:
            return False
        return True

    async def probe(self) -> None:
        """For `/readyz`: raises StoreUnavailable while not `is_up`; otherwise makes a round trip, and raises its
        errors."""
        if not self.is_up:
            raise StoreUnavailable("ClickHouse does not accept inserts.")
        await self._store.probe()

    async def close(self) -> None:
        """Stop probing."""
        await cancel_tasks(self._probing)

    def _set_refusing(self, table: str, *, now: bool) -> None:
        (self._refusing.add if now else self._refusing.remove)(table)
        self._metrics.refusing_tables.set(len(self._refusing))

    async def _probe_until_up(self, pause_s: float) -> None:
        loop = asyncio.get_running_loop()
        down_at = loop.time()
        while True:
            await self._sleep(pause_s)
            pause_s = max(pause_s, self._probe_s)
            try:
                async with asyncio.timeout(PROBE_TIMEOUT_S):
                    await self._store.probe()
            except (StoreError, TimeoutError):
                continue
            except Exception as error:  # noqa: BLE001 (whatever it is, without probes inserts would stop for ever)
                self._log.warning("clickhouse probe failed", exc_info=error)
                continue
            self._metrics.store_up.set(1)
            self._up.set()
            self._notify_up(lost=loop.time() - down_at >= OUTAGE_S)
            return

    def _notify_up(self, *, lost: bool) -> None:
        self.possible_losses += lost
        for listener in self._listeners:
            listener.on_up(lost=lost)


_TIME_COLUMNS: Final[Mapping[str, str]] = {
    SPANS.name: "start_time",
    LOGS.name: "time",
    ERROR_OCCURRENCES.name: "time",
    INGEST_OUTCOMES.name: "time",
}
TABLES_WITH_BATCH_ID: Final = frozenset(_TIME_COLUMNS)  # the other tables aggregate rows, and have no batch id
_COUNT_LIMITS: Final = QueryLimits(max_seconds=300, max_result_rows=0, max_threads=1)
_BATCHES_PER_QUERY: Final = 1_000  # batch ids in a statement


class TelemetryReader(Protocol):
    """The ClickHouse operations that checks use. They raise StoreError."""

    async def query(
        self, sql: str, parameters: Mapping[str, object], *, limits: QueryLimits
    ) -> list[tuple[object, ...]]: ...


class StoredBlockChecker:
    """Queries ClickHouse. Its methods raise StoreError."""

    def __init__(self, store: TelemetryReader) -> None:
        self._store = store

    async def find_missing(self, batches: Sequence[Batch], oldest_day: int) -> dict[int, set[TableDay]]:
        """The tables and days of finished batches, by batch id, that have no stored row. Days before `oldest_day` are
        past their retention and are not checked.
        """
        expected: dict[TableDay, list[int]] = defaultdict(list)
        for batch in batches:
            for table_day in batch.rows or ():
                if table_day[0] in TABLES_WITH_BATCH_ID and table_day[1] >= oldest_day:
                    expected[table_day].append(batch.batch_id)
        missing: dict[int, set[TableDay]] = defaultdict(set)
        for table_day, ids in expected.items():
            stored = await self.find_stored(table_day, ids)
            for batch_id in set(ids) - stored:
                missing[batch_id].add(table_day)
        return missing

    async def find_stored(self, table_day: TableDay, batch_ids: Sequence[int]) -> set[int]:
        """The batches that have a row in the table on that day."""
        stored: set[int] = set()
        for start in range(0, len(batch_ids), _BATCHES_PER_QUERY):
            stored |= await self._query_stored(table_day, batch_ids[start : start + _BATCHES_PER_QUERY])
        return stored

    async def _query_stored(self, table_day: TableDay, batch_ids: Sequence[int]) -> set[int]:
        table, day = table_day
        sql = (
            f"SELECT batch_id FROM {table} WHERE toDate({_TIME_COLUMNS[table]}) = toDate({{day:UInt16}}) "
            "AND batch_id IN {ids:Array(UInt64)} GROUP BY batch_id"
        )
        rows = await self._store.query(sql, {"day": day, "ids": list(batch_ids)}, limits=_COUNT_LIMITS)
        return {int(str(batch_id)) for (batch_id,) in rows}


RESTART_CHECK_S: Final = 15.0
CLOCK_TOLERANCE_S: Final = 5  # clocks are adjusted
_STARTED_AT_SQL: Final = "SELECT hostName(), toInt64(toUnixTimestamp(now())) - toInt64(uptime())"
_RESTART_LIMITS: Final = QueryLimits(max_seconds=10)


class RestartDetector:
    """Polls the start time of the server every RESTART_CHECK_S, and reports a change to `InsertBreaker`."""

    def __init__(self, store: TelemetryReader, breaker: InsertBreaker, log: structlog.stdlib.BoundLogger) -> None:
        self._store = store
        self._breaker = breaker
        self._started_at: dict[str, int] = {}  # by host: one address may have several
        failure_event = "checking for a restart of clickhouse failed"
        self.task = PeriodicTask(self._poll, RESTART_CHECK_S, log, failure_event, run_immediately=True)

    async def _poll(self) -> None:
        if not self._breaker.is_up:
            return
        rows = await self._store.query(_STARTED_AT_SQL, {}, limits=_RESTART_LIMITS)
        found = {str(host): int(str(started)) for host, started in rows}
        if any(abs(self._started_at.get(host, second) - second) > CLOCK_TOLERANCE_S for host, second in found.items()):
            self._breaker.restarted()
        self._started_at |= found


PARTS_CHECK_S: Final = 30.0
_PARTS_LIMITS: Final = QueryLimits(max_seconds=5, max_threads=1)
_MAX_PARTS_SQL: Final = """SELECT table, max(parts) FROM
(
    SELECT table, partition_id, count() AS parts FROM system.parts
    WHERE active AND database = currentDatabase() AND table IN {tables:Array(String)} GROUP BY table, partition_id
)
GROUP BY table"""


class PartMonitor:
    """Polls every PARTS_CHECK_S while ClickHouse is up; otherwise the gauge has no value."""

    def __init__(
        self,
        store: TelemetryReader,
        breaker: InsertBreaker,
        metrics: Metrics,
        log: structlog.stdlib.BoundLogger,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._breaker = breaker
        self._gauge = metrics.parts
        self.task = PeriodicTask(
            self._poll, PARTS_CHECK_S, log, "counting parts failed", run_immediately=True, sleep=sleep
        )

    async def _poll(self) -> None:
        rows: list[tuple[object, ...]] = []
        try:
            if self._breaker.is_up:
                rows = await self._store.query(
                    _MAX_PARTS_SQL, {"tables": [table.name for table in TABLES]}, limits=_PARTS_LIMITS
                )
        finally:
            self._gauge.clear()
        for table, parts in rows:
            self._gauge.labels(str(table)).set(int(str(parts)))
