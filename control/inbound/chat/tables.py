"""The table of messages to replace or add in chats."""

from typing import Final

import sqlalchemy as sa

from chassis.auth.tables import metadata
from chassis.db.database import UtcTime, enum_check, text
from control.identity.chat_links import ChatPlatform

# Sent after the answer, through a URL that the platform gave with the request.
chat_updates: Final = sa.Table(
    "chat_updates",
    metadata,
    sa.Column("id", text(32), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id"), nullable=False),
    sa.Column("platform", text(16), nullable=False),
    sa.Column("url", sa.LargeBinary, info={"sealed": True}, nullable=False),  # who has it may post
    sa.Column("body", sa.JSON(none_as_null=True), nullable=False),
    sa.Column("attempts", sa.Integer, nullable=False),
    sa.Column("next_attempt_at", UtcTime, nullable=False),
    sa.Column("expires_at", UtcTime, nullable=False),  # the platform takes nothing at the URL from then on
    sa.Column("created_at", UtcTime, nullable=False),
    enum_check("platform", ChatPlatform),
    sa.Index(None, "next_attempt_at"),
    sa.Index(None, "org_id"),
)
