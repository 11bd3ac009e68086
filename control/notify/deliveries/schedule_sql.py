"""Fair scheduling: two SQL statements that select the ids of the next deliveries.

Organizations take turns; within one the longest waiting are first, as far as slots are free
(`leases.ConcurrencyLimits`).
"""

from datetime import datetime
from typing import Any, Final

import sqlalchemy as sa

from control.notify.channels.delivery_tables import State, deliveries
from control.notify.channels.tables import notification_channels


def _due() -> sa.Subquery:
    """Reads a few deliveries of a few channels per organization, however many wait: per channel only what is due up to
    the time of its `last`th delivery. All of it comes from the index.
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
    """Per organization with a free slot, its longest-waiting channels with a free slot, at most as many as the
    organization has slots in total. Nothing beyond these could be claimed: the number of channels whose first delivery
    is blocked by another one (`_blocked_by_earlier`) is at most the number in flight.
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
    found = (
        sa.select(ready.c.id, org_id, first.label("first_at"))
        .join_from(ready, notification_channels, notification_channels.c.id == ready.c.id)
        .join(channel_counts, channel_counts.c.of == ready.c.id, isouter=True)
        .join(org_counts, org_counts.c.of == org_id, isouter=True)
        .where(sa.func.coalesce(channel_counts.c.number, 0) < _channel_limit())
        .where(sa.func.coalesce(org_counts.c.number, 0) < _int_parameter("organization"))
    )
    return found.subquery("free")


def _ranked(*conditions: sa.ColumnElement[bool]) -> sa.Select[Any]:
    """Waiting deliveries with their position within the channel, except those blocked by an earlier one."""
    order = (deliveries.c.next_at, deliveries.c.id)
    position = sa.func.row_number().over(partition_by=deliveries.c.channel_id, order_by=order).label("place")
    found = sa.select(deliveries.c.id, deliveries.c.channel_id, deliveries.c.next_at, position)
    return found.where(
        deliveries.c.state == State.READY.value, *conditions, deliveries.c.id.not_in(_blocked_by_earlier())
    )


def _blocked_by_earlier() -> sa.Select[str]:
    """Deliveries without `until` while an earlier one with `until`, of the same subject and channel, is in flight: the
    message that ends a subject must not overtake the one that opened it.
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
    """Ids of those that fit into the slots of their channel and organization."""
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
