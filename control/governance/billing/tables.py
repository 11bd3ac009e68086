"""The table of subscriptions."""

from typing import Final

import sqlalchemy as sa

from chassis.auth.tables import metadata
from chassis.db.database import UtcTime, text
from control.plans import MAX_PLAN_LENGTH

MAX_PROCESSOR_ID_LENGTH: Final = 255

# The operator names the customer; nothing that a payload says can.
subscriptions: Final = sa.Table(
    "subscriptions",
    metadata,
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), primary_key=True),
    sa.Column("customer_id", text(MAX_PROCESSOR_ID_LENGTH), nullable=False, unique=True),
    sa.Column("subscription_id", text(MAX_PROCESSOR_ID_LENGTH)),  # NULL: none so far, or it has ended
    sa.Column("plan", text(MAX_PLAN_LENGTH)),
    sa.Column("status", text(32)),
    sa.Column("monthly_items", sa.BigInteger),  # the quota that the plan gives; NULL: none given so far
    sa.Column("current_period_end", UtcTime),
    sa.Column("changed_at", UtcTime),  # when the processor made the last event that was applied
    sa.Column("last_event_id", text(MAX_PROCESSOR_ID_LENGTH)),
    sa.Column(
        "histories", sa.JSON(none_as_null=True)
    ),  # control.governance.billing.history: the newest events by subscription
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("updated_at", UtcTime, nullable=False),
)
