"""The mode `store`: a request is answered once its items are rows in ClickHouse."""

from collections.abc import Sequence

from chassis.errors import ServiceUnavailable
from chassis.health import Dependency
from gateway.batches.availability import Availability
from gateway.batches.batcher import Batcher
from gateway.batches.writer import AWAY
from gateway.intake import Accepted
from gateway.outcomes import Ledger, Metrics


class StoredIntake:
    """Takes requests by storing them."""

    keeps_bodies = False

    def __init__(self, availability: Availability, batcher: Batcher, ledger: Ledger, metrics: Metrics) -> None:
        self._availability = availability
        self._batcher = batcher
        self._ledger = ledger
        self._metrics = metrics

    def admit(self) -> None:
        """Refuse while ClickHouse is away: nothing is kept in between."""
        if not self._availability.up:
            raise ServiceUnavailable(AWAY)

    async def take(self, accepted: Accepted) -> None:
        """Returns when the spans or logs are stored; raises what `Batcher.store` raises."""
        decoded = accepted.decoded
        await self._batcher.store(decoded, accepted.wire_bytes)
        self._ledger.answered(decoded, accepted.wire_bytes)
        self._metrics.stored_items.labels(decoded.signal).inc(decoded.accepted)

    def dependencies(self) -> Sequence[Dependency]:
        """Without ClickHouse nothing is taken."""
        return [self._availability]

    async def start(self) -> None:
        """Nothing was left behind."""

    async def close(self) -> None:
        """Write what waits."""
        await self._batcher.close()
