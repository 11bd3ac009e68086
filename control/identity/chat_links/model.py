"""Chat users, and the links that let them act as a principal."""

from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from control.identity.chat_links.tables import ChatPlatform


class ChatUser(NamedTuple):
    """Somebody who writes in a chat. `team_id` is empty where the platform's users are global."""

    platform: ChatPlatform
    team_id: str
    user_id: str


@dataclass(frozen=True, slots=True)
class StoredChatLink:
    """A row of `chat_links`. `is_federated`: an identity provider had vouched for the session that made the code."""

    id: str
    org_id: str
    principal_id: str
    user: ChatUser
    is_federated: bool
    created_at: datetime
    last_used_at: datetime | None
