"""Saved views of the page."""

import sqlalchemy as sa
from alembic import op

from chassis.db.database import UtcTime, text

revision = "0016"
down_revision = "0015"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "saved_views",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("project_id", sa.BigInteger, nullable=False),
        sa.Column("name", text(200), nullable=False),
        sa.Column("path", text(2_000), nullable=False),
        sa.Column("shared", sa.Boolean, nullable=False),
        sa.Column("created_by", text(32), nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_saved_views"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_saved_views_org_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_saved_views_project_id"),
        sa.ForeignKeyConstraint(["created_by"], ["principals.id"], name="fk_saved_views_created_by"),
    )
    op.create_index("ix_saved_views_org_id_created_by", "saved_views", ["org_id", "created_by"])
    op.create_index("ix_saved_views_project_id_id", "saved_views", ["project_id", "id"])
