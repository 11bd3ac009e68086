"""Deliveries as the API reads them, and redelivery. Every function runs in the caller's transaction."""

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec
import sqlalchemy as sa
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import to_milliseconds
from chassis.errors import Conflict
from chassis.http.query import Query, form
from control.notify.channels.config import Kind
from control.notify.channels.delivery_tables import TERMINAL_STATES, State, deliveries, delivery_messages
from control.notify.channels.tables import notification_channels
from control.notify.deliveries.leases import OBSOLETE
from control.notify.message import Message
from control.routing.resource import ids

_COLUMNS: Final = (
    *(
        deliveries.c[name]
        for name in (
            "id", "org_id", "channel_id", "type", "subject", "state", "attempts", "max_attempts", "detail",
            "failed", "permanent", "retry_after_s", "created_at", "attempted_at", "next_at", "ended_at", "until",
        )
    ),
    delivery_messages.c.message,
    notification_channels.c.kind,
    notification_channels.c.project_id,
)  # fmt: skip


class DeliveryFilter(Query, frozen=True, rename="camel"):
    """Filters of a list of deliveries; None: any."""

    channel_id: Annotated[
        str | None, form(ids("chn"), "Must be a channel id."), Meta(description="Only deliveries to this channel.")
    ] = None
    state: Annotated[State | None, Meta(description="Only deliveries in this state.")] = None


@dataclass(frozen=True, slots=True)
class DeliveryView:
    """A delivery with the outcome of its last attempt."""

    id: str
    org_id: str
    channel_id: str
    type: str
    subject: str
    title: str
    state: State
    attempts: int
    max_attempts: int
    detail: str | None
    failed: bool
    permanent: bool
    retry_after_s: int | None
    created_at: datetime
    attempted_at: datetime | None
    next_at: datetime | None
    ended_at: datetime | None
    until: datetime | None
    kind: Kind
    project_id: int | None  # of its channel


async def list_deliveries(
    connection: AsyncConnection, org_id: str, filters: DeliveryFilter, before_id: str | None, limit: int
) -> list[DeliveryView]:
    """At most `limit` deliveries of the organization, newest first, starting with the first one older than
    `before_id`.
    """
    page = _select().where(deliveries.c.org_id == org_id).order_by(deliveries.c.id.desc()).limit(limit)
    if before_id is not None:
        page = page.where(deliveries.c.id < before_id)
    if filters.channel_id is not None:
        page = page.where(deliveries.c.channel_id == filters.channel_id)
    if filters.state is not None:
        page = page.where(deliveries.c.state == filters.state.value)
    return [_delivery_view(row) for row in (await connection.execute(page)).mappings()]


async def find(connection: AsyncConnection, org_id: str, delivery_id: str) -> DeliveryView | None:
    """The organization's delivery with this id."""
    found = _select().where(deliveries.c.org_id == org_id, deliveries.c.id == delivery_id)
    row = (await connection.execute(found)).mappings().one_or_none()
    return None if row is None else _delivery_view(row)


async def require_redeliverable(connection: AsyncConnection, delivery: DeliveryView) -> None:
    """Raises Conflict for a delivery that has not ended, is a test or is obsolete, and for a disabled or deleted
    channel.
    """
    if delivery.state not in TERMINAL_STATES:
        raise Conflict("The delivery has not ended yet; wait until its state is DONE, DEAD or CANCELLED.")
    if delivery.max_attempts == 1:
        raise Conflict("A test cannot be redelivered. Run another test.")
    if delivery.until is not None and delivery.until <= datetime.now(UTC):
        raise Conflict(OBSOLETE)
    where = notification_channels.c.id == delivery.channel_id
    if not await connection.scalar(sa.select(notification_channels.c.enabled).where(where)):
        raise Conflict("The channel is disabled or deleted.")


async def redeliver(connection: AsyncConnection, delivery: DeliveryView) -> None:
    """Reset the delivery to waiting, as if it had never been attempted; earlier claims no longer count."""
    values = {
        "state": State.READY.value,
        "attempts": 0,
        "next_at": to_milliseconds(datetime.now(UTC)),
        "ended_at": None,
        "attempted_at": None,
        "detail": None,
        "failed": False,
        "permanent": False,
        "retry_after_s": None,
        "taken": None,
    }
    await connection.execute(deliveries.update().where(deliveries.c.id == delivery.id).values(values))


def _select() -> sa.Select[*tuple[Any, ...]]:
    of_channel = notification_channels.c.id == deliveries.c.channel_id
    found = sa.select(*_COLUMNS).join_from(deliveries, notification_channels, of_channel)
    return found.join(delivery_messages, delivery_messages.c.id == deliveries.c.message_id)


def _delivery_view(row: sa.RowMapping) -> DeliveryView:
    fields = {name: value for name, value in row.items() if name != "message"}
    title = msgspec.json.decode(row["message"], type=Message).title
    return DeliveryView(**{**fields, "title": title, "state": State(row["state"]), "kind": Kind(row["kind"])})
