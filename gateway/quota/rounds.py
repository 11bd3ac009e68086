"""Work that is done again and again behind the requests."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter

CLOSE_S: Final = 3.0


class QuotaMetrics:
    """What happens when the stores are away; without labels of organizations."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self.failures = Counter(
            "sluice_gateway_quota_failures",
            "Exchanges of quota counts that failed, by store; exports go on by what is known.",
            ("store",),
            registry=registry,
        )
        self.left_to_recount = Counter(
            "sluice_gateway_quota_left_items",
            "Items the record of quotas could not be told in time: they count once ClickHouse has been asked.",
            registry=registry,
        )
        for store in ("database", "redis", "clickhouse"):
            self.failures.labels(store)


class Rounds:
    """`work` every so many seconds. What it raises is logged, and costs this round."""

    def __init__(self, work: Callable[[], Awaitable[None]], every_s: float, log: structlog.stdlib.BoundLogger) -> None:
        self._work = work
        self._every_s = every_s
        self._log = log
        self._stop = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin, with a pause."""
        self._task = asyncio.get_running_loop().create_task(self._repeat())

    async def close(self) -> None:
        """Stop between two rounds; within one that takes longer than CLOSE_S."""
        self._stop.set()
        if self._task is not None:
            await asyncio.wait((self._task,), timeout=CLOSE_S)
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _stopped(self) -> bool:
        """Whether that was asked for, after a pause."""
        try:
            async with asyncio.timeout(self._every_s):
                return await self._stop.wait()
        except TimeoutError:
            return False

    async def _repeat(self) -> None:
        while not await self._stopped():
            try:
                await self._work()
            except Exception as error:  # noqa: BLE001 - whatever it is, there is a next round
                self._log.warning("quotas were not exchanged", exc_info=error)
