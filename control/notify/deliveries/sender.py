"""Makes attempts: sends claimed deliveries for the worker, for immediate sending and for tests, and writes the results
in batches.

At most `slots` attempts run at once, plus tests. A started attempt is finished even if its caller stops waiting.
Results that arrive during one transaction share the next. If the database is unavailable, writing a result is retried
for half of its lease. After that the result is lost. When the lease has expired, the delivery is sent again, under the
same id.
"""

import asyncio
import secrets
import traceback
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import Database, DatabaseUnavailable, to_milliseconds
from chassis.errors import ServiceUnavailable
from control.audit.record import Actor, record
from control.notify.channels import store as channels
from control.notify.channels.tables import DisabledReason
from control.notify.deliveries import store
from control.notify.deliveries.leases import LEASE, ClaimedDelivery, ConcurrencyLimits, claim_by_id
from control.notify.deliveries.outbox import BUDGET_S, QUEUED, DeliveryResult, EnqueueResult
from control.notify.deliveries.platforms.transports import Transports, send
from control.notify.deliveries.rules import AttemptResult, OutgoingMessage
from control.notify.message import Message
from control.secrets.secret_box import DecryptionError, SecretBox

LEASE_LOST: Final = "lost"
RETRY_S: Final = 0.5  # between two attempts to write
MAX_BATCH: Final = 64  # results per transaction

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _PendingResult:
    claimed: ClaimedDelivery
    result: AttemptResult
    deadline: float  # by the clock of the event loop
    state: asyncio.Future[str]


class ResultWriter:
    """Writes the results of attempts in batches. `now` returns the time in the database's precision, `random` a number
    from 0 to 1.
    """

    def __init__(
        self, database: Database, lease: timedelta, now: Callable[[], datetime], random: Callable[[], float]
    ) -> None:
        self._database = database
        self._write_timeout_s = lease.total_seconds() / 2
        self._now = now
        self._random = random
        self._pending: list[_PendingResult] = []
        self._write_task: asyncio.Task[None] | None = None

    async def record(self, claimed: ClaimedDelivery, result: AttemptResult) -> str:
        """Write the result. Returns the delivery's new state, or LEASE_LOST."""
        loop = asyncio.get_running_loop()
        entry = _PendingResult(claimed, result, loop.time() + self._write_timeout_s, loop.create_future())
        self._pending.append(entry)
        if self._write_task is None:
            self._write_task = asyncio.create_task(self._write_all())
        return await entry.state

    async def close(self) -> None:
        """Stop; results that are not written yet are lost."""
        if self._write_task is not None:
            self._write_task.cancel()
            await asyncio.gather(self._write_task, return_exceptions=True)

    async def _write_all(self) -> None:
        try:
            while self._pending:
                batch = self._pending[:MAX_BATCH]
                del self._pending[:MAX_BATCH]
                await self._write(batch)
        finally:
            self._write_task = None

    async def _write(self, batch: list[_PendingResult]) -> None:
        try:
            async with self._database.write() as connection:
                states = [await self._write_one(connection, entry) for entry in batch]
        except DatabaseUnavailable:
            self._requeue(batch)
            await asyncio.sleep(RETRY_S)
        except Exception:
            if len(batch) > 1:  # one of the results failed: write each one separately
                for entry in batch:
                    await self._write([entry])
                return
            log.exception("writing the outcome of a delivery failed", delivery_id=batch[0].claimed.id)
            _set_results(batch, [LEASE_LOST])
        else:
            _set_results(batch, states)

    def _requeue(self, batch: list[_PendingResult]) -> None:
        """Requeue results with time left. The others are lost."""
        now = asyncio.get_running_loop().time()
        late = [entry for entry in batch if entry.deadline <= now]
        if late:
            log.warning("delivery outcomes lost, database unavailable", deliveries=len(late))
        _set_results(late, [LEASE_LOST] * len(late))
        self._pending[:0] = [entry for entry in batch if entry.deadline > now]

    async def _write_one(self, connection: AsyncConnection, entry: _PendingResult) -> str:
        claimed, result = entry.claimed, entry.result
        written = await store.write_result(connection, claimed, result, self._now(), self._random())
        if written is None:
            return LEASE_LOST
        reason = _disabled_reason(claimed, result, failing=written.channel_failing)
        if reason is not None and await channels.disable(connection, claimed.channel_id, reason):
            data = {"reason": reason.value, "deliveryId": claimed.id}
            await record(connection, Actor(claimed.org_id), "channel.disabled", claimed.channel_id, data, claimed.id)
            log.warning("channel disabled", channel_id=claimed.channel_id, reason=reason.value)
        return written.state.value


