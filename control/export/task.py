"""Exports sinks that are due. Each process runs a few tasks, each for a different organization, so that a slow store
delays only its own organization. Leases decide which process exports a sink.
"""

import asyncio
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from aiohttp import web

from chassis.db.database import Database, DatabaseUnavailable, to_milliseconds
from chassis.runtime.periodic import PeriodicTask
from control.export import store
from control.export.exporter import Exporter, SinkDisabled

POLL_S: Final = 5.0
TASKS: Final = 4
MAX_BATCHES: Final = 20  # per stream, before another sink has its turn
MAX_SINKS: Final = 100  # per poll

log = structlog.get_logger(__name__)


class WarehouseScheduler:
    """The background task. `interval_s`: the time between two runs of a sink that has nothing more to export."""

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
        self._tasks = [
            PeriodicTask(self.run_due, POLL_S, log, "exports failed", run_immediately=False) for _ in range(TASKS)
        ]
        self._choosing = asyncio.Lock()
        self._busy: set[str] = set()  # organizations with an export in progress

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Run until shutdown. The next run repeats an interrupted batch."""
        for task in self._tasks:
            task.start()
        yield
        await asyncio.gather(*(task.close() for task in self._tasks))

    async def run_due(self) -> None:
        """Export every sink that is due, except sinks of organizations with an export in progress. Raises
        DatabaseUnavailable.
        """
        for _ in range(MAX_SINKS):
            async with self._choosing:
                async with self._database.read() as connection:
                    due = await store.find_due(connection, self._milliseconds(), self._interval, self._busy)
                if due is None:
                    return
                sink_id, org_id = due
                self._busy.add(org_id)
            try:
                await self._export(sink_id, org_id)
            finally:
                self._busy.discard(org_id)

    async def _export(self, sink_id: str, org_id: str) -> None:
        try:
            await self._exporter.export(org_id, sink_id, MAX_BATCHES, self._interval)
        except (store.LeaseUnavailable, SinkDisabled):
            log.info("a sink is exported by another process, or was changed", sink_id=sink_id)
        except DatabaseUnavailable:
            raise
        except Exception:  # for example, the config cannot be decrypted any more; other sinks must still be exported
            log.exception("a sink cannot be exported", sink_id=sink_id)
            async with self._database.write() as connection:
                await store.postpone(connection, sink_id, self._milliseconds() + self._interval)

    def _milliseconds(self) -> datetime:
        return to_milliseconds(self._now())
