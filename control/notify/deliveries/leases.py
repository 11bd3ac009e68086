"""Leases: a worker claims waiting deliveries for a limited time. Deliveries whose lease has expired wait again.

Two SQL statements select the ids of the next deliveries. Organizations take turns. Within an organization the
deliveries that have waited longest are first, as far as slots are free (`ConcurrencyLimits`). Every function runs in
the caller's transaction. Write transactions are serialized (`chassis.db.database`), so the rows that a claim has read
do not change before it writes, on both databases and with any number of processes.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from control.notify.channels.config import Kind
from control.notify.channels.tables import State, deliveries, delivery_messages, notification_channels
from control.notify.deliveries.rules import MAX_ATTEMPTS, interrupted_backoff
from control.notify.message import Message


def _due() -> sa.Subquery:
    """Select a few deliveries of a few channels per organization, however many wait. Per channel, only the deliveries
    due up to the time of its `last`th delivery are read, and all columns come from the index.
    """
    channels = _next_channels()
    other = deliveries.alias("other")
    last = (
        sa.select(other.c.next_at)
        .where(other.c.state == State.READY.value, other.c.channel_id == channels.c.id)
        .order_by(other.c.next_at)
        .limit(1)
        .offset(_int_parameter("last"))
        .correlate(channels)
        .scalar_subquery()
    )
    found = _ranked(deliveries.c.next_at <= _now(), deliveries.c.next_at <= sa.func.coalesce(last, _now()))
    return found.join_from(channels, deliveries, deliveries.c.channel_id == channels.c.id).subquery("due")


def _next_channels() -> sa.Subquery:
    """Per organization with a free slot, the channels with a free slot that have waited longest. Their number is at
    most the organization's total number of slots. A claim needs no more channels: each channel whose first delivery is
    blocked by another one (`_blocked_by_earlier`) has a delivery in flight, which takes a slot.
    """
    found = _free_channels()
    position = sa.func.row_number().over(partition_by=found.c.org_id, order_by=(found.c.first_at, found.c.id))
    ordered = sa.select(found.c.id, position.label("turn")).where(found.c.first_at <= _now()).subquery("turns")
    return sa.select(ordered.c.id).where(ordered.c.turn <= _int_parameter("organization")).subquery("channels")


def _free_channels() -> sa.Subquery:
    """Channels with a free slot in organizations with a free slot, each with the time of its first waiting delivery."""
    ready, other = _ready_channels(), deliveries.alias("first")
    first = (
        sa.select(sa.func.min(other.c.next_at))
        .where(other.c.state == State.READY.value, other.c.channel_id == ready.c.id)
        .correlate(ready)
        .scalar_subquery()
    )
    channel_counts, org_counts = _in_flight_counts(deliveries.c.channel_id), _in_flight_counts(deliveries.c.org_id)
    org_id = notification_channels.c.org_id
    statement = (
        sa.select(ready.c.id, org_id, first.label("first_at"))
        .join_from(ready, notification_channels, notification_channels.c.id == ready.c.id)
        .join(channel_counts, channel_counts.c.of == ready.c.id, isouter=True)
        .join(org_counts, org_counts.c.of == org_id, isouter=True)
        .where(sa.func.coalesce(channel_counts.c.number, 0) < _channel_limit())
        .where(sa.func.coalesce(org_counts.c.number, 0) < _int_parameter("organization"))
    )
    return statement.subquery("free")


def _ranked(*conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Waiting deliveries with their position within the channel, except blocked ones."""
    order = (deliveries.c.next_at, deliveries.c.id)
    position = sa.func.row_number().over(partition_by=deliveries.c.channel_id, order_by=order).label("place")
    statement = sa.select(deliveries.c.id, deliveries.c.channel_id, deliveries.c.next_at, position)
    return statement.where(
        deliveries.c.state == State.READY.value, *conditions, deliveries.c.id.not_in(_blocked_by_earlier())
    )


def _blocked_by_earlier() -> sa.Select[str]:
    """Deliveries without `until` while an earlier delivery with `until`, of the same subject and channel, is in flight.
    The message that ends a subject must not overtake the message that opened it.
    """
    earlier, later = deliveries.alias("earlier"), deliveries.alias("following")
    same = (later.c.org_id == earlier.c.org_id) & (later.c.subject == earlier.c.subject)
    return (
        sa.select(later.c.id)
        .join_from(earlier, later, same & (later.c.channel_id == earlier.c.channel_id))
        .where(earlier.c.state == State.SENDING.value, earlier.c.until.is_not(None))
        .where(later.c.state == State.READY.value, later.c.until.is_(None))
    )


def _within_limits(due: sa.Subquery) -> sa.Select[str]:
    """Ids of the deliveries that fit into the slots of their channel and organization."""
    channel_counts, org_counts = _in_flight_counts(deliveries.c.channel_id), _in_flight_counts(deliveries.c.org_id)
    org_id = notification_channels.c.org_id
    order = sa.func.row_number().over(partition_by=org_id, order_by=(due.c.next_at, due.c.id))
    positioned = (
        sa.select(due.c.id, due.c.next_at, (order + sa.func.coalesce(org_counts.c.number, 0)).label("place"))
        .join_from(due, notification_channels, notification_channels.c.id == due.c.channel_id)
        .join(channel_counts, channel_counts.c.of == due.c.channel_id, isouter=True)
        .join(org_counts, org_counts.c.of == org_id, isouter=True)
        .where(due.c.place <= _channel_limit() - sa.func.coalesce(channel_counts.c.number, 0))
        .subquery("placed")
    )
    within = sa.select(positioned.c.id).where(positioned.c.place <= _int_parameter("organization"))
    return within.order_by(positioned.c.place, positioned.c.next_at, positioned.c.id).limit(_int_parameter("limit"))


