"""Everything that quotas need, put together."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Self

import structlog
from prometheus_client import CollectorRegistry

from chassis.redis import Redis
from chassis.relational import Database
from gateway.quota.accounts import NANOS, Accounts
from gateway.quota.quota import Quota
from gateway.quota.recording import Recorder
from gateway.quota.recounting import LOOK_S, Reader, Recounter
from gateway.quota.rounds import QuotaMetrics, Rounds
from gateway.quota.sharing import SHARE_S, Sharer


@dataclass(frozen=True, slots=True)
class Metering:
    """What requests ask, and the exchanges behind it."""

    quota: Quota
    recorder: Recorder
    sharer: Sharer | None
    rounds: tuple[Rounds, ...]

    @classmethod
    def over(
        cls,
        database: Database,
        reader: Reader,
        redis: Redis | None,
        registry: CollectorRegistry,
        *,
        sync_s: float,
        clock: Callable[[], int],
        log: structlog.stdlib.BoundLogger,
    ) -> Self:
        """Over stores that are started and closed by others. `clock` gives nanoseconds since 1970."""

        def seconds() -> float:
            return clock() / NANOS

        metrics = QuotaMetrics(registry)
        accounts = Accounts(clock, shares=redis is not None)
        recorder = Recorder(accounts, database, metrics, seconds)
        recounter = Recounter(accounts, database, reader, metrics, seconds)
        rounds = [Rounds(recorder.round, sync_s, log), Rounds(recounter.round, LOOK_S, log)]
        sharer = None if redis is None else Sharer(accounts, redis, metrics)
        if sharer is not None:
            rounds.append(Rounds(sharer.round, min(SHARE_S, sync_s), log))
        return cls(Quota(accounts, recorder.look_up, clock), recorder, sharer, tuple(rounds))

    def start(self) -> None:
        """Begin to exchange."""
        for each in self.rounds:
            each.start()

    async def close(self) -> None:
        """Once no request is under way: stop, and tell what is left."""
        for each in self.rounds:
            await each.close()
        if self.sharer is not None:
            await self.sharer.round()
        await self.recorder.close()
