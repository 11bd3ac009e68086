"""Addresses from which accounts have logged in."""

import sqlalchemy as sa
from alembic import op

from chassis.db.database import UtcTime, text

revision = "0018"
down_revision = "0017"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "login_addresses",
        sa.Column("principal_id", text(32), nullable=False),
        sa.Column("address", text(32), nullable=False),
        sa.Column("used_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("principal_id", "address", name="pk_login_addresses"),
        sa.ForeignKeyConstraint(["principal_id"], ["users.principal_id"], name="fk_login_addresses_principal_id"),
    )
    op.create_index("ix_login_addresses_used_at", "login_addresses", ["used_at"])
