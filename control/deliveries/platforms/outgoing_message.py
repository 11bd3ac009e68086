"""What every kind is given, and cutting texts to length."""

from dataclasses import dataclass, field
from datetime import datetime
from typing import Final

from control.message import Message

_ELLIPSIS: Final = "…"


@dataclass(frozen=True, slots=True)
class OutgoingMessage:
    """A message on its way: the id of its delivery (the same over all attempts), when it came to be, now, which of
    several recipients need it no more (as `Outcome.taken` said), and whose it is.
    """

    id: str
    message: Message
    created_at: datetime
    now: datetime
    recipient_progress: str = ""
    org_id: str = ""


@dataclass(frozen=True, slots=True)
class HttpRequest:
    """What is posted."""

    url: str
    body: bytes
    headers: dict[str, str] = field(default_factory=dict)


def truncate(text: str, length: int) -> str:
    """At most `length` characters; what was cut ends with an ellipsis."""
    return text if len(text) <= length else text[: length - len(_ELLIPSIS)].rstrip() + _ELLIPSIS


def one_line(text: str) -> str:
    """Without line breaks and other control characters."""
    return " ".join("".join(character if character.isprintable() else " " for character in text).split())
