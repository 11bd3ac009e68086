"""The modes `journal` and `memory`: a request is answered before its items are rows in ClickHouse.

`JournaledIngest.submit` appends it to the journal. From then until its batch is formed, a request is in one lane, in
bounded memory (`LaneBacklog`):

put                a request that is on disk: its columns wait here for a batch while its project has room (`FairShare`)
defer              without room, the request and all later ones of its project are only in the journal
_replay            once there is room again, reads and decodes deferred requests, in order, until none is left
_check_overlooked  every ten seconds, whether the journal has a request that is neither in memory nor deferred

Replayed requests leave a quarter of the memory free, so that a project without deferred requests does not wait for the
backlog of another project or of an earlier process.
"""

import asyncio
import contextlib
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import structlog

from chassis.errors import ServiceUnavailable
from chassis.limits.fairness import FairShare
from chassis.runtime.health import Dependency, OptionalDependency
from chassis.runtime.periodic import cancel_tasks
from gateway.ingest.lanes import AcceptedRequest, Lane, LaneLimits, SlowLaneRule
from gateway.ingest.recovery import Recovery
from gateway.inserts.batch_writer import BatchWriter
from gateway.inserts.pending_requests import JournalReader, PendingRequest
from gateway.inserts.store_state import InsertBreaker
from gateway.journal import Entry, JournalLike
from gateway.metrics import ItemAccounting, Metrics, OutcomeCounters
from gateway.settings import GatewaySettings
from proto.otlp.policy import DecodedPayload

READ_BYTES: Final = 2**20  # of the journal, per read
DECODED_BYTES: Final = 16 * 2**20  # of columns decoded in one call: a busy event loop is slow to start the next call
RETRY_S: Final = 1.0
CHECK_INTERVAL_S: Final = 10.0  # between two checks for overlooked requests


