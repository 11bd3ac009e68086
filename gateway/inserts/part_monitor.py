"""Exports the number of ClickHouse's parts as a metric. Where merges fall behind inserts, ClickHouse delays inserts and
then refuses them (`parts_to_delay_insert`, `parts_to_throw_insert`, per partition, which is a day).
"""

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Protocol

import structlog

from chassis.clickhouse import QueryLimits
from chassis.runtime.periodic import PeriodicTask
from gateway.inserts.insert_breaker import InsertBreaker
from gateway.metrics import Metrics
from proto.storage.tables import TABLES

INTERVAL_S: Final = 30.0
_LIMITS: Final = QueryLimits(max_seconds=5, max_threads=1)
_MAX_PARTS_SQL: Final = """SELECT table, max(parts) FROM
(
    SELECT table, partition_id, count() AS parts FROM system.parts
    WHERE active AND database = currentDatabase() AND table IN {tables:Array(String)} GROUP BY table, partition_id
)
GROUP BY table"""


class PartsReader(Protocol):
    """The ClickHouse operations that the monitor uses. They raise StoreError."""

    async def query(
        self, sql: str, parameters: Mapping[str, object], *, limits: QueryLimits
    ) -> list[tuple[object, ...]]: ...


class PartMonitor:
    """Polls every INTERVAL_S while ClickHouse is up; otherwise the gauge has no value."""

    def __init__(
        self,
        store: PartsReader,
        breaker: InsertBreaker,
        metrics: Metrics,
        log: structlog.stdlib.BoundLogger,
        sleep: Callable[[float], Awaitable[None]] = asyncio.sleep,
    ) -> None:
        self._store = store
        self._breaker = breaker
        self._gauge = metrics.parts
        self._periodic_task = PeriodicTask(
            self._poll, INTERVAL_S, log, "counting parts failed", run_immediately=True, sleep=sleep
        )

    def start(self) -> None:
        """Start polling."""
        self._periodic_task.start()

    async def close(self) -> None:
        """Stop polling."""
        await self._periodic_task.close()

    async def _poll(self) -> None:
        rows: list[tuple[object, ...]] = []
        try:
            if self._breaker.is_up:
                rows = await self._store.query(
                    _MAX_PARTS_SQL, {"tables": [table.name for table in TABLES]}, limits=_LIMITS
                )
        finally:
            self._gauge.clear()
        for table, parts in rows:
            self._gauge.labels(str(table)).set(int(str(parts)))
