"""The deletion that an erasure has begun, so that a deletion that is repeated after a crash counts once."""

import sqlalchemy as sa
from alembic import op

revision = "0020"
down_revision = "0019"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("erasures", sa.Column("pending_deletion", sa.JSON(none_as_null=True)))
