"""From an acknowledged request to rows: the modes `journal` and `memory`."""

import asyncio
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

from chassis.errors import ServiceUnavailable
from chassis.health import Dependency, Tolerated
from gateway.batches.lane import LaneLimits
from gateway.batches.slow import SlowLane
from gateway.conveyor.belt import Belt
from gateway.conveyor.reading import Reading
from gateway.conveyor.recovery import Recovery
from gateway.conveyor.sink import Sink
from gateway.conveyor.writer import Writer
from gateway.intake import Accepted
from gateway.journal import Log
from gateway.outcomes import Ledger
from gateway.settings import GatewaySettings

FULL: Final = "Too much waits to be stored; send the request again later."
DRAIN_S: Final = 5.0  # of what is in memory, at a stop: what is not stored by then is in the journal


class Conveyor:
    """Takes requests into the journal, and stores them afterwards, those of an earlier process as well."""

    def __init__(
        self, journal: Log, sink: Sink, ledger: Ledger, settings: GatewaySettings, retention_days: int
    ) -> None:
        self._journal = journal
        self._ledger = ledger
        self._sink = sink
        self._slow_lane = SlowLane(settings.slow_after_days, settings.slow_after_symbols, sink.clock)
        self._reading = reading = Reading(journal, sink)
        self._writer = writer = Writer(journal, reading, sink)
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
        self._fresh = Belt(journal, reading, writer, sink, limits, settings.pending_bytes, slow=False)
        self._slow = Belt(journal, reading, writer, sink, slow_limits, settings.max_slow_bytes, slow=True)
        self._recovery = Recovery(journal, reading, writer, sink, retention_days, settings.recovery_batches)
        self._recovering: asyncio.Task[None] | None = None
        self._unwatch: Callable[[], None] = lambda: None

    @property
    def idle(self) -> bool:
        """Everything that the journal held is stored."""
        return self._fresh.idle and self._slow.idle and self._writer.idle and self._recovery.idle

    @property
    def keeps_bodies(self) -> bool:
        """The journal does."""
        return self._journal.durable

    def admit(self) -> None:
        """Refuse while a journal that keeps nothing could not take a request."""
        if not self._journal.durable and (self._fresh.full or self._slow.full):
            raise ServiceUnavailable(FULL)

    async def take(self, accepted: Accepted) -> None:
        """Returns when the request is on disk; raises what the journal raises."""
        slow = self._slow_lane.takes(accepted.decoded)
        await self._journal.append(accepted.request._replace(slow=slow), partial(self._landed, accepted, slow))

    def dependencies(self) -> Sequence[Dependency]:
        """ClickHouse may be away for a while: what is taken waits."""
        return [Tolerated(self._sink.availability)]

    async def start(self) -> None:
        """Open the journal, and begin with what an earlier process left in it. Raises StartupError."""
        recovered = await asyncio.get_running_loop().run_in_executor(None, self._journal.open)
        self._reading.earlier = self._journal.last
        self._reading.count_damaged()
        for belt in (self._fresh, self._slow):
            belt.start(recovered.last)
        self._recovering = asyncio.get_running_loop().create_task(self._recovery.work(recovered))
        self._unwatch = self._sink.availability.watch(self._recovery)

    async def close(self) -> None:
        """Store what is in memory, as far as it goes within DRAIN_S; nothing, while ClickHouse is away."""
        self._unwatch()
        if self._recovering is not None:
            self._recovering.cancel()
            await asyncio.gather(self._recovering, return_exceptions=True)
        if self._sink.availability.up or not self._journal.durable:
            await self._drain()
        await asyncio.gather(self._fresh.close(), self._slow.close(), self._writer.close())
        await self._journal.close()

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(DRAIN_S):
                await asyncio.gather(self._fresh.drain(), self._slow.drain())
        except TimeoutError:
            if self._journal.durable:
                self._sink.log.warning("stopped with requests that are in the journal alone")
            else:
                items = self._sink.tally.pending
                self._sink.log.error("items lost", items=items, reason="the gateway stopped")  # noqa: TRY400 (told whole)

    def _landed(self, accepted: Accepted, slow: bool, sequence: int) -> None:
        """The request is on disk; called in the order of sequences, whether anybody waits for its answer or not."""
        decoded = accepted.decoded
        self._ledger.answered(decoded, accepted.wire_bytes)
        self._sink.tally.accepted(decoded.accepted)
        (self._slow if slow else self._fresh).put(sequence, decoded, accepted.wire_bytes, accepted.request.received_ns)
