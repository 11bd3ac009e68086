"""The table of saved views."""

from typing import Final

import sqlalchemy as sa

from chassis.auth.tables import metadata
from chassis.db.database import UtcTime, text
from proto.identity import MAX_NAME_LENGTH

MAX_PATH_LENGTH: Final = 2_000

saved_views: Final = sa.Table(
    "saved_views",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("project_id", sa.BigInteger, sa.ForeignKey("projects.id"), nullable=False),
    sa.Column("name", text(MAX_NAME_LENGTH), nullable=False),
    sa.Column("path", text(MAX_PATH_LENGTH), nullable=False),
    sa.Column("shared", sa.Boolean, nullable=False),
    sa.Column("created_by", text(32), sa.ForeignKey("principals.id"), nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Index(None, "org_id", "created_by"),
    sa.Index(None, "project_id", "id"),
)
