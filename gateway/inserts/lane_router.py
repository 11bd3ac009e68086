"""Which lane a request takes to ClickHouse, and how long it may be under way.

    fresh   batches that close every fifth of a second: one block of today for each table
    slow    requests with an item of an old day, or with very many distinct keys and names. A day is a partition and a
            block of its own, so a batch with a month in it is thirty inserts; keys and names are dictionaries, and an
            insert with a million of them takes seconds. They wait longer, for fuller blocks, and have insert slots of
            their own, so that nobody's new items wait behind them. Of the memory for what waits there a project has its
            share (`Shares`)

A request takes one lane as a whole, for it has one answer. docs/adr/004-slow-lane.md has what was weighed.
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
MAX_LINGER_FRACTION: Final = 0.25  # of the deadline: what waits longer has no time left to be inserted


class LaneRouter:
    """Sends decoded requests to ClickHouse together with others, and answers each when its items are there."""

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
        """Returns once the spans and logs are in ClickHouse. ServiceUnavailable when they are not at the deadline (they
        may still arrive: the promise is at least once), or when the slow lane has too much to do, or enough of this
        project's; PayloadTooLarge for too many days; InternalError when ClickHouse will never take them.
        """
        if len(decoded.days) > self._settings.max_days:
            raise PayloadTooLarge(f"The items of one request lie in more than {self._settings.max_days} days.")
        if not self._slow_lane_rule.matches(decoded):
            await self._submit(self._fresh, decoded, wire_bytes)
            return
        too_late = (
            self._slow.expected_wait_s() > self._settings.ack_deadline_s
        )  # it would be stored after its sender gave up
        if too_late or not self._slow_bytes.take(decoded.project_id, decoded.nbytes):
            raise ServiceUnavailable(TOO_MANY_OLD)
        self._metrics.slow_items.inc(decoded.accepted)
        try:
            await self._submit(self._slow, decoded, wire_bytes)
        finally:
            self._slow_bytes.change(decoded.project_id, -decoded.nbytes)

    async def close(self) -> None:
        """Write what waits; every request has its answer afterwards. An insert that hangs longer than the deadline of
        the requests behind it is left alone: they were answered 503.
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
        except Exception:  # noqa: BLE001 (nothing a batch does may leave its requests without an answer)
            # Not foreseen, so perhaps passing: a 500 would make the senders throw the items away.
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
