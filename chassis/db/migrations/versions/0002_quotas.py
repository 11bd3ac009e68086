"""The monthly quota of an organization, how much of it is used, and a rate of a project key's own."""

import sqlalchemy as sa
from alembic import op

from chassis.db.database import UtcTime, text

revision = "0002"
down_revision = "0001"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("organizations", sa.Column("monthly_items", sa.BigInteger, server_default="0", nullable=False))
    op.add_column("project_keys", sa.Column("rate", sa.Integer))
    op.create_table(
        "quota_usage",
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("month", text(7), nullable=False),
        sa.Column("items", sa.BigInteger, nullable=False),
        sa.Column("counted_at", UtcTime),
        sa.PrimaryKeyConstraint("org_id", "month", name="pk_quota_usage"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_quota_usage_org_id"),
    )
