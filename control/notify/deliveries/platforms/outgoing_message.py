"""What every platform adapter gets, and helpers that truncate texts."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from control.notify.message import Message

_ELLIPSIS: Final = "…"


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """A message to send: the id of its delivery (the same in every attempt), when it was created, the current time, the
    marks of recipients that need no further attempt (`AttemptResult.recipient_progress`), and its organization.
    """

    id: str
    message: Message
    created_at: datetime
    now: datetime
    recipient_progress: str = ""
    org_id: str = ""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """The URL, body and headers of a POST."""

    url: str
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


def truncate(text: str, length: int) -> str:
    """At most `length` characters; a truncated text ends with an ellipsis."""
    return text if len(text) <= length else text[: length - len(_ELLIPSIS)].rstrip() + _ELLIPSIS


def one_line(text: str) -> str:
    """The text without line breaks and other control characters."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())
