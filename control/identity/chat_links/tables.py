"""The tables of links of chat users to principals, and of the codes that make them."""

from enum import StrEnum
from typing import Final

import sqlalchemy as sa

from chassis.auth.tables import metadata
from chassis.db.database import UtcTime, enum_check, text

MAX_PLATFORM_ID_LENGTH: Final = 64


class ChatPlatform(StrEnum):
    """A chat platform, by the neutral names of the specification."""

    CHAT_A = "chat-a"
    CHAT_B = "chat-b"


chat_links: Final = sa.Table(
    "chat_links",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("principal_id", text(32), sa.ForeignKey("principals.id"), nullable=False),
    sa.Column("platform", text(16), nullable=False),
    sa.Column("team_id", text(MAX_PLATFORM_ID_LENGTH), nullable=False),  # the workspace; empty where users are global
    sa.Column("user_id", text(MAX_PLATFORM_ID_LENGTH), nullable=False),
    # Whether an identity provider had vouched for the session that made the code.
    sa.Column("is_federated", sa.Boolean, nullable=False),
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("last_used_at", UtcTime),
    enum_check("platform", ChatPlatform),
    sa.UniqueConstraint("platform", "team_id", "user_id"),
    sa.Index(None, "org_id", "principal_id"),
    sa.Index(None, "principal_id"),
)

chat_link_codes: Final = sa.Table(
    "chat_link_codes",
    metadata,
    sa.Column("hash", sa.LargeBinary(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("principal_id", text(32), sa.ForeignKey("principals.id"), nullable=False),
    sa.Column("session_id", text(32), nullable=False),  # the code ends with it
    sa.Column("created_at", UtcTime, nullable=False),
    sa.Column("expires_at", UtcTime, nullable=False),
    sa.Index(None, "org_id"),
    sa.Index(None, "principal_id"),
    sa.Index(None, "expires_at"),
)
