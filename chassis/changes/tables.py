"""The table of change events."""

from enum import StrEnum
from typing import Final

import sqlalchemy as sa

from chassis.auth.tables import metadata
from chassis.db.database import UtcTime, enum_check, text
from proto.identity import MAX_URL_LENGTH

MAX_TITLE_LENGTH: Final = 200
MAX_DETAIL_LENGTH: Final = 2_000
MAX_NAME_LENGTH: Final = 200  # of an environment, a release, a service
MAX_SOURCE_LENGTH: Final = 64
MAX_DEDUPE_KEY_LENGTH: Final = 200


class ChangeKind(StrEnum):
    """What changed."""

    DEPLOYMENT = "deployment"
    RELEASE = "release"
    FLAG = "flag"
    GENERIC = "generic"


change_events: Final = sa.Table(
    "change_events",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("project_id", sa.BigInteger, sa.ForeignKey("projects.id")),  # NULL: of all projects
    sa.Column("kind", text(16), nullable=False),
    sa.Column("title", text(MAX_TITLE_LENGTH), nullable=False),
    sa.Column("detail", text(MAX_DETAIL_LENGTH)),
    sa.Column("at", UtcTime, nullable=False),
    sa.Column("environment", text(MAX_NAME_LENGTH)),
    sa.Column("release", text(MAX_NAME_LENGTH)),
    sa.Column("service", text(MAX_NAME_LENGTH)),
    sa.Column("url", text(MAX_URL_LENGTH)),
    sa.Column("source", text(MAX_SOURCE_LENGTH), nullable=False),  # `api`, or the platform that reported it
    sa.Column("dedupe_key", text(MAX_DEDUPE_KEY_LENGTH)),  # the sender's: reported again, it is the same event
    sa.Column("created_by", text(32), sa.ForeignKey("principals.id")),
    sa.Column("created_at", UtcTime, nullable=False),
    enum_check("kind", ChangeKind),
    sa.UniqueConstraint("org_id", "dedupe_key"),
    sa.Index(None, "org_id", "at", "id"),
    sa.Index(None, "project_id", "at", "id"),
)
