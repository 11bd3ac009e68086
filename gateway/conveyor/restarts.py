"""Whether ClickHouse has started anew: a crash between two inserts is noticed by no insert, and may have cost parts."""

import asyncio
from typing import Final

from chassis.clickhouse import QueryLimits, StoreError
from gateway.batches.availability import Availability
from gateway.conveyor.presence import Reader

EVERY_S: Final = 15.0
TOLERANCE_S: Final = 5  # clocks are set
_STARTED: Final = "SELECT hostName(), toInt64(toUnixTimestamp(now())) - toInt64(uptime())"
_LIMITS: Final = QueryLimits(max_seconds=10)


class Restarts:
    """Looks now and then when the server started that answers."""

    def __init__(self, store: Reader, availability: Availability) -> None:
        self._store = store
        self._availability = availability
        self._started: dict[str, int] = {}  # by host: several may stand behind one address
        self._task: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Begin to look."""
        self._task = asyncio.get_running_loop().create_task(self._work())

    async def close(self) -> None:
        """Stop looking."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.gather(self._task, return_exceptions=True)

    async def _work(self) -> None:
        while True:
            if self._availability.up and await self._is_another():
                self._availability.restarted()
            await asyncio.sleep(EVERY_S)

    async def _is_another(self) -> bool:
        try:
            rows = await self._store.query(_STARTED, {}, limits=_LIMITS)
        except StoreError:
            return False  # inserts will tell
        changed = False
        for host, started in rows:
            name, second = str(host), int(str(started))
            changed |= abs(self._started.setdefault(name, second) - second) > TOLERANCE_S
            self._started[name] = second
        return changed
