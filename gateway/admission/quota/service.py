"""Assembles quotas: the checks, and the background tasks that synchronize them."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Self

import structlog
from prometheus_client import CollectorRegistry

from chassis.db.database import Database
from chassis.redis import Redis
from chassis.runtime.periodic import PeriodicTask
from gateway.admission.quota.accounts import NANOS_PER_SECOND, Accounts
from gateway.admission.quota.db_sync import DatabaseSync
from gateway.admission.quota.metrics import QuotaMetrics
from gateway.admission.quota.quota import Quota
from gateway.admission.quota.recount import POLL_INTERVAL_S, OutcomeReader, Recounter
from gateway.admission.quota.redis_sync import SYNC_INTERVAL_S, RedisSync

CLOSE_S: Final = 3.0  # for a synchronization in progress, on shutdown


@dataclass(frozen=True, slots=True)
class QuotaService:
    """The checks of requests (`quota`), and the synchronization of accounts with the stores."""

    quota: Quota
    database_sync: DatabaseSync
    redis_sync: RedisSync | None
    periodic_tasks: tuple[PeriodicTask, ...]

    @classmethod
    def build(
        cls,
        database: Database,
        reader: OutcomeReader,
        redis: Redis | None,
        registry: CollectorRegistry,
        *,
        sync_s: float,
        clock: Callable[[], int],
        log: structlog.stdlib.BoundLogger,
    ) -> Self:
        """Build it over stores that the caller starts and closes. `clock` gives nanoseconds since 1970."""

        def seconds() -> float:
            return clock() / NANOS_PER_SECOND

        metrics = QuotaMetrics(registry)
        accounts = Accounts(clock, has_redis=redis is not None)
        database_sync = DatabaseSync(accounts, database, metrics, seconds)
        recounter = Recounter(accounts, database, reader, metrics, seconds)

        def periodic(work: Callable[[], Awaitable[None]], every_s: float) -> PeriodicTask:
            return PeriodicTask(work, every_s, log, "quota synchronization failed", close_timeout_s=CLOSE_S)

        periodic_tasks = [periodic(database_sync.sync, sync_s), periodic(recounter.recount_due, POLL_INTERVAL_S)]
        redis_sync = None if redis is None else RedisSync(accounts, redis, metrics)
        if redis_sync is not None:
            periodic_tasks.append(periodic(redis_sync.sync, min(SYNC_INTERVAL_S, sync_s)))
        return cls(Quota(accounts, database_sync.look_up, clock), database_sync, redis_sync, tuple(periodic_tasks))

    def start(self) -> None:
        """Start synchronizing."""
        for task in self.periodic_tasks:
            task.start()

    async def close(self) -> None:
        """Stop, and write the remaining usage. To be called when no request is in flight."""
        for task in self.periodic_tasks:
            await task.close()
        if self.redis_sync is not None:
            await self.redis_sync.sync()
        await self.database_sync.close()
