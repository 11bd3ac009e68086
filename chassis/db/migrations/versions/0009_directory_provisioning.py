"""Directory provisioning: tokens, settings, users and groups of SCIM; members whom a directory manages."""

import sqlalchemy as sa
from alembic import op

from chassis.db.database import UtcTime, text

revision = "0009"
down_revision = "0008"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("memberships", sa.Column("managed", sa.Boolean, server_default=sa.false(), nullable=False))
    _tokens()
    _settings()
    _users()
    _user_emails()
    _groups()
    _group_members()


def _tokens() -> None:
    op.create_table(
        "scim_tokens",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("name", text(200), nullable=False),
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        sa.Column("hint", text(8), nullable=False),
        sa.Column("created_by", text(32), nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("expires_at", UtcTime),
        sa.Column("last_used_at", UtcTime),
        sa.Column("revoked_at", UtcTime),
        sa.PrimaryKeyConstraint("id", name="pk_scim_tokens"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_scim_tokens_org_id"),
        sa.ForeignKeyConstraint(["created_by"], ["principals.id"], name="fk_scim_tokens_created_by"),
        sa.UniqueConstraint("hash", name="uq_scim_tokens_hash"),
    )
    op.create_index("ix_scim_tokens_org_id_id", "scim_tokens", ["org_id", "id"])


def _settings() -> None:
    op.create_table(
        "scim_settings",
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("successor_id", text(32)),
        sa.Column("updated_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("org_id", name="pk_scim_settings"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_scim_settings_org_id"),
        sa.ForeignKeyConstraint(["successor_id"], ["principals.id"], name="fk_scim_settings_successor_id"),
    )


def _users() -> None:
    op.create_table(
        "scim_users",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("principal_id", text(32)),
        sa.Column("owns_account", sa.Boolean, nullable=False),
        sa.Column("user_name", text(1_024), nullable=False),
        sa.Column("external_id", text(256)),
        sa.Column("active", sa.Boolean, nullable=False),
        sa.Column("display_name", text(1_024)),
        sa.Column("family_name", text(1_024)),
        sa.Column("given_name", text(1_024)),
        sa.Column("document", sa.JSON, nullable=False),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("updated_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_scim_users"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_scim_users_org_id"),
        sa.ForeignKeyConstraint(["principal_id"], ["users.principal_id"], name="fk_scim_users_principal_id"),
        sa.UniqueConstraint("org_id", "user_name", name="uq_scim_users_org_id_user_name"),
        sa.UniqueConstraint("org_id", "principal_id", name="uq_scim_users_org_id_principal_id"),
    )
    op.create_index("ix_scim_users_org_id_id", "scim_users", ["org_id", "id"])
    op.create_index("ix_scim_users_org_id_external_id", "scim_users", ["org_id", "external_id"])
    op.create_index("ix_scim_users_org_id_display_name", "scim_users", ["org_id", "display_name"])
    op.create_index("ix_scim_users_principal_id", "scim_users", ["principal_id"])


def _user_emails() -> None:
    op.create_table(
        "scim_user_emails",
        sa.Column("user_id", text(32), nullable=False),
        sa.Column("position", sa.Integer, nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("value", text(1_024)),
        sa.Column("type", text(1_024)),
        sa.Column("is_primary", sa.Boolean),
        sa.PrimaryKeyConstraint("user_id", "position", name="pk_scim_user_emails"),
        _cascade("scim_user_emails", "user_id", "scim_users"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_scim_user_emails_org_id"),
    )
    op.create_index("ix_scim_user_emails_value_org_id", "scim_user_emails", ["value", "org_id"])


def _groups() -> None:
    op.create_table(
        "scim_groups",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("display_name", text(256), nullable=False),
        sa.Column("display_name_folded", text(1_024), nullable=False),
        sa.Column("external_id", text(256)),
        sa.Column("version", sa.BigInteger, nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("updated_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_scim_groups"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_scim_groups_org_id"),
    )
    op.create_index("ix_scim_groups_org_id_id", "scim_groups", ["org_id", "id"])
    op.create_index("ix_scim_groups_org_id_display_name_folded", "scim_groups", ["org_id", "display_name_folded"])
    op.create_index("ix_scim_groups_org_id_external_id", "scim_groups", ["org_id", "external_id"])


def _group_members() -> None:
    op.create_table(
        "scim_group_members",
        sa.Column("group_id", text(32), nullable=False),
        sa.Column("user_id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.PrimaryKeyConstraint("group_id", "user_id", name="pk_scim_group_members"),
        _cascade("scim_group_members", "group_id", "scim_groups"),
        _cascade("scim_group_members", "user_id", "scim_users"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_scim_group_members_org_id"),
    )
    op.create_index("ix_scim_group_members_user_id", "scim_group_members", ["user_id"])
    op.create_index("ix_scim_group_members_org_id", "scim_group_members", ["org_id"])


def _cascade(table: str, column: str, target: str) -> sa.ForeignKeyConstraint:
    return sa.ForeignKeyConstraint([column], [f"{target}.id"], name=f"fk_{table}_{column}", ondelete="CASCADE")
