"""Writes outcomes of attempts in batches: those that arrive during one transaction share the next.

If the database is unavailable, an outcome is retried for half of its lease. After that it is lost: when the lease has
expired, the delivery is sent again, under the same id.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import Database, DatabaseUnavailable
from control.audit.record import Actor, record
from control.notify.channels import repository as channels
from control.notify.channels.tables import DisabledReason
from control.notify.deliveries import repository
from control.notify.deliveries.leases import ClaimedDelivery
from control.notify.deliveries.outcome import AttemptOutcome

LEASE_LOST: Final = "lost"
RETRY_S: Final = 0.5  # between two attempts to write
MAX_BATCH: Final = 64  # outcomes per transaction

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _PendingOutcome:
    claimed: ClaimedDelivery
    outcome: AttemptOutcome
    deadline: float  # of the loop's clock
    state: asyncio.Future[str]


class OutcomeWriter:
    """`now` returns the time in the database's precision, `random` a number from 0 to 1."""

    def __init__(
        self, database: Database, lease: timedelta, now: Callable[[], datetime], random: Callable[[], float]
    ) -> None:
        self._database = database
        self._write_timeout_s = lease.total_seconds() / 2
        self._now = now
        self._random = random
        self._pending: list[_PendingOutcome] = []
        self._write_task: asyncio.Task[None] | None = None

    async def record(self, claimed: ClaimedDelivery, outcome: AttemptOutcome) -> str:
        """Write the outcome. Returns the delivery's new state, or LEASE_LOST."""
        loop = asyncio.get_running_loop()
        entry = _PendingOutcome(claimed, outcome, loop.time() + self._write_timeout_s, loop.create_future())
        self._pending.append(entry)
        if self._write_task is None:
            self._write_task = asyncio.create_task(self._write_all())
        return await entry.state

    async def close(self) -> None:
        """Stop; outcomes that are not written yet are lost."""
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

    async def _write(self, batch: list[_PendingOutcome]) -> None:
        try:
            async with self._database.write() as connection:
                states = [await self._write_one(connection, entry) for entry in batch]
        except DatabaseUnavailable:
            self._requeue(batch)
            await asyncio.sleep(RETRY_S)
        except Exception:
            if len(batch) > 1:  # one outcome failed: write the others separately
                for entry in batch:
                    await self._write([entry])
                return
            log.exception("writing the outcome of a delivery failed", delivery_id=batch[0].claimed.id)
            _set_results(batch, [LEASE_LOST])
        else:
            _set_results(batch, states)

    def _requeue(self, batch: list[_PendingOutcome]) -> None:
        """Requeue outcomes with time left; the others are lost."""
        now = asyncio.get_running_loop().time()
        late = [entry for entry in batch if entry.deadline <= now]
        if late:
            log.warning("delivery outcomes lost, database unavailable", deliveries=len(late))
        _set_results(late, [LEASE_LOST] * len(late))
        self._pending[:0] = [entry for entry in batch if entry.deadline > now]

    async def _write_one(self, connection: AsyncConnection, entry: _PendingOutcome) -> str:
        claimed, outcome = entry.claimed, entry.outcome
        result = await repository.write_outcome(connection, claimed, outcome, self._now(), self._random())
        if result is None:
            return LEASE_LOST
        reason = _disabled_reason(claimed, outcome, failing=result.channel_failing)
        if reason is not None and await channels.disable(connection, claimed.channel_id, reason):
            data = {"reason": reason.value, "deliveryId": claimed.id}
            await record(connection, Actor(claimed.org_id), "channel.disabled", claimed.channel_id, data, claimed.id)
            log.warning("channel disabled", channel_id=claimed.channel_id, reason=reason.value)
        return result.state.value


def _set_results(batch: list[_PendingOutcome], states: list[str]) -> None:
    for entry, state in zip(batch, states, strict=True):
        if not entry.state.done():  # the waiting task may have been cancelled
            entry.state.set_result(state)


def _disabled_reason(claimed: ClaimedDelivery, outcome: AttemptOutcome, *, failing: bool) -> DisabledReason | None:
    """Why to disable the channel, None otherwise. A test never does: its caller sees the outcome."""
    if claimed.is_test:
        return None
    if outcome.endpoint_gone:
        return DisabledReason.GONE
    return DisabledReason.FAILING if failing else None
