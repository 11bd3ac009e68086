"""Attempts: sends claimed deliveries and writes their outcomes, for the worker, immediate sending and tests.

At most `slots` attempts run at once, plus tests. A started attempt is finished even if its caller stops waiting.
"""

import asyncio
import secrets
import traceback
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from typing import Final

import structlog
from prometheus_client import CollectorRegistry, Counter, Gauge
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import Database, DatabaseUnavailable, to_milliseconds
from chassis.errors import ServiceUnavailable
from control.notify.channels import repository as channels
from control.notify.channels.repository import Channel
from control.notify.deliveries import repository
from control.notify.deliveries.leases import LEASE, ClaimedDelivery, ConcurrencyLimits, claim_by_id
from control.notify.deliveries.outbox import BUDGET_S, QUEUED, DeliveryResult, EnqueueResult
from control.notify.deliveries.outcome import AttemptOutcome
from control.notify.deliveries.outcome_writer import OutcomeWriter
from control.notify.deliveries.platforms.outgoing_message import OutgoingMessage
from control.notify.deliveries.platforms.transports import Transports, send
from control.notify.message import Message
from control.secrets.secret_box import DecryptionError, SecretBox

SLOTS: Final = 128
TEST_SLOTS: Final = 16
ATTEMPT_TIMEOUT_S: Final = 20.0  # of an attempt; the rest of the lease remains to write the outcome
_RANDOM_STEPS: Final = 1 << 20

log = structlog.get_logger(__name__)


class DeliveryMetrics:
    """Metrics of deliveries. Kinds of channels are labels, channels are not."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self.attempts = Counter(
            "sluice_delivery_attempts",
            "Delivery attempts by result: DONE, READY (retried later), DEAD, CANCELLED, lost (the lease expired before "
            "the outcome was written; the delivery is sent again).",
            ("kind", "result"),
            registry=registry,
        )
        self.faults = Counter(
            "sluice_delivery_faults",
            "Delivery attempts that failed because of this service or its configuration, not the channel: no SMTP "
            "server, a rejected SMTP password, a missing encryption key.",
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
        self._outcome_writer = OutcomeWriter(database, lease, self.now, random)
        self._in_flight: set[asyncio.Task[AttemptOutcome]] = set()
        self._tests: set[asyncio.Task[AttemptOutcome]] = set()
        metrics.in_flight.set_function(lambda: len(self._in_flight) + len(self._tests))

    @property
    def free_slots(self) -> int:
        """How many attempts may start now."""
        return max(0, self._slots - len(self._in_flight))

    def now(self) -> datetime:
        """The time in the database's precision."""
        return to_milliseconds(self._now())

    async def send_now(self, queued: Sequence[EnqueueResult], budget_s: float = BUDGET_S) -> list[DeliveryResult]:
        """Call after the commit. One result per `queued`, in order; `error` is `queued` for what the worker sends
        later.
        """
        ids = [one.delivery_id for one in queued if one.delivery_id is not None][: self.free_slots]
        tasks = {claimed.id: self.start(claimed) for claimed in await self._claim(ids)}
        if tasks:
            await asyncio.wait(tasks.values(), timeout=budget_s)
        return [_delivery_result(one, tasks.get(one.delivery_id or "")) for one in queued]

    async def insert_test(self, connection: AsyncConnection, channel: Channel, message: Message) -> ClaimedDelivery:
        """Insert a delivery with a single attempt; `test` makes it after the commit. Raises RateLimited when the
        organization has too many tests, ServiceUnavailable when the process has.
        """
        if len(self._tests) >= TEST_SLOTS:
            raise ServiceUnavailable("Too many channel tests are running. Retry later.")
        return await repository.insert_single(connection, channel, message, self.now())

    async def test(self, claimed: ClaimedDelivery) -> AttemptOutcome:
        """Make the attempt; returns its outcome."""
        return await asyncio.shield(self._start(claimed, self._tests))

    def start(self, claimed: ClaimedDelivery) -> asyncio.Task[AttemptOutcome]:
        """Send the delivery in a task of its own, which outlives the caller."""
        return self._start(claimed, self._in_flight)

    def _start(
        self, claimed: ClaimedDelivery, running: set[asyncio.Task[AttemptOutcome]]
    ) -> asyncio.Task[AttemptOutcome]:
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
        """Let running attempts end. After `timeout_s` they are cancelled, and repeated after their lease."""
        running = self._in_flight | self._tests
        if running:
            _, unfinished = await asyncio.wait(running, timeout=timeout_s)
            for task in unfinished:
                task.cancel()
            await asyncio.gather(*unfinished, return_exceptions=True)
        await self._outcome_writer.close()

    async def _claim(self, ids: Sequence[str]) -> list[ClaimedDelivery]:
        if not ids:
            return []
        try:
            async with self.database.write() as connection:
                return await claim_by_id(connection, ids, self.now(), concurrency=self.concurrency, lease=self.lease)
        except DatabaseUnavailable:
            return []  # they are stored; the worker sends them

    async def _deliver(self, claimed: ClaimedDelivery) -> AttemptOutcome:
        outcome = await self._attempt(claimed)
        result = await self._outcome_writer.record(claimed, outcome)
        self.metrics.attempts.labels(claimed.kind.value, result).inc()
        if outcome.service_fault:
            self.metrics.faults.labels(claimed.kind.value).inc()
        return outcome

    async def _attempt(self, claimed: ClaimedDelivery) -> AttemptOutcome:
        if claimed.config is None:
            return AttemptOutcome(False, "The channel was deleted.", permanent=True)
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
            return AttemptOutcome(False, "The config of the channel cannot be decrypted.", service_fault=True)
        except TimeoutError:
            return AttemptOutcome(False, "The attempt timed out.")
        except Exception as error:  # noqa: BLE001  # one failing delivery must not stop others
            # Without the exception's text, which may quote an address or a header.
            frame = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{frame.filename}:{frame.lineno}"
            log.error("delivery failed", delivery_id=claimed.id, error=type(error).__name__, where=where)  # noqa: TRY400
            return AttemptOutcome(False, "The delivery failed with an internal error.", service_fault=True)


def _delivery_result(queued: EnqueueResult, task: asyncio.Task[AttemptOutcome] | None) -> DeliveryResult:
    error = queued.error
    if queued.delivery_id is not None:
        error = QUEUED
        if task is not None and task.done() and not task.cancelled() and task.exception() is None:
            error = _error(task.result())
    return DeliveryResult(queued.channel_id, queued.kind, delivered=error is None, error=error)


def _error(outcome: AttemptOutcome) -> str | None:
    if outcome.ok:
        return None
    return outcome.detail if outcome.permanent else QUEUED
