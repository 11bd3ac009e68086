"""Claims: how deliveries that wait become somebody's under a lease, and how they come back from who is gone.

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

from control.channels.config import Kind
from control.channels.tables import notification_channels
from control.deliveries.message import Message
from control.deliveries.outcome import MAX_ATTEMPTS, pause_again
from control.deliveries.tables import State, deliveries

LEASE: Final = timedelta(seconds=60)  # an attempt ends within 20 s; its outcome has the rest to be written
OVER: Final = "What it tells of is over."
INTERRUPTED: Final = "The attempt was interrupted."

_TAKEN: Final = sa.select(
    deliveries.c.id,
    deliveries.c.org_id,
    deliveries.c.channel_id,
    deliveries.c.message,
    deliveries.c.attempts,
    deliveries.c.max_attempts,
    deliveries.c.claims,
    deliveries.c.taken,
    deliveries.c.created_at,
    notification_channels.c.kind,
    notification_channels.c.config,
).join_from(deliveries, notification_channels, notification_channels.c.id == deliveries.c.channel_id)


@dataclass(frozen=True, slots=True)
class Places:
    """How many deliveries are under way at once at most, in all processes together: what one receiver that hangs can
    hold, one where nothing comes through, and all that belong to one organization.
    """

    channel: int = 8
    failing: int = 1
    organization: int = 16


@dataclass(frozen=True, slots=True)
class Claimed:
    """A delivery that is ours until its lease ends. `config` is sealed; None: the channel is deleted. `attempts` came
    to an outcome before this one; `claims` is the number of this claim.
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
        """Whether it has one attempt, whatever comes of it."""
        return self.max_attempts == 1


async def claim_due(
    connection: AsyncConnection, now: datetime, *, limit: int, places: Places, lease: timedelta = LEASE
) -> list[Claimed]:
    """At most `limit` due deliveries, as far as there are places. Organizations take turns, and of each one the longest
    waiting go first. What is over is cancelled instead.
    """
    ids = list(await connection.scalars(_placed(_due(now, places.channel), places, limit)))
    return await _claim(connection, ids, now, lease)


async def claim_these(
    connection: AsyncConnection, ids: Sequence[str], now: datetime, *, places: Places, lease: timedelta = LEASE
) -> list[Claimed]:
    """Those of the deliveries that nobody has begun yet, due or not, as far as there are places."""
    waiting = _ordered(deliveries.c.id.in_(ids), deliveries.c.state == State.READY.value).subquery("due")
    placed = list(await connection.scalars(_placed(waiting, places, len(ids))))
    return await _claim(connection, placed, now, lease)


async def taken(connection: AsyncConnection, ids: Sequence[str]) -> list[Claimed]:
    """Those of the deliveries that are under way, in order."""
    under_way = _TAKEN.where(deliveries.c.id.in_(ids), deliveries.c.state == State.SENDING.value)
    found = {row["id"]: _claimed(row) for row in (await connection.execute(under_way)).mappings()}
    return [found[id_] for id_ in ids if id_ in found]


async def reap(connection: AsyncConnection, now: datetime) -> int:
    """Take deliveries back whose lease ended without an outcome: whoever had them is gone. How many there were.

    An attempt that was interrupted says nothing of its receiver and is not counted; the next one comes after a pause
    all the same, so that a process that does not survive it does not make it without end.
    """
    table = deliveries
    lost = (table.c.state == State.SENDING.value) & (table.c.lease_until < now)
    text = {"lease_until": None, "detail": INTERRUPTED, "failed": True, "permanent": False, "retry_after_s": None}
    live = sa.select(notification_channels.c.id).where(notification_channels.c.enabled)
    again = (table.c.max_attempts > 1, table.c.channel_id.in_(live), not_over(now))
    ready = {"state": State.READY.value, "next_at": _next_turn(now)}
    kept = await connection.execute(table.update().where(lost, *again).values(ready | text))
    ended = sa.case((table.c.max_attempts == 1, State.DEAD.value), else_=State.CANCELLED.value)
    others = await connection.execute(table.update().where(lost).values({"state": ended, "ended_at": now} | text))
    return kept.rowcount + others.rowcount


def not_over(now: datetime) -> sa.ColumnElement[bool]:
    """Whether what a delivery tells of is still so."""
    return deliveries.c.until.is_(None) | (deliveries.c.until > now)


