"""The table of events of platforms that serve the whole deployment: chats and payments."""

from enum import StrEnum
from typing import Final

import sqlalchemy as sa

from chassis.auth.tables import metadata
from chassis.db.database import UtcTime, enum_check, text

MAX_EVENT_ID_LENGTH: Final = 255


class EventSource(StrEnum):
    """The platform that sent an event."""

    CHAT_A = "chat-a"
    CHAT_B = "chat-b"
    PAYMENTS = "payments"


platform_events: Final = sa.Table(
    "platform_events",
    metadata,
    sa.Column("source", text(16), primary_key=True),
    sa.Column("event_id", text(MAX_EVENT_ID_LENGTH), primary_key=True),
    sa.Column("org_id", text(32), sa.ForeignKey("organizations.id")),  # that it concerns; NULL: none
    sa.Column("result", sa.JSON(none_as_null=True), nullable=False),  # the answer; a repetition gets it again
    sa.Column("received_at", UtcTime, nullable=False),
    enum_check("source", EventSource),
    sa.Index(None, "org_id"),
    sa.Index(None, "received_at"),
)
