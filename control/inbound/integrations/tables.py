"""The tables of integrations and of the deliveries that they have received."""

from typing import Final

import sqlalchemy as sa

from chassis.auth.tables import metadata
from chassis.db.database import UtcTime, enum_check, text
from control.inbound.integrations.model import MAX_HOOK_ID_LENGTH, DeliveryStatus, IntegrationKind
from proto.identity import MAX_NAME_LENGTH

MAX_DELIVERY_KEY_LENGTH: Final = 128
MAX_EVENT_LENGTH: Final = 100
MAX_ERROR_LENGTH: Final = 500

integrations: Final = sa.Table(
    "integrations",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("kind", text(16), nullable=False),
    sa.Column("name", text(MAX_NAME_LENGTH), nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("config", sa.JSON(none_as_null=True), nullable=False),
    sa.Column("hook_id", text(MAX_HOOK_ID_LENGTH)),  # as the platform names the webhook in a header
    sa.Column("secret", sa.LargeBinary, info={"sealed": True}, nullable=False),
    sa.Column("previous_secret", sa.LargeBinary, info={"sealed": True}),  # accepted until the time below
    sa.Column("previous_secret_until", UtcTime),
    sa.Column("version", sa.Integer, nullable=False),  # counts changes: who has read an older one reads again
    sa.Column("created_by", text(32), sa.ForeignKey("principals.id")),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("updated_at", UtcTime, nullable=False),
    enum_check("kind", IntegrationKind),
    sa.CheckConstraint("(previous_secret IS NULL) = (previous_secret_until IS NULL)", name="previous_secret"),
    sa.Index(None, "org_id", "id"),
    sa.Index(None, "hook_id"),
)

inbound_deliveries: Final = sa.Table(
    "inbound_deliveries",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("integration_id", text(32), sa.ForeignKey("integrations.id", ondelete="CASCADE"), nullable=False),
    sa.Column("delivery_key", text(MAX_DELIVERY_KEY_LENGTH), nullable=False),  # the same: the same delivery
    sa.Column("event", text(MAX_EVENT_LENGTH), nullable=False),  # the platform's name
    sa.Column("status", text(16), nullable=False),
    sa.Column("result", sa.JSON(none_as_null=True)),  # the answer; a repetition gets it again
    sa.Column("error", text(MAX_ERROR_LENGTH)),
    sa.Column("body", sa.LargeBinary, info={"sealed": True}),  # compressed; NULL: too large to keep
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("received_at", UtcTime, nullable=False),
    sa.Column("processed_at", UtcTime, nullable=False),  # the last attempt
    enum_check("status", DeliveryStatus),
    sa.UniqueConstraint("integration_id", "delivery_key"),
    sa.Index(None, "integration_id", "id"),
    sa.Index(None, "org_id"),
    sa.Index(None, "received_at"),
)
