"""Notification channels, and the deliveries that go to them."""

import sqlalchemy as sa
from alembic import op

from chassis.db.database import UtcTime, text

revision = "0005"
down_revision = "0004"
branch_labels = None
depends_on = None


def upgrade() -> None:
    _notification_channels()
    _delivery_messages()
    _deliveries()


def _notification_channels() -> None:
    op.create_table(
        "notification_channels",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("project_id", sa.BigInteger),
        sa.Column("name", text(200), nullable=False),
        sa.Column("kind", text(16), nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("config", sa.LargeBinary),
        sa.Column("off_reason", text(16)),
        sa.Column("failing_since", UtcTime),
        sa.Column("failed_at", UtcTime),
        sa.Column("created_by", text(32)),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("updated_at", UtcTime, nullable=False),
        sa.Column("deleted_at", UtcTime),
        sa.PrimaryKeyConstraint("id", name="pk_notification_channels"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_notification_channels_org_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_notification_channels_project_id"),
        sa.ForeignKeyConstraint(["created_by"], ["principals.id"], name="fk_notification_channels_created_by"),
        sa.CheckConstraint(
            "kind IN ('chat-a', 'chat-b', 'webhook', 'email', 'pager', 'teams')", name="ck_notification_channels_kind"
        ),
        sa.CheckConstraint("off_reason IN ('gone', 'failing')", name="ck_notification_channels_off_reason"),
        sa.CheckConstraint("(config IS NULL) = (deleted_at IS NOT NULL)", name="ck_notification_channels_config"),
    )
    op.create_index(
        "ix_notification_channels_org_id_project_id_id",
        "notification_channels",
        ["org_id", "project_id", "id"],
        sqlite_where=sa.text("deleted_at IS NULL"),
        postgresql_where=sa.text("deleted_at IS NULL"),
    )
    op.create_index(
        "ix_notification_channels_deleted_at",
        "notification_channels",
        ["deleted_at"],
        sqlite_where=sa.text("deleted_at IS NOT NULL"),
        postgresql_where=sa.text("deleted_at IS NOT NULL"),
    )


def _delivery_messages() -> None:
    op.create_table(
        "delivery_messages",
        sa.Column("id", text(32), nullable=False),
        sa.Column("message", sa.Text, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_delivery_messages"),
    )


def _deliveries() -> None:
    op.create_table(
        "deliveries",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("channel_id", text(32), nullable=False),
        sa.Column("type", text(64), nullable=False),
        sa.Column("subject", text(64), nullable=False),
        sa.Column("message_id", text(32), nullable=False),
        sa.Column("state", text(16), nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("max_attempts", sa.Integer, nullable=False),
        sa.Column("claims", sa.Integer, nullable=False),
        sa.Column("until", UtcTime),
        sa.Column("taken", text(400)),
        sa.Column("next_at", UtcTime),
        sa.Column("lease_until", UtcTime),
        sa.Column("attempted_at", UtcTime),
        sa.Column("detail", text(200)),
        sa.Column("failed", sa.Boolean, nullable=False),
        sa.Column("permanent", sa.Boolean, nullable=False),
        sa.Column("retry_after_s", sa.Integer),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("ended_at", UtcTime),
        sa.PrimaryKeyConstraint("id", name="pk_deliveries"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_deliveries_org_id"),
        sa.ForeignKeyConstraint(["channel_id"], ["notification_channels.id"], name="fk_deliveries_channel_id"),
        sa.ForeignKeyConstraint(["message_id"], ["delivery_messages.id"], name="fk_deliveries_message_id"),
        sa.CheckConstraint("state IN ('READY', 'SENDING', 'DONE', 'DEAD', 'CANCELLED')", name="ck_deliveries_state"),
        sa.CheckConstraint("(state = 'READY') = (next_at IS NOT NULL)", name="ck_deliveries_next_at"),
        sa.CheckConstraint("(state = 'SENDING') = (lease_until IS NOT NULL)", name="ck_deliveries_lease_until"),
    )
    op.create_index("ix_deliveries_state_next_at", "deliveries", ["state", "next_at"])
    op.create_index("ix_deliveries_state_channel_id_next_at_id", "deliveries", ["state", "channel_id", "next_at", "id"])
    op.create_index("ix_deliveries_org_id_id", "deliveries", ["org_id", "id"])
    op.create_index("ix_deliveries_org_id_state_id", "deliveries", ["org_id", "state", "id"])
    op.create_index("ix_deliveries_org_id_subject_channel_id", "deliveries", ["org_id", "subject", "channel_id"])
    op.create_index("ix_deliveries_channel_id_id", "deliveries", ["channel_id", "id"])
    op.create_index("ix_deliveries_message_id", "deliveries", ["message_id"])
    op.create_index("ix_deliveries_ended_at", "deliveries", ["ended_at"])