class LaneBacklog:
    """Requests of one lane. `max_bytes` limits the memory of their columns until they are stored."""

    def __init__(
        self,
        journal: JournalLike,
        reader: JournalReader,
        writer: BatchWriter,
        limits: LaneLimits,
        max_bytes: int,
        metrics: Metrics,
        log: structlog.stdlib.BoundLogger,
        *,
        slow: bool,
    ) -> None:
        self._journal = journal
        self._reader = reader
        self._writer = writer
        self._metrics = metrics
        self._log = log
        self._lane = Lane(writer.write, limits, self._on_written)
        self._slow = slow
        self._memory: FairShare[int] = FairShare(max_bytes)  # by project
        self._replayed: dict[int, int] = {}  # requests in memory that were read from the journal: bytes by sequence
        self._replayed_bytes = 0
        self._in_memory: set[int] = set()  # sequences in memory, until they are stored
        self._stored_during_read: set[int] = set()  # sequences that left memory since the read in progress began
        self._replay_after: int | None = None  # requests after this sequence that are not in memory are to be read
        self._last_deferred = 0  # the last deferred sequence
        # The last deferred sequence by project, while requests are deferred.
        self._last_deferred_by_project: dict[int, int] = {}
        self._is_reading = False
        self._next_check_at = 0.0  # by the loop's clock
        self._checked_to = 0  # up to this sequence no request is overlooked, or it is read again
        reader.in_memory.append(self._in_memory)
        self._replay_needed = asyncio.Event()
        self._capacity_freed = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    @property
    def is_full(self) -> bool:
        """Whether there is no memory for another request."""
        return self._memory.taken >= self._memory.capacity

    @property
    def is_idle(self) -> bool:
        """Whether no request waits, is being written or is deferred."""
        return self._replay_after is None and not self._in_memory

    def start(self, recover_to: int) -> None:
        """Start, with the requests that an earlier process left in the journal up to the sequence `recover_to`."""
        if recover_to:
            self.defer(recover_to)
            self._replay_after = 0
        loop = asyncio.get_running_loop()
        self._next_check_at = loop.time() + CHECK_INTERVAL_S
        self._task = loop.create_task(self._replay())

    def put(self, sequence: int, decoded: DecodedPayload, wire_bytes: int, received_ns: int) -> None:
        """Queue a request that is on disk, or defer it when its project has no room."""
        project = decoded.project_id
        room = not self._has_deferred(project) and self._memory.permits(project, decoded.nbytes)
        if room or not self._journal.durable:
            self._add(PendingRequest(sequence, decoded, decoded.accepted, wire_bytes, received_ns))
        else:
            self._last_deferred_by_project[project] = sequence
            self.defer(sequence)

    def defer(self, sequence: int) -> None:
        """Leave a request in the journal, and read it when there is room."""
        self._replay_after = sequence - 1 if self._replay_after is None else min(self._replay_after, sequence - 1)
        self._last_deferred = max(self._last_deferred, sequence)
        self._replay_needed.set()

    async def drain(self) -> None:
        """Write the requests in memory, and read no more."""
        await cancel_tasks(self._task)
        await self._lane.drain()

    async def close(self) -> None:
        """Cancel batches that are being written, and stop reading; the journal has their requests."""
        await cancel_tasks(self._task)
        await self._lane.close()

    def _has_deferred(self, project: int) -> bool:
        """Whether a project has deferred requests: its next requests then queue behind them."""
        last = self._last_deferred_by_project.get(project)
        if last is not None and (self._replay_after is None or last <= self._replay_after):
            del self._last_deferred_by_project[project]
            last = None
        return last is not None

    def _add(self, request: PendingRequest, *, replayed: bool = False) -> None:
        nbytes = request.decoded.nbytes
        self._in_memory.add(request.sequence)
        self._memory.change(request.decoded.project_id, nbytes)
        if replayed:
            self._replayed[request.sequence] = nbytes
            self._replayed_bytes += nbytes
        self._lane.add(request)

    def _on_written(self, batch: Sequence[PendingRequest]) -> None:
        """Free the memory of a batch that is stored, or will be retried from the journal."""
        for request in batch:
            self._in_memory.discard(request.sequence)
            self._stored_during_read.add(request.sequence)
            self._memory.change(request.decoded.project_id, -request.decoded.nbytes)
            self._replayed_bytes -= self._replayed.pop(request.sequence, 0)
        if not self._is_reading:
            self._stored_during_read.clear()
        self._capacity_freed.set()

    async def _replay(self) -> None:
        while True:
            await self._wait_for_deferred()
            try:
                if self._replay_after is None:
                    await self._check_overlooked()
                else:
                    await self._wait_for_capacity()
                    await self._replay_next(self._replay_after)
            except Exception:  # noqa: BLE001 (a failing disk may recover; deferred requests stay deferred)
                self._log.exception("the journal cannot be read")
                await asyncio.sleep(RETRY_S)

    async def _wait_for_deferred(self) -> None:
        """Wait until a request is deferred, or until the next check is due."""
        if self._replay_after is None:
            self._replay_needed.clear()
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout_at(self._next_check_at):
                    await self._replay_needed.wait()

    async def _check_overlooked(self) -> None:
        """Check that the oldest unbatched request of the journal is in memory or deferred. If a bug has lost it, it
        would wait for the next process, so it is deferred, with all requests after it. This happens at most once for
        each request, because a request that is stored but could not be recorded (`BatchWriter.write`) looks the same.
        """
        self._next_check_at = asyncio.get_running_loop().time() + CHECK_INTERVAL_S
        entries = await self._read(self._checked_to, 1)
        known = self._in_memory | self._stored_during_read
        for sequence in (entry.sequence for entry in entries if entry.sequence not in known):
            if self._replay_after is None or sequence <= self._replay_after:
                self._checked_to = self._journal.last_sequence
                self._metrics.overlooked_requests.inc()
                self._log.error("bug: a request was not queued; reading it from the journal", sequence=sequence)
                self.defer(sequence)

    @property
    def _replay_capacity_bytes(self) -> int:
        """Bytes that replayed requests may still take. They leave a quarter of the memory free, but may always take a
        quarter themselves, and always one request of any size.
        """
        capacity = self._memory.capacity
        room = max(capacity - capacity // 4 - self._memory.taken, capacity // 4 - self._replayed_bytes)
        return room if self._replayed else max(room, 1)

    async def _wait_for_capacity(self) -> None:
        while self._replay_capacity_bytes <= 0:
            self._capacity_freed.clear()
            await self._capacity_freed.wait()

    async def _replay_next(self, after: int) -> None:
        deferred = self._last_deferred
        entries = await self._read(after, READ_BYTES)
        if entries:
            known = self._in_memory | self._stored_during_read
            await self._enqueue_replayed([entry for entry in entries if entry.sequence not in known])
            if self._replay_after is not None and self._replay_after >= after:  # not set back meanwhile
                self._replay_after = entries[-1].sequence
        elif self._replay_after == after and self._last_deferred == deferred:
            self._replay_after = None  # no request was deferred during the read: new requests wait in memory again
            self._last_deferred_by_project.clear()

    async def _read(self, after: int, max_bytes: int) -> list[Entry]:
        """Read requests, and track in `_stored_during_read` which of them leave memory before the read ends."""
        self._stored_during_read.clear()
        self._is_reading = True
        try:
            return await self._reader.read_after(after, max_bytes, slow=self._slow)
        finally:
            self._is_reading = False

    async def _enqueue_replayed(self, entries: Sequence[Entry]) -> None:
        while entries:
            await self._wait_for_capacity()
            good, bad, entries = await self._reader.decode(entries, min(DECODED_BYTES, self._replay_capacity_bytes))
            for entry, error in bad:
                await self._writer.quarantine(entry, error)
            for request in good:
                self._add(request, replayed=True)


FULL: Final = "The ingest queue is full; retry later."
DRAIN_S: Final = 5.0  # for the requests in memory, on shutdown: those not stored by then are in the journal


class JournaledIngest:
    """Appends requests to the journal and stores them afterwards, together with the requests of an earlier process."""

    def __init__(
        self,
        journal: JournalLike,
        reader: JournalReader,
        writer: BatchWriter,
        recovery: Recovery,
        breaker: InsertBreaker,
        accounting: ItemAccounting,
        outcomes: OutcomeCounters,
        settings: GatewaySettings,
        clock: Callable[[], int],
        log: structlog.stdlib.BoundLogger,
    ) -> None:
        self._journal = journal
        self._reader = reader
        self._writer = writer
        self._recovery = recovery
        self._breaker = breaker
        self._accounting = accounting
        self._outcomes = outcomes
        self._log = log
        self._slow_lane_rule = SlowLaneRule(settings.slow_after_days, settings.slow_after_symbols, clock)
        limits = LaneLimits.of(settings, settings.journal_linger_s)
        slow_limits = limits._replace(
            linger_s=max(settings.slow_linger_s, settings.journal_linger_s), slots=settings.slow_batches
        )
        parts, metrics = (journal, reader, writer), accounting.metrics
        self._fresh = LaneBacklog(*parts, limits, settings.pending_bytes, metrics, log, slow=False)
        self._slow = LaneBacklog(*parts, slow_limits, settings.max_slow_bytes, metrics, log, slow=True)
        self._recovery_task: asyncio.Task[None] | None = None
        self._unsubscribe: Callable[[], None] = lambda: None

    @property
    def is_idle(self) -> bool:
        """Whether all requests of the journal are stored."""
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
        """Returns when the request is on disk; raises the errors of `JournalLike.append`."""
        slow = self._slow_lane_rule.matches(accepted.decoded)
        await self._journal.append(accepted.request._replace(slow=slow), partial(self._on_persisted, accepted, slow))

    def dependencies(self) -> Sequence[Dependency]:
        """ClickHouse, as an optional dependency: while it is unavailable, accepted requests wait."""
        return [OptionalDependency(self._breaker)]

    async def start(self) -> None:
        """Open the journal, and start with the requests that an earlier process left in it. Raises StartupError."""
        recovered = await asyncio.get_running_loop().run_in_executor(None, self._journal.open)
        self._reader.last_earlier_sequence = self._journal.last_sequence
        self._reader.count_damaged()
        for lane in (self._fresh, self._slow):
            lane.start(recovered.last_unbatched)
        self._recovery_task = asyncio.get_running_loop().create_task(self._recovery.run(recovered))
        self._unsubscribe = self._breaker.subscribe(self._recovery)

    async def close(self) -> None:
        """Store the requests in memory for at most DRAIN_S; with a durable journal, only if ClickHouse is up."""
        self._unsubscribe()
        await cancel_tasks(self._recovery_task)
        if self._breaker.is_up or not self._journal.durable:
            await self._drain()
        await asyncio.gather(self._fresh.close(), self._slow.close(), self._writer.close())
        await self._journal.close()

    async def _drain(self) -> None:
        try:
            async with asyncio.timeout(DRAIN_S):
                await asyncio.gather(self._fresh.drain(), self._slow.drain())
        except TimeoutError:
            if self._journal.durable:
                self._log.warning("stopped with unstored requests in the journal; the next start stores them")
            else:
                items = self._accounting.pending
                self._log.error("items lost", items=items, reason="the gateway stopped")

    def _on_persisted(self, accepted: AcceptedRequest, slow: bool, sequence: int) -> None:
        """Count and queue a request that is on disk; called in the order of sequences, also if its client is gone."""
        decoded = accepted.decoded
        self._outcomes.answered(decoded, accepted.wire_bytes)
        self._accounting.accepted(decoded.accepted)
        (self._slow if slow else self._fresh).put(sequence, decoded, accepted.wire_bytes, accepted.request.received_ns)