def _channel_limit() -> sa.Case[int]:
    """The number of slots of a channel."""
    return sa.case(
        (notification_channels.c.failing_since.is_(None), _int_parameter("channel")), else_=_int_parameter("failing")
    )


def _now() -> sa.BindParameter[datetime]:
    return sa.bindparam("now", type_=deliveries.c.next_at.type)


def _int_parameter(name: str) -> sa.BindParameter[int]:
    return sa.bindparam(name, type_=sa.Integer)


def _in_flight_counts(column: sa.Column[str]) -> sa.Subquery:
    """The number of deliveries in flight per value of the column."""
    sending = sa.select(column.label("of"), sa.func.count().label("number")).group_by(column)
    return sending.where(deliveries.c.state == State.SENDING.value).subquery(f"busy_{column.name}")


def _ready_channels() -> sa.CTE:
    """Ids of channels that have deliveries in READY, and a final NULL."""
    first = sa.select(sa.func.min(deliveries.c.channel_id).label("id")).where(deliveries.c.state == State.READY.value)
    found = first.cte("waiting", recursive=True)
    candidate = deliveries.alias("later")
    following = (
        sa.select(sa.func.min(candidate.c.channel_id))
        .where(candidate.c.state == State.READY.value, candidate.c.channel_id > found.c.id)
        .correlate(found)
        .scalar_subquery()
    )
    return found.union_all(sa.select(following).where(found.c.id.is_not(None)))


DUE: Final = _within_limits(_due())
BY_ID: Final = _within_limits(_ranked(deliveries.c.id.in_(sa.bindparam("ids", expanding=True))).subquery("due"))


LEASE: Final = timedelta(seconds=60)  # an attempt ends within 20 s; the remaining time is for writing its result
OBSOLETE: Final = "The message is obsolete: the request that it reports was resolved or has expired."
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
    """The maximum numbers of deliveries in flight at once, over all processes: per channel, per failing channel, per
    organization. They limit the slots that a receiver that does not respond can occupy.
    """

    channel: int = 8
    failing: int = 1
    organization: int = 32


@dataclass(frozen=True, slots=True)
class ClaimedDelivery:
    """A delivery claimed until its lease ends. `config` is encrypted, and None if the channel is deleted. `attempts` is
    the number of earlier attempts with a result. `claims` is the number of this claim.
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
        """Whether the delivery has only one attempt, even if it fails."""
        return self.max_attempts == 1


async def claim_due(
    connection: AsyncConnection, now: datetime, *, limit: int, concurrency: ConcurrencyLimits, lease: timedelta = LEASE
) -> list[ClaimedDelivery]:
    """Claim at most `limit` due deliveries, as far as slots are free. Organizations take turns. Within an organization
    the deliveries that have waited longest are first. Obsolete deliveries are cancelled instead.
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
    """Claim these deliveries unless they are already claimed. They need not be due. Only as many are claimed as slots
    are free.
    """
    parameters = {"ids": list(ids), "limit": len(ids)} | asdict(concurrency)
    return await _claim(connection, list(await connection.scalars(BY_ID, parameters)), now, lease)


async def has_work(connection: AsyncConnection, now: datetime, *, concurrency: ConcurrencyLimits) -> bool:
    """Whether there is an expired lease, or a delivery that can be claimed within the limits. This only reads."""
    expired = sa.select(deliveries.c.id).where(_is_lease_expired(now)).limit(1)
    return await connection.scalar(expired) is not None or bool(await _due_ids(connection, now, 1, concurrency))


async def in_flight(connection: AsyncConnection, ids: Sequence[str]) -> list[ClaimedDelivery]:
    """The ids of these deliveries that are in flight, in order."""
    sending = _SELECT_CLAIMED.where(deliveries.c.id.in_(ids), deliveries.c.state == State.SENDING.value)
    found = {row["id"]: _claimed_delivery(row) for row in (await connection.execute(sending)).mappings()}
    return [found[id_] for id_ in ids if id_ in found]


async def requeue_expired(connection: AsyncConnection, now: datetime) -> int:
    """Requeue deliveries whose lease expired without a result because their process stopped. Returns their number.

    An interrupted attempt says nothing about the receiver and is not counted. The next attempt is still delayed, so
    that a process that crashes because of a delivery does not retry it without end.
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
    """The condition that the delivery's `until` is unset or in the future."""
    return deliveries.c.until.is_(None) | (deliveries.c.until > now)


async def _due_ids(connection: AsyncConnection, now: datetime, limit: int, concurrency: ConcurrencyLimits) -> list[str]:
    parameters = {"now": now, "limit": limit, "last": concurrency.channel - 1} | asdict(concurrency)
    return list(await connection.scalars(DUE, parameters))


def _is_lease_expired(now: datetime) -> sa.ColumnElement[bool]:
    """The condition that the lease has expired without a result."""
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
    """The time at which to retry an interrupted attempt, by the number of attempts before it."""
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
