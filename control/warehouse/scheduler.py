"""Exports sinks that are due. One task per process; the leases decide which process exports a sink."""

from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from aiohttp import web

from chassis.db.database import Database, to_milliseconds
from chassis.runtime.periodic import PeriodicTask
from control.warehouse import repository
from control.warehouse.exporter import Exporter, SinkDisabled
from control.warehouse.repository import LeaseHeld

POLL_S: Final = 5.0
MAX_BATCHES: Final = 20  # of a stream, before another sink has its turn
MAX_SINKS: Final = 100  # in one poll

log = structlog.get_logger(__name__)


class WarehouseScheduler:
    """`interval_s`: between two runs of a sink that has nothing more to export."""

    def __init__(
        self,
        database: Database,
        exporter: Exporter,
        interval_s: float,
        *,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        self._database = database
        self._exporter = exporter
        self._interval = timedelta(seconds=interval_s)
        self._now = now
        self._task = PeriodicTask(self.run_due, POLL_S, log, "exports failed", run_immediately=False)

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Run until shutdown; a batch that is interrupted is repeated by the next run."""
        self._task.start()
        yield
        await self._task.close()

    async def run_due(self) -> None:
        """Export every sink that is due. Raises DatabaseUnavailable."""
        for _ in range(MAX_SINKS):
            async with self._database.read() as connection:
                due = await repository.find_due(connection, to_milliseconds(self._now()), self._interval)
            if due is None:
                return
            sink_id, org_id = due
            try:
                await self._exporter.export(org_id, sink_id, MAX_BATCHES, self._interval)
            except (LeaseHeld, SinkDisabled):
                log.info("a sink is exported by another process, or was changed", sink_id=sink_id)
