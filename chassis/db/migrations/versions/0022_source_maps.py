"""Source maps, and for each project a number that changes with them."""

import sqlalchemy as sa
from alembic import op

from chassis.db.database import UtcTime, text

revision = "0022"
down_revision = "0021"
branch_labels = None
depends_on = None


def upgrade() -> None:
    op.add_column("projects", sa.Column("source_maps_revision", sa.BigInteger, server_default="0", nullable=False))
    op.create_table(
        "source_maps",
        sa.Column("id", text(32), nullable=False),
        sa.Column("org_id", text(32), nullable=False),
        sa.Column("project_id", sa.BigInteger, nullable=False),
        sa.Column("release", text(200), nullable=False),
        sa.Column("path", text(1_024), nullable=False),
        sa.Column("debug_id", text(36)),
        sa.Column("digest", sa.LargeBinary(32), nullable=False),
        sa.Column("size", sa.BigInteger, nullable=False),
        sa.Column("created_by", text(32)),
        sa.Column("created_at", UtcTime, nullable=False),
        sa.Column("content", sa.LargeBinary, nullable=False),
        sa.PrimaryKeyConstraint("id", name="pk_source_maps"),
        sa.ForeignKeyConstraint(["org_id"], ["organizations.id"], name="fk_source_maps_org_id"),
        sa.ForeignKeyConstraint(["project_id"], ["projects.id"], name="fk_source_maps_project_id"),
        sa.ForeignKeyConstraint(["created_by"], ["principals.id"], name="fk_source_maps_created_by"),
        sa.UniqueConstraint("project_id", "release", "path", name="uq_source_maps_project_id_release_path"),
    )
    op.create_index("ix_source_maps_org_id", "source_maps", ["org_id"])
    op.create_index("ix_source_maps_project_id_id", "source_maps", ["project_id", "id"])