async def _claim(connection: AsyncConnection, ids: Sequence[str], now: datetime, lease: timedelta) -> list[Claimed]:
    if not ids:
        return []
    these = deliveries.update().where(deliveries.c.id.in_(ids))
    over = {"state": State.CANCELLED.value, "next_at": None, "ended_at": now, "detail": OVER}
    await connection.execute(these.where(~not_over(now)).values(over))
    values = {
        "state": State.SENDING.value,
        "next_at": None,
        "lease_until": now + lease,
        "attempted_at": now,
        "claims": deliveries.c.claims + 1,
    }
    await connection.execute(these.where(deliveries.c.state == State.READY.value).values(values))
    return await taken(connection, ids)


def _due(now: datetime, per_channel: int) -> sa.Subquery:
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
    found = _ordered(
        deliveries.c.state == State.READY.value,
        deliveries.c.next_at <= now,
        deliveries.c.next_at <= sa.func.coalesce(last, sa.bindparam(None, now, deliveries.c.next_at.type)),
    )
    return found.join_from(waiting, deliveries, deliveries.c.channel_id == waiting.c.id).subquery("due")


def _ordered(*conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Deliveries with their place in the order of their channel, but for those that have to wait for another one."""
    order = (deliveries.c.next_at, deliveries.c.id)
    place = sa.func.row_number().over(partition_by=deliveries.c.channel_id, order_by=order).label("place")
    columns = (deliveries.c.id, deliveries.c.org_id, deliveries.c.channel_id, deliveries.c.next_at, place)
    return sa.select(*columns).where(*conditions, ~_follows_one_under_way())


def _follows_one_under_way() -> sa.Exists:
    """Whether a message of the same subject to the same channel is under way that is over already: what ends a subject
    is not to arrive before what began it.
    """
    other = deliveries.alias("earlier")
    return sa.exists().where(
        other.c.state == State.SENDING.value,
        other.c.channel_id == deliveries.c.channel_id,
        other.c.subject == deliveries.c.subject,
        other.c.until.is_not(None),
        deliveries.c.until.is_(None),
    )


def _placed(due: sa.Subquery, places: Places, limit: int) -> sa.Select[str]:
    """Ids of those that have a place, of their channel and of their organization."""
    of_channel, of_org = _busy(deliveries.c.channel_id), _busy(deliveries.c.org_id)
    at_once = sa.case((notification_channels.c.failing_since.is_(None), places.channel), else_=places.failing)
    order = sa.func.row_number().over(partition_by=due.c.org_id, order_by=(due.c.next_at, due.c.id))
    placed = (
        sa.select(due.c.id, due.c.next_at, (order + sa.func.coalesce(of_org.c.number, 0)).label("place"))
        .join_from(due, notification_channels, notification_channels.c.id == due.c.channel_id)
        .join(of_channel, of_channel.c.of == due.c.channel_id, isouter=True)
        .join(of_org, of_org.c.of == due.c.org_id, isouter=True)
        .where(due.c.place <= at_once - sa.func.coalesce(of_channel.c.number, 0))
        .subquery("placed")
    )
    within = sa.select(placed.c.id).where(placed.c.place <= places.organization)
    return within.order_by(placed.c.place, placed.c.next_at, placed.c.id).limit(limit)


def _busy(whose: sa.Column[str]) -> sa.Subquery:
    """How many deliveries are under way of each."""
    sending = sa.select(whose.label("of"), sa.func.count().label("number")).group_by(whose)
    return sending.where(deliveries.c.state == State.SENDING.value).subquery(f"busy_{whose.name}")


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


def _next_turn(now: datetime) -> sa.Case[datetime]:
    """When an interrupted attempt is made again, by how many there were before it."""
    times = [sa.literal(now + pause_again(attempts), deliveries.c.next_at.type) for attempts in range(MAX_ATTEMPTS)]
    rules = [(deliveries.c.attempts == attempts, time) for attempts, time in enumerate(times)]
    return sa.case(*rules, else_=times[-1])


def _claimed(row: sa.RowMapping) -> Claimed:
    return Claimed(
        **{
            **row,
            "kind": Kind(row["kind"]),
            "config": None if row["config"] is None else bytes(row["config"]),
            "message": msgspec.json.decode(row["message"], type=Message),
        }
    )
