"""The modes `journal` and `memory`: a request is answered before its items are rows in ClickHouse."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from chassis.errors import ServiceUnavailable
from chassis.runtime.health import Dependency, OptionalDependency
from gateway.ingest.backlog import LaneBacklog
from gateway.ingest.batch_writer import BatchWriter
from gateway.ingest.interface import AcceptedRequest
from gateway.ingest.journal_reader import JournalReader
from gateway.ingest.recovery import Recovery
from gateway.inserts.insert_context import InsertContext
from gateway.inserts.lane import LaneLimits
from gateway.inserts.slow_lane import SlowLaneRule
from gateway.journal import JournalLike
from gateway.outcomes import OutcomeCounters
from gateway.settings import GatewaySettings

FULL: Final = "The ingest queue is full; retry later."
DRAIN_S: Final = 5.0  # for the requests in memory, on shutdown: those not stored by then are in the journal


class JournaledIngest:
    """Appends requests to the journal and stores them afterwards, together with those of an earlier process."""

    def __init__(
        self,
        journal: JournalLike,
        context: InsertContext,
        outcomes: OutcomeCounters,
        settings: GatewaySettings,
        retention_days: int,
    ) -> None:
        self._journal = journal
        self._outcomes = outcomes
        self._context = context
        self._slow_lane_rule = SlowLaneRule(settings.slow_after_days, settings.slow_after_symbols, context.clock)
        self._reader = reader = JournalReader(journal, context)
        self._writer = writer = BatchWriter(journal, reader, context)
        limits = LaneLimits(
            settings.batch_rows,
            settings.batch_bytes,
            settings.max_days,
            settings.journal_linger_s,
            settings.max_batches,
        )
        slow_limits = limits._replace(
            linger_s=max(settings.slow_linger_s, settings.journal_linger_s), slots=settings.slow_batches
        )
        self._fresh = LaneBacklog(journal, reader, writer, context, limits, settings.pending_bytes, slow=False)
        self._slow = LaneBacklog(journal, reader, writer, context, slow_limits, settings.max_slow_bytes, slow=True)
        self._recovery = Recovery(journal, reader, writer, context, retention_days, settings.recovery_batches)
        self._recovery_task: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] = lambda: None

    @property
    def is_idle(self) -> bool:
        """Whether everything that the journal held is stored."""
        return self._fresh.is_idle and self._slow.is_idle and self._writer.is_idle and self._recovery.is_idle

    @property
    def needs_raw_body(self) -> bool:
        """Whether the journal keeps requests: it writes bodies as received."""
        return self._journal.durable

    def admit(self) -> None:
        """In mode `memory`, raise ServiceUnavailable while a lane is full; a durable journal refuses in `append`."""
        if not self._journal.durable and (self._fresh.is_full or self._slow.is_full):
            raise ServiceUnavailable(FULL)

    async def submit(self, accepted: AcceptedRequest) -> None:
        """Returns when the request is on disk; raises what `JournalLike.append` raises."""
        slow = self._slow_lane_rule.matches(accepted.decoded)
        await self._journal.append(accepted.request._replace(slow=slow), partial(self._on_persisted, accepted, slow))

    def dependencies(self) -> Sequence[Dependency]:
        """ClickHouse, as an optional dependency: while it is unavailable, accepted requests wait."""
        return [OptionalDependency(self._context.breaker)]

    async def start(self) -> None:
        """Open the journal, and start with the requests that an earlier process left in it. Raises StartupError."""
        recovered = await asyncio.get_running_loop().run_in_executor(None, self._journal.open)
        self._reader.last_earlier_sequence = self._journal.last_sequence
        self._reader.count_damaged()
        for lane in (self._fresh, self._slow):
            lane.start(recovered.last_unbatched)
        self._recovery_task = asyncio.get_running_loop().create_task(self._recovery.run(recovered))
        self._unsubscribe = self._context.breaker.subscribe(self._recovery)

    async def close(self) -> None:
        """Store the requests in memory for at most DRAIN_S; with a durable journal, only if ClickHouse is up."""
        self._unsubscribe()
        if self._recovery_task is not None:
            self._recovery_task.cancel()
            await asyncio.gather(self._recovery_task, return_exceptions=True)
        if self._context.breaker.is_up or not self._journal.durable:
            await self._drain()
        await asyncio.gather(self._fresh.close(), self._slow.close(), self._writer.close())
        await self._journal.close()

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(DRAIN_S):
                await asyncio.gather(self._fresh.drain(), self._slow.drain())
        except TimeoutError:
            if self._journal.durable:
                self._context.log.warning("stopped with unstored requests in the journal; the next start stores them")
            else:
                items = self._context.accounting.pending
                self._context.log.error("items lost", items=items, reason="the gateway stopped")  # noqa: TRY400 (the line says all)

    def _on_persisted(self, accepted: AcceptedRequest, slow: bool, sequence: int) -> None:
        """Count and queue a request that is on disk; called in the order of sequences, also if its client is gone."""
        decoded = accepted.decoded
        self._outcomes.answered(decoded, accepted.wire_bytes)
        self._context.accounting.accepted(decoded.accepted)
        (self._slow if slow else self._fresh).put(sequence, decoded, accepted.wire_bytes, accepted.request.received_ns)
