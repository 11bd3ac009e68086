"""Deliveries in the store: how rows are claimed under a lease, and what an outcome makes of them.

Every function works in the caller's transaction. Writers take turns (`chassis.relational`), so what a claim has read is
still so when it writes, on both databases and with any number of processes.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.identity.minting import new_id
from control.channels.config import Kind
from control.channels.store import Channel
from control.channels.tables import notification_channels
from control.deliveries.message import Message
from control.deliveries.outcome import MAX_ATTEMPTS, Outcome, is_failing_too_long, pause
from control.deliveries.tables import ENDED, State, deliveries

LEASE: Final = timedelta(seconds=60)  # an attempt ends within 20 s; its outcome has the rest to be written
EXPIRED_AT_ONCE: Final = 1_000
HEAD_START: Final = timedelta(seconds=2)  # of who has inserted deliveries over those who look for some

_TAKEN: Final = sa.select(
    deliveries.c.id,
    deliveries.c.org_id,
    deliveries.c.channel_id,
    deliveries.c.message,
    deliveries.c.attempts,
    deliveries.c.max_attempts,
    deliveries.c.created_at,
    notification_channels.c.kind,
    notification_channels.c.config,
).join_from(deliveries, notification_channels, notification_channels.c.id == deliveries.c.channel_id)


@dataclass(frozen=True, slots=True)
class Claimed:
    """A delivery that is ours until its lease ends. `config` is sealed; None: the channel is deleted."""

    id: str
    org_id: str
    channel_id: str
    kind: Kind
    config: bytes | None
    message: Message
    attempts: int
    max_attempts: int
    created_at: datetime


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of a delivery, and what that means for its channel."""

    state: State
    channel_failing: bool = False  # for too long: it is to be switched off


async def insert(
    connection: AsyncConnection, channels: Sequence[Channel], message: Message, now: datetime
) -> list[str]:
    """A waiting delivery for each channel; their ids, in order. Whoever inserts them may claim them first."""
    waiting = {"state": State.READY.value, "next_at": now + HEAD_START}
    return await _insert(connection, channels, message, now, waiting)


async def insert_single(connection: AsyncConnection, channel: Channel, message: Message, now: datetime) -> Claimed:
    """A delivery of one attempt, which is the caller's from the start: a test."""
    held = {"state": State.SENDING.value, "lease_until": now + LEASE, "attempts": 1, "max_attempts": 1}
    ids = await _insert(connection, [channel], message, now, held | {"attempted_at": now})
    return (await _taken(connection, ids))[0]


async def claim_due(
    connection: AsyncConnection, now: datetime, *, limit: int, per_channel: int, lease: timedelta = LEASE
) -> list[Claimed]:
    """At most `limit` due deliveries, the longest waiting first, and of one channel only so many that no more than
    `per_channel` are under way, or one where nothing comes through: a receiver that hangs keeps few places.
    """
    ids = list(await connection.scalars(_due(now, limit, per_channel)))
    return await _claim(connection, ids, now, lease)


async def claim_these(
    connection: AsyncConnection, ids: Sequence[str], now: datetime, lease: timedelta = LEASE
) -> list[Claimed]:
    """Those of the deliveries that nobody has begun yet."""
    waiting = sa.select(deliveries.c.id).where(deliveries.c.id.in_(ids), deliveries.c.state == State.READY.value)
    return await _claim(connection, list((await connection.execute(waiting)).scalars()), now, lease)


