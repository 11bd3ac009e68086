"""Everything that quotas need, put together."""

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final, Self

import structlog
from prometheus_client import CollectorRegistry

from chassis.redis import Redis
from chassis.relational import Database
from chassis.rounds import Rounds
from gateway.quota.accounts import NANOS, Accounts
from gateway.quota.metrics import QuotaMetrics
from gateway.quota.quota import Quota
from gateway.quota.recording import Recorder
from gateway.quota.recounting import LOOK_S, Reader, Recounter
from gateway.quota.sharing import SHARE_S, Sharer

CLOSE_S: Final = 3.0  # of an exchange that is under way


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

        def repeated(work: Callable[[], Awaitable[None]], every_s: float) -> Rounds:
            return Rounds(work, every_s, log, "quotas were not exchanged", close_s=CLOSE_S)

        rounds = [repeated(recorder.round, sync_s), repeated(recounter.round, LOOK_S)]
        sharer = None if redis is None else Sharer(accounts, redis, metrics)
        if sharer is not None:
            rounds.append(repeated(sharer.round, min(SHARE_S, sync_s)))
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
