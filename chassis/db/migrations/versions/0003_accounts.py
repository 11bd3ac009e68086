"""Users who log in, their sessions and second factor, invitations, tokens that act for somebody, keys that sign."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from chassis.db.database import UtcTime, text

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def _json() -> sa.types.TypeEngine[Any]:
    return sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    op.add_column("access_tokens", sa.Column("minted_with", text(32)))
    op.create_index("ix_access_tokens_org_id_minted_with", "access_tokens", ["org_id", "minted_with"])
    _users()
    _recovery_codes()
    _invitations()
    _sessions()
    _refresh_tokens()
    _delegations()
    _signing_keys()


def _users() -> None:
    op.create_table(
        "users",
        sa.Column("principal_id", text(32), nullable=False),
        sa.Column("email", text(254), nullable=False),
        sa.Column("email_verified", sa.Boolean, nullable=False),
        sa.Column("password_hash", text(200)),
        sa.Column("totp_secret", sa.LargeBinary(512)),
        sa.Column("totp_confirmed_at", UtcTime),
        sa.Column("totp_step", sa.BigInteger),
        sa.Column("locale", text(35), nullable=False),
        sa.Column("theme", text(16), nullable=False),
        sa.Column("avatar_url", text(2048)),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("principal_id", name="pk_users"),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name="fk_users_principal_id"),
        sa.UniqueConstraint("email", name="uq_users_email"),
    )


def _recovery_codes() -> None:
    op.create_table(
        "recovery_codes",
        sa.Column("principal_id", text(32), nullable=False),
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        sa.Column("used_at", UtcTime),
        sa.PrimaryKeyConstraint("principal_id", "hash", name="pk_recovery_codes"),
        sa.ForeignKeyConstraint(["principal_id"], ["users.principal_id"], name="fk_recovery_codes_principal_id"),
    )


def _invitations() -> None:
    op.create_table(
        "invitations",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("email", text(254), nullable=False),
        sa.Column("role", text(16), nullable=False),
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        sa.Column("created_by", text(32), nullable=False),
        sa.Column("minted_with", text(32)),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("expires_at", UtcTime, nullable=False),
        sa.Column("accepted_at", UtcTime),
        sa.Column("accepted_by", text(32)),
        sa.Column("revoked_at", UtcTime),
        sa.PrimaryKeyConstraint("id", name="pk_invitations"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_invitations_org_id"),
        sa.ForeignKeyConstraint(["created_by"], ["principals.id"], name="fk_invitations_created_by"),
        sa.ForeignKeyConstraint(["minted_with"], ["access_tokens.id"], name="fk_invitations_minted_with"),
        sa.ForeignKeyConstraint(["accepted_by"], ["principals.id"], name="fk_invitations_accepted_by"),
        sa.UniqueConstraint("hash", name="uq_invitations_hash"),
        sa.CheckConstraint("role IN ('VIEWER', 'BILLING', 'MEMBER', 'ADMIN', 'OWNER')", name="ck_invitations_role"),
    )
    op.create_index("ix_invitations_org_id_id", "invitations", ["org_id", "id"])
    op.create_index("ix_invitations_minted_with", "invitations", ["minted_with"])


def _sessions() -> None:
    op.create_table(
        "sessions",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("principal_id", text(32), nullable=False),
        sa.Column("methods", _json(), nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("expires_at", UtcTime, nullable=False),
        sa.Column("revoked_at", UtcTime),
        sa.PrimaryKeyConstraint("id", name="pk_sessions"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_sessions_org_id"),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name="fk_sessions_principal_id"),
    )
    op.create_index("ix_sessions_principal_id_org_id", "sessions", ["principal_id", "org_id"])


def _refresh_tokens() -> None:
    op.create_table(
        "refresh_tokens",
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        sa.Column("session_id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("expires_at", UtcTime, nullable=False),
        sa.Column("used_at", UtcTime),
        sa.PrimaryKeyConstraint("hash", name="pk_refresh_tokens"),
        sa.ForeignKeyConstraint(["session_id"], ["sessions.id"], name="fk_refresh_tokens_session_id"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_refresh_tokens_org_id"),
    )
    op.create_index("ix_refresh_tokens_session_id", "refresh_tokens", ["session_id"])


def _delegations() -> None:
    op.create_table(
        "delegations",
        sa.Column("token_id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("subject_id", text(32), nullable=False),
        sa.Column("chain", _json(), nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("token_id", name="pk_delegations"),
        sa.ForeignKeyConstraint(["token_id"], ["access_tokens.id"], name="fk_delegations_token_id"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_delegations_org_id"),
        sa.ForeignKeyConstraint(["subject_id"], ["principals.id"], name="fk_delegations_subject_id"),
    )


def _signing_keys() -> None:
    op.create_table(
        "signing_keys",
        sa.Column("kid", text(64), nullable=False),
        sa.Column("public_key", sa.LargeBinary(32), nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("seen_at", UtcTime, nullable=False),
        sa.Column("withdrawn_at", UtcTime),
        sa.PrimaryKeyConstraint("kid", name="pk_signing_keys"),
    )
