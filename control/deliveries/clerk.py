"""Outcomes of attempts are written here: those that come while one transaction is under way share the next.

One that cannot be written, for the store is away, is tried again for half of its lease; then its delivery is sent
again, under the same id, when the lease has ended.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

import structlog
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.relational import Database, DatabaseUnavailable
from control.audit.record import Actor, record
from control.channels import store as channels
from control.channels.tables import OffReason
from control.deliveries import store
from control.deliveries.claims import Claimed
from control.deliveries.outcome import Outcome

LOST: Final = "lost"
AGAIN_S: Final = 0.5  # between two attempts to write
TOGETHER: Final = 64  # outcomes of a transaction

log = structlog.get_logger(__name__)


@dataclass(frozen=True, slots=True)
class _Entry:
    claimed: Claimed
    outcome: Outcome
    deadline: float  # of the loop's clock
    state: asyncio.Future[str]


class Clerk:
    """`now` is the time as the store keeps it, `draw` a number from 0 to 1."""

    def __init__(
        self, database: Database, lease: timedelta, now: Callable[[], datetime], draw: Callable[[], float]
    ) -> None:
        self._database = database
        self._patience_s = lease.total_seconds() / 2
        self._now = now
        self._draw = draw
        self._waiting: list[_Entry] = []
        self._writing: asyncio.Task[None] | None = None

    async def settle(self, claimed: Claimed, outcome: Outcome) -> str:
        """What the delivery's state is now, or `lost`."""
        loop = asyncio.get_running_loop()
        entry = _Entry(claimed, outcome, loop.time() + self._patience_s, loop.create_future())
        self._waiting.append(entry)
        if self._writing is None:
            self._writing = asyncio.create_task(self._write_all())
        return await entry.state

    async def close(self) -> None:
        """Give up what is not written yet."""
        if self._writing is not None:
            self._writing.cancel()
            await asyncio.gather(self._writing, return_exceptions=True)

    async def _write_all(self) -> None:
        try:
            while self._waiting:
                batch = self._waiting[:TOGETHER]
                del self._waiting[:TOGETHER]
                await self._write(batch)
        finally:
            self._writing = None

    async def _write(self, batch: list[_Entry]) -> None:
        try:
            async with self._database.write() as connection:
                states = [await self._settled(connection, entry) for entry in batch]
        except DatabaseUnavailable:
            self._put_back(batch)
            await asyncio.sleep(AGAIN_S)
        except Exception:
            if len(batch) > 1:  # one of them: the others are not to pay for it
                for entry in batch:
                    await self._write([entry])
                return
            log.exception("outcome of a delivery was not written", delivery_id=batch[0].claimed.id)
            _tell(batch, [LOST])
        else:
            _tell(batch, states)

    def _put_back(self, batch: list[_Entry]) -> None:
        """Those that have time left; the others are lost."""
        now = asyncio.get_running_loop().time()
        late = [entry for entry in batch if entry.deadline <= now]
        if late:
            log.warning("outcomes of deliveries were not written", deliveries=len(late))
        _tell(late, [LOST] * len(late))
        self._waiting[:0] = [entry for entry in batch if entry.deadline > now]

    async def _settled(self, connection: AsyncConnection, entry: _Entry) -> str:
        claimed, outcome = entry.claimed, entry.outcome
        settled = await store.settle(connection, claimed, outcome, self._now(), self._draw())
        if settled is None:
            return LOST
        reason = _off_reason(claimed, outcome, failing=settled.channel_failing)
        if reason is not None and await channels.switch_off(connection, claimed.channel_id, reason):
            told = {"reason": reason.value, "deliveryId": claimed.id}
            await record(connection, Actor(claimed.org_id), "channel.disabled", claimed.channel_id, told, claimed.id)
            log.warning("channel disabled", channel_id=claimed.channel_id, reason=reason.value)
        return settled.state.value


def _tell(batch: list[_Entry], states: list[str]) -> None:
    for entry, state in zip(batch, states, strict=True):
        if not entry.state.done():  # whoever waited may be gone
            entry.state.set_result(state)


def _off_reason(claimed: Claimed, outcome: Outcome, *, failing: bool) -> OffReason | None:
    """A test changes nothing: who makes one is there to see."""
    if claimed.is_test:
        return None
    if outcome.gone:
        return OffReason.GONE
    return OffReason.FAILING if failing else None
