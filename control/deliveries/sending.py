"""Attempts: a claimed delivery is sent and its outcome written, whoever claimed it.

At most `slots` are under way at once, and tests beside them. An attempt that has begun is finished even when nobody
waits for it any more.
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

from chassis.errors import ServiceUnavailable
from chassis.relational import Database, DatabaseUnavailable, to_milliseconds
from chassis.sealing import SealBroken, Sealer
from control.channels import store as channels
from control.channels.store import Channel
from control.deliveries import store
from control.deliveries.claims import LEASE, Claimed, Places, claim_these
from control.deliveries.clerk import Clerk
from control.deliveries.kinds.send import Ways, send
from control.deliveries.kinds.told import Told
from control.deliveries.message import Message
from control.deliveries.outbox import BUDGET_S, QUEUED, Delivery, Queued
from control.deliveries.outcome import Outcome

SLOTS: Final = 128
TEST_SLOTS: Final = 16
ATTEMPT_S: Final = 20.0  # whatever the other end does; the outcome has the rest of the lease to be written
_DRAWS: Final = 1 << 20

log = structlog.get_logger(__name__)


class DeliveryMetrics:
    """What is counted of deliveries; kinds of channels are labels, channels are not."""

    def __init__(self, registry: CollectorRegistry | None) -> None:
        self.attempts = Counter(
            "sluice_delivery_attempts",
            "Attempts to deliver a message to a channel by how they ended: DONE, READY (again later), DEAD, CANCELLED, "
            "lost (its lease ended before its outcome was written; it is sent again).",
            ("kind", "result"),
            registry=registry,
        )
        self.faults = Counter(
            "sluice_delivery_faults",
            "Attempts that failed by a fault of this service or of its operator, which counts against no channel: no "
            "mail server, one that refuses the password, a key that is gone.",
            ("kind",),
            registry=registry,
        )
        self.overdue = Gauge(
            "sluice_deliveries_overdue_seconds",
            "For how long the delivery that waits longest could have been attempted.",
            registry=registry,
        )
        self.under_way = Gauge("sluice_deliveries_under_way", "Attempts under way in this process.", registry=registry)


class Sender:
    """Sends what was claimed. `now` and `draw` (0 to 1) are handed in by tests."""

    def __init__(
        self,
        database: Database,
        sealer: Sealer,
        ways: Ways,
        metrics: DeliveryMetrics,
        *,
        slots: int = SLOTS,
        places: Places = Places(),  # noqa: B008  # a value that does not change
        lease: timedelta = LEASE,
        now: Callable[[], datetime] = lambda: datetime.now(UTC),
        draw: Callable[[], float] = lambda: secrets.randbelow(_DRAWS) / _DRAWS,
    ) -> None:
        self.database = database
        self.lease = lease
        self.places = places
        self._sealer = sealer
        self._ways = ways
        self.metrics = metrics
        self._slots = slots
        self._now = now
        self._clerk = Clerk(database, lease, self.now, draw)
        self._under_way: set[asyncio.Task[Outcome]] = set()
        self._tests: set[asyncio.Task[Outcome]] = set()
        metrics.under_way.set_function(lambda: len(self._under_way) + len(self._tests))

    @property
    def free(self) -> int:
        """How many attempts may begin now."""
        return max(0, self._slots - len(self._under_way))

    def now(self) -> datetime:
        """The time as the store keeps it."""
        return to_milliseconds(self._now())

    async def attempt(self, queued: Sequence[Queued], budget_s: float = BUDGET_S) -> list[Delivery]:
        """Call after the commit. One answer per `queued`, in order; `error` is `queued` for what goes on later."""
        ids = [one.delivery_id for one in queued if one.delivery_id is not None][: self.free]
        begun = {claimed.id: self.begin(claimed) for claimed in await self._claimed(ids)}
        if begun:
            await asyncio.wait(begun.values(), timeout=budget_s)
        return [_delivery(one, begun.get(one.delivery_id or "")) for one in queued]

    async def insert_test(self, connection: AsyncConnection, channel: Channel, message: Message) -> Claimed:
        """A real delivery, to be made once: `test` makes it after the commit. Raises RateLimited while the organization
        has enough of them, ServiceUnavailable while the process has.
        """
        if len(self._tests) >= TEST_SLOTS:
            raise ServiceUnavailable("Too many channels are being tested.")
        return await store.insert_single(connection, channel, message, self.now())

    async def test(self, claimed: Claimed) -> Outcome:
        """What came of it."""
        return await asyncio.shield(self._begun(claimed, self._tests))

    def begin(self, claimed: Claimed) -> asyncio.Task[Outcome]:
        """Send it, in a task of its own that does not end with the caller."""
        return self._begun(claimed, self._under_way)

    def _begun(self, claimed: Claimed, among: set[asyncio.Task[Outcome]]) -> asyncio.Task[Outcome]:
        task = asyncio.create_task(self._deliver(claimed))
        among.add(task)
        task.add_done_callback(among.discard)
        return task

    async def room(self, wanted: int) -> None:
        """Wait until `wanted` attempts may begin."""
        while self.free < wanted and self._under_way:
            await asyncio.wait(self._under_way, return_when=asyncio.FIRST_COMPLETED)

    async def progress(self, timeout_s: float) -> None:
        """Wait until an attempt under way has ended, or so long."""
        if self._under_way:
            await asyncio.wait(self._under_way, timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
        else:
            await asyncio.sleep(timeout_s)

    async def finish(self, timeout_s: float) -> None:
        """Let attempts under way end; those that do not are cut off, and are made again after their lease."""
        under_way = self._under_way | self._tests
        if under_way:
            _, late = await asyncio.wait(under_way, timeout=timeout_s)
            for task in late:
                task.cancel()
            await asyncio.gather(*late, return_exceptions=True)
        await self._clerk.close()

    async def _claimed(self, ids: Sequence[str]) -> list[Claimed]:
        if not ids:
            return []
        try:
            async with self.database.write() as connection:
                return await claim_these(connection, ids, self.now(), places=self.places, lease=self.lease)
        except DatabaseUnavailable:
            return []  # they are in the store, and go on from there

    async def _deliver(self, claimed: Claimed) -> Outcome:
        outcome = await self._sent(claimed)
        result = await self._clerk.settle(claimed, outcome)
        self.metrics.attempts.labels(claimed.kind.value, result).inc()
        if outcome.ours:
            self.metrics.faults.labels(claimed.kind.value).inc()
        return outcome

    async def _sent(self, claimed: Claimed) -> Outcome:
        if claimed.config is None:
            return Outcome(False, "The channel was deleted.", permanent=True)
        try:
            config = channels.opened_config(
                self._sealer, claimed.org_id, claimed.channel_id, claimed.kind, claimed.config
            )
            told = Told(
                claimed.id, claimed.message, claimed.created_at, self._now(), claimed.taken or "", claimed.org_id
            )
            async with asyncio.timeout(ATTEMPT_S):
                return await send(claimed.kind, config, told, self._ways)
        except SealBroken as error:
            reason = str(error)
            log.error("config of a channel cannot be opened", channel_id=claimed.channel_id, reason=reason)  # noqa: TRY400  # a traceback says no more
            return Outcome(False, "The config of the channel cannot be opened.", ours=True)
        except TimeoutError:
            return Outcome(False, "The attempt took too long.")
        except Exception as error:  # noqa: BLE001  # one delivery that cannot be made stops no other
            # Without its text, which may quote an address or a header.
            place = traceback.extract_tb(error.__traceback__)[-1]
            where = f"{place.filename}:{place.lineno}"
            log.error("delivery failed", delivery_id=claimed.id, error=type(error).__name__, where=where)  # noqa: TRY400
            return Outcome(False, "The delivery could not be made.", ours=True)


def _delivery(queued: Queued, task: asyncio.Task[Outcome] | None) -> Delivery:
    error = queued.error
    if queued.delivery_id is not None:
        error = QUEUED
        if task is not None and task.done() and not task.cancelled() and task.exception() is None:
            error = _error(task.result())
    return Delivery(queued.channel_id, queued.kind, delivered=error is None, error=error)


def _error(outcome: Outcome) -> str | None:
    if outcome.ok:
        return None
    return outcome.detail if outcome.permanent else QUEUED
