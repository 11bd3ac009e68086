"""Organizations, projects, project keys, principals, memberships, personal access tokens."""

from typing import Any

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

from chassis.db.database import UtcTime, text

revision = "0001"
down_revision = None
branch_labels = None
depends_on = None


def _json() -> sa.types.TypeEngine[Any]:
    return sa.JSON(none_as_null=True).with_variant(JSONB(none_as_null=True), "postgresql")


def upgrade() -> None:
    _organizations()
    _projects()
    _principals()
    _project_keys()
    _memberships()
    _access_tokens()


def _organizations() -> None:
    op.create_table(
        "organizations",
        sa.Column("id", text(32), nullable=False),
        sa.Column("slug", text(64), nullable=False),
        sa.Column("name", text(200), nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_organizations"),
        sa.UniqueConstraint("slug", name="uq_organizations_slug"),
    )


def _projects() -> None:
    op.create_table(
        "projects",
        sa.Column("id", sa.BigInteger, autoincrement=False, nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("slug", text(64), nullable=False),
        sa.Column("name", text(200), nullable=False),
        sa.Column("sensitive_words", _json(), nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_projects"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_projects_org_id"),
        sa.UniqueConstraint("org_id", "slug", name="uq_projects_org_id_slug"),
    )


def _principals() -> None:
    op.create_table(
        "principals",
        sa.Column("id", text(32), nullable=False),
        sa.Column("kind", text(16), nullable=False),
        sa.Column("name", text(200), nullable=False),
        sa.Column("owner_id", text(32)),
        sa.Column("disabled_at", UtcTime),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_principals"),
        sa.ForeignKeyConstraint(["owner_id"], ["principals.id"], name="fk_principals_owner_id"),
        sa.CheckConstraint("kind IN ('user', 'agent', 'service')", name="ck_principals_kind"),
        sa.CheckConstraint("(kind = 'user') = (owner_id IS NULL)", name="ck_principals_owner"),
    )
    op.create_index("ix_principals_owner_id", "principals", ["owner_id"])


def _project_keys() -> None:
    op.create_table(
        "project_keys",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("project_id", sa.BigInteger, nullable=False),
        sa.Column("name", text(200), nullable=False),
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        sa.Column("hint", text(8), nullable=False),
        sa.Column("enabled", sa.Boolean, nullable=False),
        sa.Column("revoked_at", UtcTime),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("created_by", text(32)),
        sa.PrimaryKeyConstraint("id", name="pk_project_keys"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_project_keys_org_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_project_keys_project_id"),
        sa.ForeignKeyConstraint(["created_by"], ["principals.id"], name="fk_project_keys_created_by"),
        sa.UniqueConstraint("hash", name="uq_project_keys_hash"),
    )
    op.create_index("ix_project_keys_project_id_id", "project_keys", ["project_id", "id"])


def _memberships() -> None:
    op.create_table(
        "memberships",
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("principal_id", text(32), nullable=False),
        sa.Column("role", text(16), nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("org_id", "principal_id", name="pk_memberships"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_memberships_org_id"),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name="fk_memberships_principal_id"),
        sa.CheckConstraint("role IN ('VIEWER', 'BILLING', 'MEMBER', 'ADMIN', 'OWNER')", name="ck_memberships_role"),
    )
    op.create_index("ix_memberships_principal_id", "memberships", ["principal_id"])


def _access_tokens() -> None:
    op.create_table(
        "access_tokens",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("principal_id", text(32), nullable=False),
        sa.Column("name", text(200), nullable=False),
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        sa.Column("hint", text(8), nullable=False),
        sa.Column("scopes", _json()),
        sa.Column("expires_at", UtcTime),
        sa.Column("last_used_at", UtcTime),
        sa.Column("revoked_at", UtcTime),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_access_tokens"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_access_tokens_org_id"),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name="fk_access_tokens_principal_id"),
        sa.UniqueConstraint("hash", name="uq_access_tokens_hash"),
    )
    op.create_index("ix_access_tokens_org_id_principal_id_id", "access_tokens", ["org_id", "principal_id", "id"])
