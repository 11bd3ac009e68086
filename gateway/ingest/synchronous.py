"""The mode `store`: a request is answered once its items are rows in ClickHouse."""

from collections.abc import Sequence

from chassis.errors import ServiceUnavailable
from chassis.runtime.health import Dependency
from gateway.ingest.interface import AcceptedRequest
from gateway.inserts.clickhouse_health import Availability
from gateway.inserts.lane_router import LaneRouter
from gateway.inserts.sync_batch_writer import STORE_UNAVAILABLE
from gateway.outcomes import Metrics, OutcomeCounters


class SynchronousIngest:
    """Inserts requests into ClickHouse before they are answered."""

    needs_raw_body = False

    def __init__(
        self, availability: Availability, router: LaneRouter, outcomes: OutcomeCounters, metrics: Metrics
    ) -> None:
        self._availability = availability
        self._router = router
        self._outcomes = outcomes
        self._metrics = metrics

    def admit(self) -> None:
        """Raise ServiceUnavailable while ClickHouse is unavailable: nothing is buffered."""
        if not self._availability.is_up:
            raise ServiceUnavailable(STORE_UNAVAILABLE)

    async def submit(self, accepted: AcceptedRequest) -> None:
        """Returns when the spans or logs are stored; raises what `LaneRouter.store` raises."""
        decoded = accepted.decoded
        await self._router.store(decoded, accepted.wire_bytes)
        self._outcomes.answered(decoded, accepted.wire_bytes)
        self._metrics.stored_items.labels(decoded.signal).inc(decoded.accepted)

    def dependencies(self) -> Sequence[Dependency]:
        """ClickHouse, which this mode requires."""
        return [self._availability]

    async def start(self) -> None:
        """Does nothing: an earlier process leaves nothing to recover."""

    async def close(self) -> None:
        """Write the requests that wait, and answer all of them."""
        await self._router.close()
