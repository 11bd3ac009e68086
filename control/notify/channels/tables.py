"""The tables of channels, their subscriptions, and deliveries.

A deleted channel keeps its row, without its config, for the deliveries that reference it. A delivery is one message to
one channel. It is inserted in the transaction of the event.
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
    sa.Column("project_id", sa.BigInteger, sa.ForeignKey("projects.id")),  # NULL: a channel of the whole organization
    sa.Column("name", text(MAX_NAME_LENGTH), nullable=False),
    sa.Column("kind", text(16), nullable=False),
    sa.Column("enabled", sa.Boolean, nullable=False),
    sa.Column("config", sa.LargeBinary, info={"sealed": True}),  # NULL: the channel is deleted
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

# The events that a channel subscribes to.
channel_subscriptions: Final = sa.Table(
    "channel_subscriptions",
    metadata,
    sa.Column("channel_id", text(32), sa.ForeignKey("notification_channels.id", ondelete="CASCADE"), primary_key=True),
    sa.Column("event", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    enum_check("event", ChannelEvent),
    sa.Index(None, "org_id", "event"),
)


MAX_TYPE_LENGTH: Final = 64
MAX_SUBJECT_LENGTH: Final = 64
MAX_DETAIL_LENGTH: Final = 200
MAX_TAKEN_LENGTH: Final = 400


class State(StrEnum):
    """READY: waits for its next attempt. SENDING: an attempt is in flight. All other states are final."""

    READY = "READY"
    SENDING = "SENDING"
    DONE = "DONE"
    DEAD = "DEAD"
    CANCELLED = "CANCELLED"


TERMINAL_STATES: Final = (State.DONE, State.DEAD, State.CANCELLED)

# A message to many channels is stored once, and deleted with its last delivery.
delivery_messages: Final = sa.Table(
    "delivery_messages",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("message", sa.Text, nullable=False),  # JSON of `message.Message`
)

deliveries: Final = sa.Table(
    "deliveries",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("channel_id", text(32), sa.ForeignKey("notification_channels.id"), nullable=False),
    sa.Column("type", text(MAX_TYPE_LENGTH), nullable=False),
    sa.Column("subject", text(MAX_SUBJECT_LENGTH), nullable=False),
    sa.Column("message_id", text(32), sa.ForeignKey("delivery_messages.id"), nullable=False),
    sa.Column("state", text(16), nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),  # attempts with a result
    sa.Column("max_attempts", sa.Integer, nullable=False),  # 1: a test
    sa.Column("claims", sa.Integer, nullable=False),  # identifies a claim; never decreases
    sa.Column("until", UtcTime),  # from then on, the message is obsolete and no attempt is made
    sa.Column("taken", text(MAX_TAKEN_LENGTH)),  # recipients that need no further attempt: `platforms.email`
    sa.Column("next_at", UtcTime),
    sa.Column("lease_until", UtcTime),
    sa.Column("attempted_at", UtcTime),  # start of the last attempt
    # The result of the last attempt. The next three columns describe a failure.
    sa.Column("detail", text(MAX_DETAIL_LENGTH)),
    sa.Column("failed", sa.Boolean, nullable=False),
    sa.Column("permanent", sa.Boolean, nullable=False),
    sa.Column("retry_after_s", sa.Integer),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("ended_at", UtcTime),
    enum_check("state", State),
    sa.CheckConstraint("(state = 'READY') = (next_at IS NOT NULL)", name="next_at"),
    sa.CheckConstraint("(state = 'SENDING') = (lease_until IS NOT NULL)", name="lease_until"),
    sa.Index(None, "state", "next_at"),
    sa.Index(None, "state", "channel_id", "next_at", "id"),
    sa.Index(None, "org_id", "id"),
    sa.Index(None, "org_id", "state", "id"),
    sa.Index(None, "org_id", "subject", "channel_id"),
    sa.Index(None, "channel_id", "id"),
    sa.Index(None, "message_id"),
    sa.Index(None, "ended_at"),
)
