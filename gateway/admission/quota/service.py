"""Everything that quotas need, put together."""

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

CLOSE_S: Final = 3.0  # of an exchange that is under way


@dataclass(frozen=True, slots=True)
class QuotaService:
    """What requests ask, and the exchanges behind it."""

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
        """Over stores that are started and closed by others. `clock` gives nanoseconds since 1970."""

        def seconds() -> float:
            return clock() / NANOS_PER_SECOND

        metrics = QuotaMetrics(registry)
        accounts = Accounts(clock, has_redis=redis is not None)
        recorder = DatabaseSync(accounts, database, metrics, seconds)
        recounter = Recounter(accounts, database, reader, metrics, seconds)

        def repeated(work: Callable[[], Awaitable[None]], every_s: float) -> PeriodicTask:
            return PeriodicTask(work, every_s, log, "quotas were not exchanged", close_timeout_s=CLOSE_S)

        rounds = [repeated(recorder.sync, sync_s), repeated(recounter.recount_due, POLL_INTERVAL_S)]
        sharer = None if redis is None else RedisSync(accounts, redis, metrics)
        if sharer is not None:
            rounds.append(repeated(sharer.sync, min(SYNC_INTERVAL_S, sync_s)))
        return cls(Quota(accounts, recorder.look_up, clock), recorder, sharer, tuple(rounds))

    def start(self) -> None:
        """Begin to exchange."""
        for each in self.periodic_tasks:
            each.start()

    async def close(self) -> None:
        """Once no request is under way: stop, and tell what is left."""
        for each in self.periodic_tasks:
            await each.close()
        if self.redis_sync is not None:
            await self.redis_sync.sync()
        await self.database_sync.close()
