"""The tables of channels and their subscriptions. A deleted channel keeps its row, without its config, for the
deliveries that reference it.
"""

from enum import StrEnum
from typing import Final

import sqlalchemy as sa

from chassis.auth.tables import metadata
from chassis.db.database import UtcTime, enum_check, text
from control.notify.channels.config import Kind
from proto.identity import MAX_NAME_LENGTH

_LIVE: Final = sa.text("deleted_at IS NULL")
_DELETED: Final = sa.text("deleted_at IS NOT NULL")


class DisabledReason(StrEnum):
    """Why a channel was disabled automatically."""

    GONE = "gone"  # the receiver responded 410
    FAILING = "failing"  # no success for days


class ChannelEvent(StrEnum):
    """An event that a channel can subscribe to."""

    NEW_ISSUE = "issue.new"
    REGRESSION = "issue.regression"


notification_channels: Final = sa.Table(
    "notification_channels",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("project_id", sa.BigInteger, sa.ForeignKey("projects.id")),  # NULL: of the whole organization
    sa.Column("name", text(MAX_NAME_LENGTH), nullable=False),
    sa.Column("kind", text(16), nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("config", sa.LargeBinary, info={"sealed": True}),  # NULL: deleted
    sa.Column("off_reason", text(16)),
    sa.Column("failing_since", UtcTime),  # the first failure since the last success or longer gap
    sa.Column("failed_at", UtcTime),  # the last failure
    sa.Column("created_by", text(32), sa.ForeignKey("principals.id")),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("updated_at", UtcTime, nullable=False),
    sa.Column("deleted_at", UtcTime),
    enum_check("kind", Kind),
    enum_check("off_reason", DisabledReason),
    sa.CheckConstraint("(config IS NULL) = (deleted_at IS NOT NULL)", name="config"),
    sa.Index(None, "org_id", "project_id", "id", sqlite_where=_LIVE, postgresql_where=_LIVE),
    sa.Index(None, "deleted_at", sqlite_where=_DELETED, postgresql_where=_DELETED),
)

# The events that a channel is notified of without being named.
channel_subscriptions: Final = sa.Table(
    "channel_subscriptions",
    metadata,
    sa.Column("channel_id", text(32), sa.ForeignKey("notification_channels.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("event", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    enum_check("event", ChannelEvent),
    sa.Index(None, "org_id", "event"),
)
