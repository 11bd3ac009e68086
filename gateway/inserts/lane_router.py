"""Chooses the lane of a request in the mode `store`, and enforces its deadline.

    fresh   batches that close every fifth of a second: one block of today for each table
    slow    requests with an item of an old day, or with very many distinct keys and names. A day is a partition and a
            block of its own, so a batch that spans a month is thirty inserts; keys and names are dictionaries, and an
            insert with a million of them takes seconds. These requests wait longer, for fuller blocks, and have insert
            slots of their own, so that new items never wait behind them. Projects share the memory of the slow lane
            (`FairShare`)

A request is not divided between lanes, because it has one response. docs/adr/004-slow-lane.md records the alternatives.
"""

import asyncio
from collections.abc import Callable
from typing import Final

import structlog

from chassis.errors import PayloadTooLarge, ServiceUnavailable
from gateway.admission.fair_share import FairShare
from gateway.inserts.lane import Lane, LaneLimits
from gateway.inserts.slow_lane import SlowLaneRule
from gateway.inserts.sync_batch_writer import RETRY_AFTER_S, STORE_UNAVAILABLE, PendingAck, SyncBatchWriter
from gateway.outcomes import Metrics
from gateway.settings import GatewaySettings
from proto.otlp.policy import DecodedPayload

TOO_MANY_OLD: Final = "Too many old items wait to be stored; send the request again later."
DRAIN_MARGIN_S: Final = 1.0
MAX_LINGER_FRACTION: Final = 0.25  # of the deadline: the rest of it is needed for the insert


class LaneRouter:
    """Inserts decoded requests into ClickHouse in batches, and answers each when its items are stored."""

    def __init__(
        self,
        writer: SyncBatchWriter,
        settings: GatewaySettings,
        metrics: Metrics,
        log: structlog.stdlib.BoundLogger,
        clock: Callable[[], int],
    ) -> None:
        self._settings = settings
        self._metrics = metrics
        self._log = log
        self._slow_lane_rule = SlowLaneRule(settings.slow_after_days, settings.slow_after_symbols, clock)
        limits = LaneLimits(
            settings.batch_rows, settings.batch_bytes, settings.max_days, settings.linger_s, settings.max_batches
        )
        linger_s = min(settings.slow_linger_s, settings.ack_deadline_s * MAX_LINGER_FRACTION)
        self._writer = writer
        self._fresh = Lane(self._write, limits)
        self._slow = Lane(self._write, limits._replace(linger_s=linger_s, slots=settings.slow_batches))
        self._slow_bytes: FairShare[int] = FairShare(settings.max_slow_bytes)
        metrics.slow_bytes.set_function(lambda: self._slow_bytes.taken)

    async def store(self, decoded: DecodedPayload, wire_bytes: int) -> None:
        """Returns once the spans and logs are in ClickHouse. Raises ServiceUnavailable at the deadline (they may still
        be stored later: delivery is at least once), and when the slow lane is overloaded or the project has used up its
        share of it; PayloadTooLarge for too many days; InternalError when ClickHouse refuses them permanently.
        """
        if len(decoded.days) > self._settings.max_days:
            raise PayloadTooLarge(f"The items of one request lie in more than {self._settings.max_days} days.")
        if not self._slow_lane_rule.matches(decoded):
            await self._submit(self._fresh, decoded, wire_bytes)
            return
        too_late = self._slow.expected_wait_s() > self._settings.ack_deadline_s  # the client would give up before
        if too_late or not self._slow_bytes.take(decoded.project_id, decoded.nbytes):
            raise ServiceUnavailable(TOO_MANY_OLD)
        self._metrics.slow_items.inc(decoded.accepted)
        try:
            await self._submit(self._slow, decoded, wire_bytes)
        finally:
            self._slow_bytes.change(decoded.project_id, -decoded.nbytes)

    async def close(self) -> None:
        """Write the queued requests; afterwards every request is answered. An insert that hangs for longer than the
        deadline is cancelled: its requests were answered 503.
        """
        try:
            async with asyncio.timeout(self._settings.ack_deadline_s + DRAIN_MARGIN_S):
                await asyncio.gather(self._fresh.drain(), self._slow.drain())
        except TimeoutError:
            self._log.warning("stopped with inserts under way", batches=self._fresh.writing + self._slow.writing)
        await asyncio.gather(self._fresh.close(), self._slow.close())

    async def _write(self, batch: list[PendingAck]) -> None:
        try:
            await self._writer.write(batch, max(request.deadline for request in batch))
        except Exception:  # noqa: BLE001 (whatever it is, every request must be answered)
            # An unexpected error may be transient, and a 500 would make exporters drop the items.
            self._log.exception("batch failed", requests=len(batch))
            for request in batch:
                request.fail(ServiceUnavailable(STORE_UNAVAILABLE))

    async def _submit(self, lane: Lane[PendingAck], decoded: DecodedPayload, wire_bytes: int) -> None:
        loop = asyncio.get_running_loop()
        deadline = loop.time() + self._settings.ack_deadline_s
        request = PendingAck(decoded, wire_bytes, deadline, loop.create_future())
        expiry = loop.call_at(deadline, request.fail, ServiceUnavailable(STORE_UNAVAILABLE, retry_after=RETRY_AFTER_S))
        lane.add(request)
        try:
            await request.done
        finally:
            expiry.cancel()
            lane.discard(request)
