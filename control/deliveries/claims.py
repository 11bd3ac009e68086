"""Claims: how deliveries that wait become somebody's under a lease, and how they come back from who is gone.

Every function works in the caller's transaction. Writers take turns (`chassis.relational`), so what a claim has read is
still so when it writes, on both databases and with any number of processes.
"""

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from datetime import datetime, timedelta
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from control.channels.config import Kind
from control.channels.tables import notification_channels
from control.deliveries.message import Message
from control.deliveries.outcome import MAX_ATTEMPTS, pause_again
from control.deliveries.tables import State, deliveries, delivery_messages

LEASE: Final = timedelta(seconds=60)  # an attempt ends within 20 s; its outcome has the rest to be written
OVER: Final = "What it tells of is over."
INTERRUPTED: Final = "The attempt was interrupted."

_TAKEN: Final = (
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
class Places:
    """How many deliveries are under way at once at most, in all processes together: what one receiver that hangs can
    hold, one where nothing comes through, and all that belong to one organization.
    """

    channel: int = 8
    failing: int = 1
    organization: int = 32


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
    wanted = {"now": now, "limit": limit, "last": places.channel - 1} | asdict(places)
    return await _claim(connection, list(await connection.scalars(_DUE, wanted)), now, lease)


async def claim_these(
    connection: AsyncConnection, ids: Sequence[str], now: datetime, *, places: Places, lease: timedelta = LEASE
) -> list[Claimed]:
    """Those of the deliveries that nobody has begun yet, due or not, as far as there are places."""
    wanted = {"ids": list(ids), "limit": len(ids)} | asdict(places)
    return await _claim(connection, list(await connection.scalars(_THESE, wanted)), now, lease)


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


def _due() -> sa.Subquery:
    """Looks at a few deliveries of each channel, however many wait: the channels are found by hops over the index, and
    of each only what is due up to the time of its `last`th. All of this is in the index.
    """
    waiting = _waiting_channels()
    other = deliveries.alias("other")
    last = (
        sa.select(other.c.next_at)
        .where(other.c.state == State.READY.value, other.c.channel_id == waiting.c.id)
        .order_by(other.c.next_at)
        .limit(1)
        .offset(_number("last"))
        .correlate(waiting)
        .scalar_subquery()
    )
    now = sa.bindparam("now", type_=deliveries.c.next_at.type)
    found = _ordered(deliveries.c.next_at <= now, deliveries.c.next_at <= sa.func.coalesce(last, now))
    return found.join_from(waiting, deliveries, deliveries.c.channel_id == waiting.c.id).subquery("due")


def _ordered(*conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Deliveries that wait, with their place in the order of their channel, but for those that wait for another one."""
    order = (deliveries.c.next_at, deliveries.c.id)
    place = sa.func.row_number().over(partition_by=deliveries.c.channel_id, order_by=order).label("place")
    found = sa.select(deliveries.c.id, deliveries.c.channel_id, deliveries.c.next_at, place)
    return found.where(deliveries.c.state == State.READY.value, *conditions, deliveries.c.id.not_in(_following()))


def _following() -> sa.Select[str]:
    """Those before which something of the same subject to the same channel is under way that ends with `until`: what
    ends a subject is not to arrive before what began it.
    """
    earlier, later = deliveries.alias("earlier"), deliveries.alias("following")
    same = (later.c.org_id == earlier.c.org_id) & (later.c.subject == earlier.c.subject)
    return (
        sa.select(later.c.id)
        .join_from(earlier, later, same & (later.c.channel_id == earlier.c.channel_id))
        .where(earlier.c.state == State.SENDING.value, earlier.c.until.is_not(None))
        .where(later.c.state == State.READY.value, later.c.until.is_(None))
    )


def _placed(due: sa.Subquery) -> sa.Select[str]:
    """Ids of those that have a place, of their channel and of their organization."""
    of_channel, of_org = _busy(deliveries.c.channel_id), _busy(deliveries.c.org_id)
    at_once = sa.case((notification_channels.c.failing_since.is_(None), _number("channel")), else_=_number("failing"))
    org_id = notification_channels.c.org_id
    order = sa.func.row_number().over(partition_by=org_id, order_by=(due.c.next_at, due.c.id))
    placed = (
        sa.select(due.c.id, due.c.next_at, (order + sa.func.coalesce(of_org.c.number, 0)).label("place"))
        .join_from(due, notification_channels, notification_channels.c.id == due.c.channel_id)
        .join(of_channel, of_channel.c.of == due.c.channel_id, isouter=True)
        .join(of_org, of_org.c.of == org_id, isouter=True)
        .where(due.c.place <= at_once - sa.func.coalesce(of_channel.c.number, 0))
        .subquery("placed")
    )
    within = sa.select(placed.c.id).where(placed.c.place <= _number("organization"))
    return within.order_by(placed.c.place, placed.c.next_at, placed.c.id).limit(_number("limit"))


def _number(name: str) -> sa.BindParameter[int]:
    return sa.bindparam(name, type_=sa.Integer)


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


_DUE: Final = _placed(_due())
_THESE: Final = _placed(_ordered(deliveries.c.id.in_(sa.bindparam("ids", expanding=True))).subquery("due"))
