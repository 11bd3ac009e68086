"""One-time codes with which a browser logs in."""

import sqlalchemy as sa
from alembic import op

from chassis.db.database import UtcTime, text

revision = "0015"
down_revision = "0014"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.create_table(
        "login_codes",
        sa.Column("hash", sa.LargeBinary(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("principal_id", text(32), nullable=False),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("expires_at", UtcTime, nullable=False),
        sa.PrimaryKeyConstraint("hash", name="pk_login_codes"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_login_codes_org_id"),
        sa.ForeignKeyConstraint(["principal_id"], ["principals.id"], name="fk_login_codes_principal_id"),
    )
    for column in ("org_id", "principal_id", "expires_at"):
        op.create_index(f"ix_login_codes_{column}", "login_codes", [column])
