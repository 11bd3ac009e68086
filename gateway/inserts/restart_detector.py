"""Detects restarts of ClickHouse: no insert notices a crash between two inserts, which may have lost parts."""

from typing import Final

import structlog

from chassis.clickhouse import QueryLimits
from chassis.runtime.periodic import PeriodicTask
from gateway.inserts.insert_breaker import InsertBreaker
from gateway.inserts.stored_block_checker import TelemetryReader

INTERVAL_S: Final = 15.0
CLOCK_TOLERANCE_S: Final = 5  # clocks are adjusted
_STARTED_AT_SQL: Final = "SELECT hostName(), toInt64(toUnixTimestamp(now())) - toInt64(uptime())"
_LIMITS: Final = QueryLimits(max_seconds=10)


class RestartDetector:
    """Polls the start time of the server that answers, every INTERVAL_S, and reports a change to `InsertBreaker`."""

    def __init__(self, store: TelemetryReader, breaker: InsertBreaker, log: structlog.stdlib.BoundLogger) -> None:
        self._store = store
        self._breaker = breaker
        self._started_at: dict[str, int] = {}  # by host: one address may have several
        failure_event = "checking for a restart of clickhouse failed"
        self._periodic_task = PeriodicTask(self._poll, INTERVAL_S, log, failure_event, run_immediately=True)

    def start(self) -> None:
        """Start polling."""
        self._periodic_task.start()

    async def close(self) -> None:
        """Stop polling."""
        await self._periodic_task.close()

    async def _poll(self) -> None:
        if not self._breaker.is_up:
            return
        rows = await self._store.query(_STARTED_AT_SQL, {}, limits=_LIMITS)
        found = {str(host): int(str(started)) for host, started in rows}
        if any(abs(self._started_at.get(host, second) - second) > CLOCK_TOLERANCE_S for host, second in found.items()):
            self._breaker.restarted()
        self._started_at |= found
