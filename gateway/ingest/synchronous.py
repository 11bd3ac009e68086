"""The mode `store`: a request is answered once its items are rows in ClickHouse.

    fresh   batches that close every fifth of a second: one block of today for each table
    slow    requests with an item of an old day, or with very many distinct keys and names. A day is a partition and a
            block of its own, so a batch that spans a month is thirty inserts; keys and names are dictionaries, and an
            insert with a million of them takes seconds. These requests wait longer, for fuller blocks, and have insert
            slots of their own, so that new items never wait for them. Projects share the memory of the slow lane
            (`FairShare`)

A request is not divided between lanes, because it has one response. docs/adr/004-slow-lane.md records the alternatives.
"""

import asyncio
import itertools
from collections.abc import Callable, Sequence
from typing import Final

import structlog

from chassis.errors import PayloadTooLarge, ServiceUnavailable
from chassis.limits.fairness import FairShare
from chassis.runtime.health import Dependency
from gateway.ingest.lanes import AcceptedRequest, Lane, LaneLimits, SlowLaneRule
from gateway.inserts.batch_writer import RETRY_AFTER_S, STORE_UNAVAILABLE, BatchWriter
from gateway.inserts.pending_requests import PendingRequest
from gateway.inserts.store_state import InsertBreaker
from gateway.metrics import Metrics, OutcomeCounters
from gateway.settings import GatewaySettings

TOO_MANY_OLD: Final = "The queue for old and high-cardinality data is full; retry later."
DRAIN_MARGIN_S: Final = 1.0
MAX_LINGER_FRACTION: Final = 0.25  # of the deadline: the insert needs the rest


class SynchronousIngest:
    """Inserts requests into ClickHouse in batches, and answers each when its items are stored."""

    needs_raw_body = False

    def __init__(
        self,
        writer: BatchWriter,
        breaker: InsertBreaker,
        metrics: Metrics,
        outcomes: OutcomeCounters,
        settings: GatewaySettings,
        clock: Callable[[], int],
        log: structlog.stdlib.BoundLogger,
    ) -> None:
        """`writer` writes the batches of a journal that stores nothing."""
        self._writer = writer
        self._breaker = breaker
        self._metrics = metrics
        self._outcomes = outcomes
        self._settings = settings
        self._log = log
        self._slow_lane_rule = SlowLaneRule(settings.slow_after_days, settings.slow_after_symbols, clock)
        self._sequences = itertools.count(1)
        limits = LaneLimits.of(settings, settings.linger_s)
        linger_s = min(settings.slow_linger_s, settings.ack_deadline_s * MAX_LINGER_FRACTION)
        self._fresh = Lane(writer.write, limits)
        self._slow = Lane(writer.write, limits._replace(linger_s=linger_s, slots=settings.slow_batches))
        self._slow_bytes: FairShare[int] = FairShare(settings.max_slow_bytes)
        metrics.slow_bytes.set_function(lambda: self._slow_bytes.taken)

    def admit(self) -> None:
        """Raise ServiceUnavailable while ClickHouse is unavailable: this mode buffers no requests."""
        if not self._breaker.is_up:
            raise ServiceUnavailable(STORE_UNAVAILABLE)

    async def submit(self, accepted: AcceptedRequest) -> None:
        """Returns once the spans and logs are in ClickHouse. Raises ServiceUnavailable at the deadline (the items may
        still be stored later: delivery is at least once), and when the slow lane is overloaded or the project has used
        up its share of the lane. Raises PayloadTooLarge for too many days, and InternalError when ClickHouse refuses
        the items permanently.
        """
        decoded = accepted.decoded
        if len(decoded.days) > self._settings.max_days:
            raise PayloadTooLarge(
                f"The request has items of more than {self._settings.max_days} UTC days; send fewer days per request."
            )
        if self._slow_lane_rule.matches(decoded):
            await self._store_slowly(accepted)
        else:
            await self._store(self._fresh, accepted)
        self._outcomes.answered(decoded, accepted.wire_bytes)
        self._metrics.stored_items.labels(decoded.signal).inc(decoded.accepted)

    def dependencies(self) -> Sequence[Dependency]:
        """ClickHouse, which this mode requires."""
        return [self._breaker]

    async def start(self) -> None:
        """Does nothing: an earlier process leaves nothing to recover."""

    async def close(self) -> None:
        """Write the queued requests; afterwards every request is answered. An insert that hangs for longer than the
        deadline is cancelled: its requests were answered 503.
        """
        try:
            async with asyncio.timeout(self._settings.ack_deadline_s + DRAIN_MARGIN_S):
                await asyncio.gather(self._fresh.drain(), self._slow.drain())
        except TimeoutError:
            self._log.warning(
                "stopped with inserts in progress (answered 503)", batches=self._fresh.writing + self._slow.writing
            )
        await asyncio.gather(self._fresh.close(), self._slow.close(), self._writer.close())

    async def _store_slowly(self, accepted: AcceptedRequest) -> None:
        project, nbytes = accepted.decoded.project_id, accepted.decoded.nbytes
        # The client would give up before the response.
        too_late = self._slow.expected_wait_s() > self._settings.ack_deadline_s
        if too_late or not self._slow_bytes.take(project, nbytes):
            raise ServiceUnavailable(TOO_MANY_OLD)
        self._metrics.slow_items.inc(accepted.decoded.accepted)
        try:
            await self._store(self._slow, accepted)
        finally:
            self._slow_bytes.change(project, -nbytes)

    async def _store(self, lane: Lane, accepted: AcceptedRequest) -> None:
        loop = asyncio.get_running_loop()
        answer, deadline = loop.create_future(), loop.time() + self._settings.ack_deadline_s
        decoded, received_ns = accepted.decoded, accepted.request.received_ns
        request = PendingRequest(
            next(self._sequences), decoded, decoded.accepted, accepted.wire_bytes, received_ns, answer, deadline
        )
        expiry = loop.call_at(deadline, request.fail, ServiceUnavailable(STORE_UNAVAILABLE, retry_after=RETRY_AFTER_S))
        lane.add(request)
        try:
            await answer
        finally:
            expiry.cancel()
            lane.discard(request)
