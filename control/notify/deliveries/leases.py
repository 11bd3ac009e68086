"""Leases: a worker claims waiting deliveries for a limited time; expired leases return to the queue.

Every function runs in the caller's transaction. Write transactions are serialized (`chassis.db.database`), so what a
claim has read still holds when it writes, on both databases and with any number of processes.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from control.notify.channels.config import Kind
from control.notify.channels.delivery_tables import State, deliveries, delivery_messages
from control.notify.channels.tables import notification_channels
from control.notify.deliveries.outcome import MAX_ATTEMPTS, interrupted_backoff
from control.notify.deliveries.schedule_sql import BY_ID, DUE
from control.notify.message import Message

LEASE: Final = timedelta(seconds=60)  # an attempt ends within 20 s; the rest remains to write its outcome
OBSOLETE: Final = "The message is obsolete: its subject was resolved or has expired."
INTERRUPTED: Final = "The attempt was interrupted."

_SELECT_CLAIMED: Final = (
    sa.select(
        deliveries.c.id,
        deliveries.c.org_id,
        deliveries.c.channel_id,
        delivery_messages.c.message,
        deliveries.c.attempts,
        deliveries.c.max_attempts,
        deliveries.c.claims,
        deliveries.c.taken,
        deliveries.c.created_at,
        notification_channels.c.kind,
        notification_channels.c.config,
    )
    .join_from(deliveries, notification_channels, notification_channels.c.id == deliveries.c.channel_id)
    .join(delivery_messages, delivery_messages.c.id == deliveries.c.message_id)
)


@dataclass(frozen=True, slots=True)
class ConcurrencyLimits:
    """The most deliveries in flight at once, over all processes: per channel, per failing channel, per organization.
    They limit what a hanging receiver can occupy.
    """

    channel: int = 8
    failing: int = 1
    organization: int = 32


@dataclass(frozen=True, slots=True)
class ClaimedDelivery:
    """A delivery claimed until its lease ends. `config` is encrypted; None: the channel is deleted. `attempts` counts
    earlier attempts with an outcome; `claims` is the number of this claim.
    """

    id: str
    org_id: str
    channel_id: str
    kind: Kind
    config: bytes | None
    message: Message
    attempts: int
    max_attempts: int
    claims: int
    taken: str | None
    created_at: datetime

    @property
    def is_test(self) -> bool:
        """Whether it has only one attempt, whatever its outcome."""
        return self.max_attempts == 1


async def claim_due(
    connection: AsyncConnection, now: datetime, *, limit: int, concurrency: ConcurrencyLimits, lease: timedelta = LEASE
) -> list[ClaimedDelivery]:
    """Claim at most `limit` due deliveries, as far as slots are free. Organizations take turns; within one the longest
    waiting are first. Obsolete ones are cancelled instead.
    """
    return await _claim(connection, await _due_ids(connection, now, limit, concurrency), now, lease)


async def claim_by_id(
    connection: AsyncConnection,
    ids: Sequence[str],
    now: datetime,
    *,
    concurrency: ConcurrencyLimits,
    lease: timedelta = LEASE,
) -> list[ClaimedDelivery]:
    """Claim those of the deliveries that nobody has claimed, due or not, as far as slots are free."""
    parameters = {"ids": list(ids), "limit": len(ids)} | asdict(concurrency)
    return await _claim(connection, list(await connection.scalars(BY_ID, parameters)), now, lease)


async def has_work(connection: AsyncConnection, now: datetime, *, concurrency: ConcurrencyLimits) -> bool:
    """Whether there is an expired lease to requeue, or a delivery to claim within the limits. Reads only."""
    expired = sa.select(deliveries.c.id).where(_is_lease_expired(now)).limit(1)
    return await connection.scalar(expired) is not None or bool(await _due_ids(connection, now, 1, concurrency))


async def in_flight(connection: AsyncConnection, ids: Sequence[str]) -> list[ClaimedDelivery]:
    """Those of the deliveries that are in flight, in order."""
    sending = _SELECT_CLAIMED.where(deliveries.c.id.in_(ids), deliveries.c.state == State.SENDING.value)
    found = {row["id"]: _claimed_delivery(row) for row in (await connection.execute(sending)).mappings()}
    return [found[id_] for id_ in ids if id_ in found]


async def requeue_expired(connection: AsyncConnection, now: datetime) -> int:
    """Requeue deliveries whose lease expired without an outcome, because their process stopped. Returns their number.

    An interrupted attempt says nothing about the receiver and is not counted. The next one is still delayed, so that a
    process that crashes on it does not retry without end.
    """
    table = deliveries
    expired = _is_lease_expired(now)
    common = {"lease_until": None, "detail": INTERRUPTED, "failed": True, "permanent": False, "retry_after_s": None}
    live = sa.select(notification_channels.c.id).where(notification_channels.c.enabled)
    retryable = (table.c.max_attempts > 1, table.c.channel_id.in_(live), not_obsolete(now))
    ready = {"state": State.READY.value, "next_at": _retry_at(now)}
    requeued = await connection.execute(table.update().where(expired, *retryable).values(ready | common))
    ended = sa.case((table.c.max_attempts == 1, State.DEAD.value), else_=State.CANCELLED.value)
    others = await connection.execute(table.update().where(expired).values({"state": ended, "ended_at": now} | common))
    return requeued.rowcount + others.rowcount


def not_obsolete(now: datetime) -> sa.ColumnElement[bool]:
    """Condition: the delivery's `until` is unset or in the future."""
    return deliveries.c.until.is_(None) | (deliveries.c.until > now)


async def _due_ids(connection: AsyncConnection, now: datetime, limit: int, concurrency: ConcurrencyLimits) -> list[str]:
    parameters = {"now": now, "limit": limit, "last": concurrency.channel - 1} | asdict(concurrency)
    return list(await connection.scalars(DUE, parameters))


def _is_lease_expired(now: datetime) -> sa.ColumnElement[bool]:
    """Condition: the lease has expired without an outcome."""
    return (deliveries.c.state == State.SENDING.value) & (deliveries.c.lease_until < now)


async def _claim(
    connection: AsyncConnection, ids: Sequence[str], now: datetime, lease: timedelta
) -> list[ClaimedDelivery]:
    if not ids:
        return []
    selected = deliveries.update().where(deliveries.c.id.in_(ids))
    cancelled = {"state": State.CANCELLED.value, "next_at": None, "ended_at": now, "detail": OBSOLETE}
    await connection.execute(selected.where(~not_obsolete(now)).values(cancelled))
    values = {
        "state": State.SENDING.value,
        "next_at": None,
        "lease_until": now + lease,
        "attempted_at": now,
        "claims": deliveries.c.claims + 1,
    }
    await connection.execute(selected.where(deliveries.c.state == State.READY.value).values(values))
    return await in_flight(connection, ids)


def _retry_at(now: datetime) -> sa.Case[datetime]:
    """When to retry an interrupted attempt, by the number of attempts before it."""
    times = [
        sa.literal(now + interrupted_backoff(attempts), deliveries.c.next_at.type) for attempts in range(MAX_ATTEMPTS)
    ]
    rules = [(deliveries.c.attempts == attempts, time) for attempts, time in enumerate(times)]
    return sa.case(*rules, else_=times[-1])


def _claimed_delivery(row: sa.RowMapping) -> ClaimedDelivery:
    return ClaimedDelivery(
        **{
            **row,
            "kind": Kind(row["kind"]),
            "config": None if row["config"] is None else bytes(row["config"]),
            "message": msgspec.json.decode(row["message"], type=Message),
        }
    )
