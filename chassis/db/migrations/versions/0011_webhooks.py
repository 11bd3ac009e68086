"""Integrations and what they deliver; chat users; subscriptions; what a merge means for issues of a project."""

import sqlalchemy as sa
from alembic import op

from chassis.db.database import UtcTime, text

revision = "0011"
down_revision = "0010"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("projects", sa.Column("resolve_on_merge", text(16), server_default="next_release", nullable=False))
    op.add_column("issue_links", sa.Column("changed_at", UtcTime))
    op.add_column("commits", sa.Column("default_branch_at", UtcTime))
    op.create_index("ix_commits_org_id_default_branch_at", "commits", ["org_id", "default_branch_at"])
    _integrations()
    _inbound_deliveries()
    _chat_links()
    _chat_link_codes()
    _chat_updates()
    _subscriptions()
    _platform_events()


def _integrations() -> None:
    op.create_table(
        "integrations",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("kind", text(16), nullable=False),
        sa.Column("name", text(200), nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("config", sa.JSON, nullable=False),
        sa.Column("hook_id", text(128)),
        sa.Column("secret", sa.LargeBinary, nullable=False),
        sa.Column("previous_secret", sa.LargeBinary),
        sa.Column("previous_secret_until", UtcTime),
        sa.Column("version", sa.Integer, nullable=False),
        sa.Column("created_by", text(32)),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("updated_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_integrations"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_integrations_org_id"),
        sa.ForeignKeyConstraint(["created_by"], ["principals.id"], name="fk_integrations_created_by"),
        sa.CheckConstraint(
            "kind IN ('github', 'gitlab', 'bitbucket', 'gitea', 'forgejo', 'linear', 'jira', 'pagerduty', 'generic')",
            name="ck_integrations_kind",
        ),
        sa.CheckConstraint(
            "(previous_secret IS NULL) = (previous_secret_until IS NULL)", name="ck_integrations_previous_secret"
        ),
    )
    op.create_index("ix_integrations_org_id_id", "integrations", ["org_id", "id"])
    op.create_index("ix_integrations_hook_id", "integrations", ["hook_id"])


def _inbound_deliveries() -> None:
    op.create_table(
        "inbound_deliveries",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("integration_id", text(32), nullable=False),
        sa.Column("delivery_key", text(128), nullable=False),
        sa.Column("event", text(100), nullable=False),
        sa.Column("status", text(16), nullable=False),
        sa.Column("result", sa.JSON),
        sa.Column("error", text(500)),
        sa.Column("body", sa.LargeBinary),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("received_at", UtcTime, nullable=False),
        sa.Column("processed_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_inbound_deliveries"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_inbound_deliveries_org_id"),
        sa.ForeignKeyConstraint(
            ["integration_id"],
            ["integrations.id"],
            name="fk_inbound_deliveries_integration_id",
            ondelete="CASCADE",
        ),
        sa.UniqueConstraint("integration_id", "delivery_key", name="uq_inbound_deliveries_integration_id_delivery_key"),
        sa.CheckConstraint("status IN ('processed', 'failed')", name="ck_inbound_deliveries_status"),
    )
    op.create_index("ix_inbound_deliveries_integration_id_id", "inbound_deliveries", ["integration_id", "id"])
    op.create_index("ix_inbound_deliveries_org_id", "inbound_deliveries", ["org_id"])
    op.create_index("ix_inbound_deliveries_received_at", "inbound_deliveries", ["received_at"])


def _chat_links() -> None:
    op.create_table(
        "chat_links",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("principal_id", text(32), nullable=False),
        sa.Column("platform", text(16), nullable=False),
        sa.Column("team_id", text(64), nullable=False),
        sa.Column("user_id", text(64), nullable=False),
        sa.Column("is_federated", sa.Boolean, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("last_used_at", UtcTime),
        sa.PrimaryKeyConstraint("id", name="pk_chat_links"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_chat_links_org_id"),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name="fk_chat_links_principal_id"),
        sa.UniqueConstraint("platform", "team_id", "user_id", name="uq_chat_links_platform_team_id_user_id"),
        sa.CheckConstraint("platform IN ('chat-a', 'chat-b')", name="ck_chat_links_platform"),
    )
    op.create_index("ix_chat_links_org_id_principal_id", "chat_links", ["org_id", "principal_id"])
    op.create_index("ix_chat_links_principal_id", "chat_links", ["principal_id"])


def _chat_link_codes() -> None:
    op.create_table(
        "chat_link_codes",
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("principal_id", text(32), nullable=False),
        sa.Column("session_id", text(32), nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("expires_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("hash", name="pk_chat_link_codes"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_chat_link_codes_org_id"),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name="fk_chat_link_codes_principal_id"),
    )
    op.create_index("ix_chat_link_codes_org_id", "chat_link_codes", ["org_id"])
    op.create_index("ix_chat_link_codes_principal_id", "chat_link_codes", ["principal_id"])
    op.create_index("ix_chat_link_codes_expires_at", "chat_link_codes", ["expires_at"])


def _chat_updates() -> None:
    op.create_table(
        "chat_updates",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("platform", text(16), nullable=False),
        sa.Column("url", sa.LargeBinary, nullable=False),
        sa.Column("body", sa.JSON, nullable=False),
        sa.Column("attempts", sa.Integer, nullable=False),
        sa.Column("next_attempt_at", UtcTime, nullable=False),
        sa.Column("expires_at", UtcTime, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_chat_updates"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_chat_updates_org_id"),
        sa.CheckConstraint("platform IN ('chat-a', 'chat-b')", name="ck_chat_updates_platform"),
    )
    op.create_index("ix_chat_updates_next_attempt_at", "chat_updates", ["next_attempt_at"])
    op.create_index("ix_chat_updates_org_id", "chat_updates", ["org_id"])


def _subscriptions() -> None:
    op.create_table(
        "subscriptions",
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("customer_id", text(255), nullable=False),
        sa.Column("subscription_id", text(255)),
        sa.Column("plan", text(64)),
        sa.Column("status", text(32)),
        sa.Column("monthly_items", sa.BigInteger),
        sa.Column("current_period_end", UtcTime),
        sa.Column("changed_at", UtcTime),
        sa.Column("last_event_id", text(255)),
        sa.Column("histories", sa.JSON),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("updated_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("org_id", name="pk_subscriptions"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_subscriptions_org_id"),
        sa.UniqueConstraint("customer_id", name="uq_subscriptions_customer_id"),
    )


def _platform_events() -> None:
    op.create_table(
        "platform_events",
        sa.Column("source", text(16), nullable=False),
        sa.Column("event_id", text(255), nullable=False),
        sa.Column("org_id", text(32)),
        sa.Column("result", sa.JSON, nullable=False),
        sa.Column("received_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("source", "event_id", name="pk_platform_events"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_platform_events_org_id"),
        sa.CheckConstraint("source IN ('chat-a', 'chat-b', 'payments')", name="ck_platform_events_source"),
    )
    op.create_index("ix_platform_events_org_id", "platform_events", ["org_id"])
    op.create_index("ix_platform_events_received_at", "platform_events", ["received_at"])