async def settle(
    connection: AsyncConnection, claimed: Claimed, outcome: Outcome, now: datetime, draw: float
) -> Settled | None:
    """Write what came of an attempt. None, and nothing written, when the lease was lost and the delivery is another's.

    A channel that was switched off meanwhile gets no further attempt. `draw`: from 0 to 1, for the pause.
    """
    channel = await _channel(connection, claimed.channel_id)
    state = _next_state(claimed, outcome, waits=channel.enabled)
    values = {
        "state": state.value,
        "lease_until": None,
        "next_at": now + pause(claimed.attempts, outcome.retry_after_s, draw) if state is State.READY else None,
        "ended_at": now if state in ENDED else None,
        "detail": outcome.detail,
        "failed": not outcome.ok,
        "permanent": outcome.permanent,
        "retry_after_s": outcome.retry_after_s,
    }
    changed = await connection.execute(deliveries.update().where(*_ours(claimed)).values(values))
    if changed.rowcount != 1:
        return None
    if claimed.max_attempts == 1:
        return Settled(state)  # a test says nothing of the traffic
    since = None if outcome.ok else channel.failing_since or now
    if since != channel.failing_since:
        where = notification_channels.c.id == claimed.channel_id
        await connection.execute(notification_channels.update().where(where).values(failing_since=since))
    return Settled(state, channel_failing=channel.enabled and is_failing_too_long(since, now))


async def reap(connection: AsyncConnection, now: datetime) -> int:
    """Take deliveries back whose lease ended without an outcome: whoever had them is gone. How many there were."""
    lost = (deliveries.c.state == State.SENDING.value) & (deliveries.c.lease_until < now)
    again = {"state": State.READY.value, "lease_until": None, "next_at": now}
    over = {"state": State.DEAD.value, "lease_until": None, "ended_at": now}
    text = {"detail": "The attempt was interrupted.", "failed": True, "permanent": False, "retry_after_s": None}
    more = deliveries.c.attempts < deliveries.c.max_attempts
    live = sa.select(notification_channels.c.id).where(notification_channels.c.enabled)
    kept = await connection.execute(
        deliveries.update().where(lost, more, deliveries.c.channel_id.in_(live)).values(again | text)
    )
    ended = await connection.execute(deliveries.update().where(lost).values(over | text))
    return kept.rowcount + ended.rowcount


async def expire(connection: AsyncConnection, before: datetime) -> int:
    """Remove at most EXPIRED_AT_ONCE deliveries that ended before then, and deleted channels that none is of any more.
    How many deliveries.
    """
    old = sa.select(deliveries.c.id).where(deliveries.c.ended_at < before).limit(EXPIRED_AT_ONCE)
    removed = await connection.execute(deliveries.delete().where(deliveries.c.id.in_(old)))
    used = sa.exists().where(deliveries.c.channel_id == notification_channels.c.id)
    await connection.execute(notification_channels.delete().where(notification_channels.c.deleted_at < before, ~used))
    return removed.rowcount


async def next_due(connection: AsyncConnection) -> datetime | None:
    """When there is something to do: a delivery is due, or a lease ends. None: nothing waits."""
    waiting = sa.select(sa.func.min(deliveries.c.next_at)).where(deliveries.c.state == State.READY.value)
    leased = sa.select(sa.func.min(deliveries.c.lease_until)).where(deliveries.c.state == State.SENDING.value)
    found = [time for time in (await connection.scalar(waiting), await connection.scalar(leased)) if time is not None]
    return min(found, default=None)


async def _insert(
    connection: AsyncConnection, channels: Sequence[Channel], message: Message, now: datetime, more: dict[str, Any]
) -> list[str]:
    row = {
        "type": message.type,
        "subject": message.subject,
        "message": msgspec.json.encode(message).decode(),
        "attempts": 0,
        "max_attempts": MAX_ATTEMPTS,
        "failed": False,
        "permanent": False,
        "created_at": now,
    } | more
    rows = [row | {"id": new_id("dlv"), "org_id": channel.org_id, "channel_id": channel.id} for channel in channels]
    if rows:
        await connection.execute(deliveries.insert(), rows)
    return [str(one["id"]) for one in rows]


async def _claim(connection: AsyncConnection, ids: Sequence[str], now: datetime, lease: timedelta) -> list[Claimed]:
    if not ids:
        return []
    values = {
        "state": State.SENDING.value,
        "next_at": None,
        "lease_until": now + lease,
        "attempted_at": now,
        "attempts": deliveries.c.attempts + 1,
    }
    await connection.execute(deliveries.update().where(deliveries.c.id.in_(ids)).values(values))
    return await _taken(connection, ids)


