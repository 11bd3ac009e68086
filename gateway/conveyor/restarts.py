"""Whether ClickHouse has started anew: a crash between two inserts is noticed by no insert, and may have cost parts."""

from typing import Final

import structlog

from chassis.clickhouse import QueryLimits
from chassis.rounds import Rounds
from gateway.batches.availability import Availability
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
        self._started: dict[str, int] = {}  # by host: several may stand behind one address
        failing = "whether clickhouse has started anew cannot be seen"
        self._rounds = Rounds(self._look, EVERY_S, log, failing, at_once=True)

    def start(self) -> None:
        """Begin to look."""
        self._rounds.start()

    async def close(self) -> None:
        """Stop looking."""
        await self._rounds.close()

    async def _look(self) -> None:
        if not self._availability.up:
            return
        rows = await self._store.query(_STARTED, {}, limits=_LIMITS)
        found = {str(host): int(str(started)) for host, started in rows}
        if any(abs(self._started.get(host, second) - second) > TOLERANCE_S for host, second in found.items()):
            self._availability.restarted()
        self._started |= found
