"""Keys of attributes that a project exempts from scrubbing by key."""

import sqlalchemy as sa
from alembic import op
from sqlalchemy.dialects.postgresql import JSONB

revision = "0017"
down_revision = "0016"
branch_labels = None
depends_on = None


def upgrade() -> None:
    keys = sa.JSON().with_variant(JSONB(), "postgresql")
    op.add_column("projects", sa.Column("exempt_keys", keys, server_default="[]", nullable=False))