def _set_results(batch: list[_PendingResult], states: list[str]) -> None:
    for entry, state in zip(batch, states, strict=True):
        if not entry.state.done():  # the waiting task may have been cancelled
            entry.state.set_result(state)


def _disabled_reason(claimed: ClaimedDelivery, result: AttemptResult, *, failing: bool) -> DisabledReason | None:
    """Why to disable the channel, None otherwise. A failed test never disables it, because its caller sees the
    result.
    """
    if claimed.is_test:
        return None
    if result.endpoint_gone:
        return DisabledReason.GONE
    return DisabledReason.FAILING if failing else None


SLOTS: Final = 128
TEST_SLOTS: Final = 16
ATTEMPT_TIMEOUT_S: Final = 20.0  # per attempt; the rest of the lease is for writing the result
_RANDOM_STEPS: Final = 1 << 20


class DeliveryMetrics:
    """Metrics of deliveries. They have labels for kinds of channels, but not for channels."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self.attempts = Counter(
            "sluice_delivery_attempts",
            "Delivery attempts by result: DONE, READY (retried later), DEAD, CANCELLED, or lost (the lease expired "
            "before the result was written, so the delivery is sent again).",
            ("kind", "result"),
            registry=registry,
        )
        self.faults = Counter(
            "sluice_delivery_faults",
            "Delivery attempts that failed because of this service or its configuration, not because of the channel: "
            "no SMTP server, a rejected SMTP password, a missing encryption key.",
            ("kind",),
            registry=registry,
        )
        self.overdue = Gauge(
            "sluice_deliveries_overdue_seconds",
            "Time since the oldest due delivery became due.",
            registry=registry,
        )
        self.in_flight = Gauge(
            "sluice_deliveries_under_way", "Delivery attempts in flight in this process.", registry=registry
        )


class Sender:
    """Sends claimed deliveries. Tests pass their own `now` and `random` (0 to 1)."""

    def __init__(
        self,
        database: Database,
        secret_box: SecretBox,
        transports: Transports,
        metrics: DeliveryMetrics,
        *,
        slots: int = SLOTS,
        concurrency: ConcurrencyLimits = ConcurrencyLimits(),  # noqa: B008  # immutable
        lease: timedelta = LEASE,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        random: Callable[[], float] = lambda: secrets.randbelow(_RANDOM_STEPS) / _RANDOM_STEPS,
    ) -> None:
        self.database = database
        self.lease = lease
        self.concurrency = concurrency
        self._secret_box = secret_box
        self._transports = transports
        self.metrics = metrics
        self._slots = slots
        self._now = now
        self._result_writer = ResultWriter(database, lease, self.now, random)
        self._in_flight: set[asyncio.Task[AttemptResult]] = set()
        self._tests: set[asyncio.Task[AttemptResult]] = set()
        metrics.in_flight.set_function(lambda: len(self._in_flight) + len(self._tests))

    @property
    def free_slots(self) -> int:
        """How many attempts may start now."""
        return max(0, self._slots - len(self._in_flight))

    def now(self) -> datetime:
        """The time in the database's precision."""
        return to_milliseconds(self._now())

    async def send_now(self, queued: Sequence[EnqueueResult], budget_s: float = BUDGET_S) -> list[DeliveryResult]:
        """Send queued deliveries; call it after the commit. Returns one result per `queued`, in order. `error` is
        `queued` for deliveries that the worker sends later.
        """
        ids = [one.delivery_id for one in queued if one.delivery_id is not None][: self.free_slots]
        tasks = {claimed.id: self.start(claimed) for claimed in await self._claim(ids)}
        if tasks:
            await asyncio.wait(tasks.values(), timeout=budget_s)
        return [_delivery_result(one, tasks.get(one.delivery_id or "")) for one in queued]

    async def insert_test(
        self, connection: AsyncConnection, channel: channels.Channel, message: Message
    ) -> ClaimedDelivery:
        """Insert a delivery with a single attempt. Call `test` after the commit to make the attempt. Raises RateLimited
        if the organization runs too many tests, ServiceUnavailable if the process does.
        """
        if len(self._tests) >= TEST_SLOTS:
            raise ServiceUnavailable("Too many channel tests are running. Retry later.")
        return await store.insert_single(connection, channel, message, self.now())

    async def test(self, claimed: ClaimedDelivery) -> AttemptResult:
        """Make the attempt of a test and return its result."""
        return await asyncio.shield(self._start(claimed, self._tests))

    def start(self, claimed: ClaimedDelivery) -> asyncio.Task[AttemptResult]:
        """Send the delivery in a separate task, which continues if the caller is cancelled."""
        return self._start(claimed, self._in_flight)

    def _start(
        self, claimed: ClaimedDelivery, running: set[asyncio.Task[AttemptResult]]
    ) -> asyncio.Task[AttemptResult]:
        task = asyncio.create_task(self._deliver(claimed))
        running.add(task)
        task.add_done_callback(running.discard)
        return task

    async def wait_for_slots(self, count: int) -> None:
        """Wait until `count` attempts may start."""
        while self.free_slots < count and self._in_flight:
            await asyncio.wait(self._in_flight, return_when=asyncio.FIRST_COMPLETED)

    async def wait_for_progress(self, timeout_s: float) -> None:
        """Wait until an attempt ends, at most `timeout_s`."""
        if self._in_flight:
            await asyncio.wait(self._in_flight, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(timeout_s)

    async def finish(self, timeout_s: float) -> None:
        """Wait for running attempts. After `timeout_s` they are cancelled, and repeated when their lease has
        expired.
        """
        running = self._in_flight | self._tests
        if running:
            _, unfinished = await asyncio.wait(running, timeout=timeout_s)
            for task in unfinished:
                task.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)
        await self._result_writer.close()

    async def _claim(self, ids: Sequence[str]) -> list[ClaimedDelivery]:
        if not ids:
            return []
        try:
            async with self.database.write() as connection:
                return await claim_by_id(connection, ids, self.now(), concurrency=self.concurrency, lease=self.lease)
        except DatabaseUnavailable:
            return []  # they are stored; the worker sends them

    async def _deliver(self, claimed: ClaimedDelivery) -> AttemptResult:
        result = await self._attempt(claimed)
        state = await self._result_writer.record(claimed, result)
        self.metrics.attempts.labels(claimed.kind.value, state).inc()
        if result.service_fault:
            self.metrics.faults.labels(claimed.kind.value).inc()
        return result

    async def _attempt(self, claimed: ClaimedDelivery) -> AttemptResult:
        if claimed.config is None:
            return AttemptResult(False, "The channel was deleted.", permanent=True)
        try:
            config = channels.decrypt_config(
                self._secret_box, claimed.org_id, claimed.channel_id, claimed.kind, claimed.config
            )
            outgoing = OutgoingMessage(
                claimed.id, claimed.message, claimed.created_at, self._now(), claimed.taken or "", claimed.org_id
            )
            async with asyncio.timeout(ATTEMPT_TIMEOUT_S):
                return await send(claimed.kind, config, outgoing, self._transports)
        except DecryptionError as error:
            reason = str(error)
            log.error("channel config cannot be decrypted", channel_id=claimed.channel_id, reason=reason)  # noqa: TRY400  # a traceback adds nothing
            return AttemptResult(False, "The config of the channel cannot be decrypted.", service_fault=True)
        except TimeoutError:
            return AttemptResult(False, "The attempt timed out.")
        except Exception as error:  # noqa: BLE001  # one failing delivery must not stop others
            # Without the exception's text, which may quote an address or a header.
            frame = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{frame.filename}:{frame.lineno}"
            log.error("delivery failed", delivery_id=claimed.id, error=type(error).__name__, where=where)  # noqa: TRY400
            return AttemptResult(False, "The delivery failed with an internal error.", service_fault=True)


def _delivery_result(queued: EnqueueResult, task: asyncio.Task[AttemptResult] | None) -> DeliveryResult:
    error = queued.error
    if queued.delivery_id is not None:
        error = QUEUED
        if task is not None and task.done() and not task.cancelled() and task.exception() is None:
            error = _error(task.result())
    return DeliveryResult(queued.channel_id, queued.kind, delivered=error is None, error=error)


def _error(result: AttemptResult) -> str | None:
    if result.ok:
        return None
    return result.detail if result.permanent else QUEUED
