"""Deletes the filters of old erasures, and counts open ones for the operator."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Gauge

from chassis.db.database import Database
from chassis.erasures import repository
from chassis.runtime.periodic import PeriodicTask

INTERVAL_S: Final = 60.0

log = structlog.get_logger(__name__)


class ErasureHousekeeping:
    """One task per process."""

    def __init__(
        self,
        database: Database,
        registry: CollectorRegistry | None,
        *,
        filter_days: int = 0,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
    ) -> None:
        """`filter_days`: how long the filters of completed erasures are kept, in days. 0: for ever."""
        self._database = database
        self._keep = timedelta(days=filter_days)
        self._now = now
        self._open = Gauge(
            "sluice_erasures_open", "Erasures that are not completed, by state: open or failed.", ("state",),
            registry=registry,
        )  # fmt: skip
        self._oldest = Gauge(
            "sluice_erasures_oldest_seconds",
            "Age of the oldest erasure that is not completed, since its request. 0 if there is none.",
            registry=registry,
        )
        self.running = PeriodicTask(
            self.run_once, INTERVAL_S, log, "housekeeping of erasures failed", run_immediately=True
        ).running

    async def run_once(self) -> None:
        """Delete old filters and count open erasures. Raises DatabaseUnavailable."""
        async with self._database.read() as connection:
            unfinished = await repository.count_unfinished(connection)
            expired = self._keep and await repository.has_filters_from_before(connection, self._now() - self._keep)
        self._open.labels("open").set(unfinished.open)
        self._open.labels("failed").set(unfinished.failed)
        age = 0.0 if unfinished.oldest is None else (self._now() - unfinished.oldest).total_seconds()
        self._oldest.set(max(0.0, age))
        if expired:
            async with self._database.write() as connection:
                await repository.expire_filters(connection, self._now() - self._keep, self._now())
