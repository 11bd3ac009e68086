"""The table of subscriptions, and statements on it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, Final

import msgspec
import sqlalchemy as sa
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.tables import metadata, organizations
from chassis.db.database import UtcTime, text
from control.governance.billing.history import History
from control.plans import MAX_PLAN_LENGTH

MAX_PROCESSOR_ID_LENGTH: Final = 255

# The operator names the customer. A payload cannot.
subscriptions: Final = sa.Table(
    "subscriptions",
    metadata,
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), primary_key=True),
    sa.Column("customer_id", text(MAX_PROCESSOR_ID_LENGTH), nullable=False, unique=True),
    sa.Column("subscription_id", text(MAX_PROCESSOR_ID_LENGTH)),  # NULL: there is none so far, or it has ended
    sa.Column("plan", text(MAX_PLAN_LENGTH)),
    sa.Column("status", text(32)),
    sa.Column("monthly_items", sa.BigInteger),  # the quota that the plan gives; NULL: no plan so far
    sa.Column("current_period_end", UtcTime),
    sa.Column("changed_at", UtcTime),  # the time of the last applied event, by the processor's clock
    sa.Column("last_event_id", text(MAX_PROCESSOR_ID_LENGTH)),
    sa.Column(
        "histories", sa.JSON(none_as_null=True)
    ),  # the newest events by subscription, see control.governance.billing.history
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("updated_at", UtcTime, nullable=False),
)


class CustomerTaken(Exception):
    """The customer belongs to another organization."""


@dataclass(frozen=True, slots=True)
class StoredSubscription:
    """The customer of an organization, and its subscription according to the events. Without an event the other fields
    are None.
    """

    org_id: str
    customer_id: str
    subscription_id: str | None = None
    plan: str | None = None
    status: str | None = None
    monthly_items: int | None = None
    current_period_end: datetime | None = None
    changed_at: datetime | None = None
    last_event_id: str | None = None
    histories: Mapping[str, History] = field(default_factory=dict)


_COLUMNS: Final = [subscriptions.c[name] for name in StoredSubscription.__slots__]

_OF_EVENTS: Final = [name for name in StoredSubscription.__slots__ if name not in {"org_id", "customer_id"}]


async def find_by_customer(connection: AsyncConnection, customer_id: str) -> StoredSubscription | None:
    """Find the subscription of the customer, unless its organization is deleted."""
    return await _find(connection, subscriptions.c.customer_id == customer_id)


async def find_by_organization(connection: AsyncConnection, org_id: str) -> StoredSubscription | None:
    """Find the subscription of the organization."""
    return await _find(connection, subscriptions.c.org_id == org_id)


async def _find(connection: AsyncConnection, where: sa.ColumnElement[bool]) -> StoredSubscription | None:
    statement = sa.select(*_COLUMNS).join(organizations, organizations.c.id == subscriptions.c.org_id)
    row = (
        (await connection.execute(statement.where(where, organizations.c.deleted_at.is_(None))))
        .mappings()
        .one_or_none()
    )
    if row is None:
        return None
    histories = msgspec.convert(row["histories"] or {}, dict[str, History])
    return StoredSubscription(**{**row, "histories": histories})


async def save(connection: AsyncConnection, subscription: StoredSubscription, now: datetime) -> None:
    """Store the subscription."""
    values: dict[str, Any] = {name: getattr(subscription, name) for name in _OF_EVENTS}
    values |= {"histories": msgspec.to_builtins(subscription.histories), "updated_at": now}
    of_org = subscriptions.c.org_id == subscription.org_id
    await connection.execute(subscriptions.update().where(of_org).values(values))


async def link(connection: AsyncConnection, org_id: str, customer_id: str) -> None:
    """Set the organization's customer. Another customer and its subscription are replaced. Raises CustomerTaken."""
    taken = sa.select(subscriptions.c.org_id).where(subscriptions.c.customer_id == customer_id)
    holder = await connection.scalar(taken)
    if holder == org_id:
        return
    if holder is not None:
        raise CustomerTaken(customer_id)
    await unlink(connection, org_id)
    now = datetime.now(UTC)
    row = {"org_id": org_id, "customer_id": customer_id, "created_at": now, "updated_at": now}
    await connection.execute(subscriptions.insert().values(row))


async def unlink(connection: AsyncConnection, org_id: str) -> None:
    """Remove the organization's customer. The organization keeps its quota."""
    await connection.execute(subscriptions.delete().where(subscriptions.c.org_id == org_id))
