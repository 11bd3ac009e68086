"""Whether ClickHouse has started anew: a crash between two inserts is noticed by no insert, and may have cost parts."""

from typing import Final

import structlog

from chassis.clickhouse import QueryLimits
from chassis.runtime.periodic import PeriodicTask
from gateway.inserts.clickhouse_health import Availability
from gateway.inserts.stored_block_checker import TelemetryReader

INTERVAL_S: Final = 15.0
CLOCK_TOLERANCE_S: Final = 5  # clocks are set
_STARTED_AT_SQL: Final = "SELECT hostName(), toInt64(toUnixTimestamp(now())) - toInt64(uptime())"
_LIMITS: Final = QueryLimits(max_seconds=10)


class RestartDetector:
    """Looks now and then when the server started that answers."""

    def __init__(self, store: TelemetryReader, availability: Availability, log: structlog.stdlib.BoundLogger) -> None:
        self._store = store
        self._availability = availability
        self._started_at: dict[str, int] = {}  # by host: several may stand behind one address
        failing = "whether clickhouse has started anew cannot be seen"
        self._periodic_task = PeriodicTask(self._poll, INTERVAL_S, log, failing, run_immediately=True)

    def start(self) -> None:
        """Begin to look."""
        self._periodic_task.start()

    async def close(self) -> None:
        """Stop looking."""
        await self._periodic_task.close()

    async def _poll(self) -> None:
        if not self._availability.is_up:
            return
        rows = await self._store.query(_STARTED_AT_SQL, {}, limits=_LIMITS)
        found = {str(host): int(str(started)) for host, started in rows}
        if any(abs(self._started_at.get(host, second) - second) > CLOCK_TOLERANCE_S for host, second in found.items()):
            self._availability.restarted()
        self._started_at |= found
