"""Whether ClickHouse has started anew: a crash between two inserts is noticed by no insert, and may have cost parts."""

import asyncio
from typing import Final

import structlog

from chassis.clickhouse import QueryLimits, StoreError
from gateway.batches.availability import Availability
from gateway.conveyor.complaints import Complaints
from gateway.conveyor.presence import Reader

EVERY_S: Final = 15.0
TOLERANCE_S: Final = 5  # clocks are set
_STARTED: Final = "SELECT hostName(), toInt64(toUnixTimestamp(now())) - toInt64(uptime())"
_LIMITS: Final = QueryLimits(max_seconds=10)


class Restarts:
    """Looks now and then when the server started that answers."""

    def __init__(self, store: Reader, availability: Availability, log: structlog.stdlib.BoundLogger) -> None:
        self._store = store
        self._availability = availability
        self._complaints = Complaints(log, "whether clickhouse has started anew cannot be seen")
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
            try:
                await self._look()
            except StoreError:
                pass  # inserts will tell
            except Exception as error:  # noqa: BLE001 (whatever it is, rows may be lost later and are to be missed)
                self._complaints.failed(error)
            else:
                self._complaints.succeeded()
            await asyncio.sleep(EVERY_S)

    async def _look(self) -> None:
        if not self._availability.up:
            return
        rows = await self._store.query(_STARTED, {}, limits=_LIMITS)
        found = {str(host): int(str(started)) for host, started in rows}
        if any(abs(self._started.get(host, second) - second) > TOLERANCE_S for host, second in found.items()):
            self._availability.restarted()
        self._started |= found
