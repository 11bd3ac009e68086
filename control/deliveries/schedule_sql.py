"""Which deliveries are next: two statements that give ids.

Organizations take turns, and of each one the longest waiting go first, as far as there are places (`claims.Places`).
"""

from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from control.channels.delivery_tables import State, deliveries
from control.channels.tables import notification_channels


def _due() -> sa.Subquery:
    """Looks at a few deliveries of a few channels of each organization, however many wait: of each channel only at what
    is due up to the time of its `last`th. All of this is in the index.
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
    """Of each organization with a free place so many channels with one as it has places in all, the longest waiting
    first: of those behind them nothing could be claimed, for no more than are under way have a first delivery that has
    to wait for another one (`_following`).
    """
    found = _free_channels()
    order = sa.func.row_number().over(partition_by=found.c.org_id, order_by=(found.c.first_at, found.c.id))
    turns = sa.select(found.c.id, order.label("turn")).where(found.c.first_at <= _now()).subquery("turns")
    return sa.select(turns.c.id).where(turns.c.turn <= _int_parameter("organization")).subquery("channels")


def _free_channels() -> sa.Subquery:
    """Channels that have a place, of an organization that has one, with the time of the first that waits."""
    waiting, other = _ready_channels(), deliveries.alias("first")
    first = (
        sa.select(sa.func.min(other.c.next_at))
        .where(other.c.state == State.READY.value, other.c.channel_id == waiting.c.id)
        .correlate(waiting)
        .scalar_subquery()
    )
    of_channel, of_org = _in_flight_counts(deliveries.c.channel_id), _in_flight_counts(deliveries.c.org_id)
    org_id = notification_channels.c.org_id
    found = (
        sa.select(waiting.c.id, org_id, first.label("first_at"))
        .join_from(waiting, notification_channels, notification_channels.c.id == waiting.c.id)
        .join(of_channel, of_channel.c.of == waiting.c.id, isouter=True)
        .join(of_org, of_org.c.of == org_id, isouter=True)
        .where(sa.func.coalesce(of_channel.c.number, 0) < _channel_limit())
        .where(sa.func.coalesce(of_org.c.number, 0) < _int_parameter("organization"))
    )
    return found.subquery("free")


def _ranked(*conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Deliveries that wait, with their place in the order of their channel, but for those that wait for another one."""
    order = (deliveries.c.next_at, deliveries.c.id)
    place = sa.func.row_number().over(partition_by=deliveries.c.channel_id, order_by=order).label("place")
    found = sa.select(deliveries.c.id, deliveries.c.channel_id, deliveries.c.next_at, place)
    return found.where(
        deliveries.c.state == State.READY.value, *conditions, deliveries.c.id.not_in(_blocked_by_earlier())
    )


def _blocked_by_earlier() -> sa.Select[str]:
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


def _within_limits(due: sa.Subquery) -> sa.Select[str]:
    """Ids of those that have a place, of their channel and of their organization."""
    of_channel, of_org = _in_flight_counts(deliveries.c.channel_id), _in_flight_counts(deliveries.c.org_id)
    org_id = notification_channels.c.org_id
    order = sa.func.row_number().over(partition_by=org_id, order_by=(due.c.next_at, due.c.id))
    placed = (
        sa.select(due.c.id, due.c.next_at, (order + sa.func.coalesce(of_org.c.number, 0)).label("place"))
        .join_from(due, notification_channels, notification_channels.c.id == due.c.channel_id)
        .join(of_channel, of_channel.c.of == due.c.channel_id, isouter=True)
        .join(of_org, of_org.c.of == org_id, isouter=True)
        .where(due.c.place <= _channel_limit() - sa.func.coalesce(of_channel.c.number, 0))
        .subquery("placed")
    )
    within = sa.select(placed.c.id).where(placed.c.place <= _int_parameter("organization"))
    return within.order_by(placed.c.place, placed.c.next_at, placed.c.id).limit(_int_parameter("limit"))


def _channel_limit() -> sa.Case[int]:
    """How many places a channel has."""
    return sa.case(
        (notification_channels.c.failing_since.is_(None), _int_parameter("channel")), else_=_int_parameter("failing")
    )


def _now() -> sa.BindParameter[datetime]:
    return sa.bindparam("now", type_=deliveries.c.next_at.type)


def _int_parameter(name: str) -> sa.BindParameter[int]:
    return sa.bindparam(name, type_=sa.Integer)


def _in_flight_counts(column: sa.Column[str]) -> sa.Subquery:
    """How many deliveries are under way of each."""
    sending = sa.select(column.label("of"), sa.func.count().label("number")).group_by(column)
    return sending.where(deliveries.c.state == State.SENDING.value).subquery(f"busy_{column.name}")


def _ready_channels() -> sa.CTE:
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


DUE: Final = _within_limits(_due())
BY_ID: Final = _within_limits(_ranked(deliveries.c.id.in_(sa.bindparam("ids", expanding=True))).subquery("due"))