async def _taken(connection: AsyncConnection, ids: Sequence[str]) -> list[Claimed]:
    rows = (await connection.execute(_TAKEN.where(deliveries.c.id.in_(ids)))).mappings()
    found = {row["id"]: _claimed(row) for row in rows}
    return [found[id_] for id_ in ids]


async def _channel(connection: AsyncConnection, channel_id: str) -> sa.Row[bool, datetime | None]:
    found = sa.select(notification_channels.c.enabled, notification_channels.c.failing_since)
    return (await connection.execute(found.where(notification_channels.c.id == channel_id))).one()


def _due(now: datetime, limit: int, per_channel: int) -> sa.Select[str]:
    """Looks at a few deliveries of each channel, however many wait: the channels are found by hops over the index, and
    of each only what is due up to the time of its `per_channel`th.
    """
    waiting = _waiting_channels()
    other = deliveries.alias("other")
    last = (
        sa.select(other.c.next_at)
        .where(other.c.state == State.READY.value, other.c.channel_id == waiting.c.id)
        .order_by(other.c.next_at)
        .limit(1)
        .offset(per_channel - 1)
        .correlate(waiting)
        .scalar_subquery()
    )
    order = sa.func.row_number().over(
        partition_by=deliveries.c.channel_id, order_by=(deliveries.c.next_at, deliveries.c.id)
    )
    due = (
        sa.select(deliveries.c.id, deliveries.c.channel_id, deliveries.c.next_at, order.label("place"))
        .join_from(waiting, deliveries, deliveries.c.channel_id == waiting.c.id)
        .where(
            deliveries.c.state == State.READY.value,
            deliveries.c.next_at <= now,
            deliveries.c.next_at <= sa.func.coalesce(last, sa.bindparam(None, now, deliveries.c.next_at.type)),
        )
        .subquery("due")
    )
    busy = (
        sa.select(deliveries.c.channel_id, sa.func.count().label("number"))
        .where(deliveries.c.state == State.SENDING.value)
        .group_by(deliveries.c.channel_id)
        .subquery("busy")
    )
    places = sa.case((notification_channels.c.failing_since.is_(None), per_channel), else_=1)
    return (
        sa.select(due.c.id)
        .join_from(due, notification_channels, notification_channels.c.id == due.c.channel_id)
        .join(busy, busy.c.channel_id == due.c.channel_id, isouter=True)
        .where(due.c.place <= places - sa.func.coalesce(busy.c.number, 0))
        .order_by(due.c.next_at, due.c.id)
        .limit(limit)
    )


def _waiting_channels() -> sa.CTE:
    """Ids of channels that have deliveries in READY, and one NULL at the end."""
    first = sa.select(sa.func.min(deliveries.c.channel_id).label("id")).where(deliveries.c.state == State.READY.value)
    found = first.cte("waiting", recursive=True)
    row = deliveries.alias("later")
    following = (
        sa.select(sa.func.min(row.c.channel_id))
        .where(row.c.state == State.READY.value, row.c.channel_id > found.c.id)
        .correlate(found)
        .scalar_subquery()
    )
    return found.union_all(sa.select(following).where(found.c.id.is_not(None)))


def _ours(claimed: Claimed) -> tuple[sa.ColumnElement[bool], ...]:
    """The claim itself: after its lease has ended, another one has a higher number."""
    return (
        deliveries.c.id == claimed.id,
        deliveries.c.state == State.SENDING.value,
        deliveries.c.attempts == claimed.attempts,
    )


def _next_state(claimed: Claimed, outcome: Outcome, *, waits: bool) -> State:
    if outcome.ok:
        return State.DONE
    if outcome.permanent or claimed.attempts >= claimed.max_attempts:
        return State.DEAD
    return State.READY if waits else State.CANCELLED


def _claimed(row: sa.RowMapping) -> Claimed:
    return Claimed(
        **{
            **row,
            "kind": Kind(row["kind"]),
            "config": None if row["config"] is None else bytes(row["config"]),
            "message": msgspec.json.decode(row["message"], type=Message),
        }
    )
