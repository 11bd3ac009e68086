"""What a platform that sends to an integration has to say of its webhooks, and what its events do."""

import re
from abc import ABC, abstractmethod
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final, Generic, TypeVar

import msgspec
from multidict import CIMultiDictProxy
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.http.validation import in_json_words
from control.http.field_types import URL_PATTERN
from control.inbound.integrations.tables import Hook, Integration
from proto.identity import MAX_URL_LENGTH, UNPRINTABLE

T = TypeVar("T")
E = TypeVar("E")
Headers = CIMultiDictProxy[str]
UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")  # in a database
_UNPRINTABLE: Final = re.compile(rf"[{UNPRINTABLE}\s\ud800-\udfff]+")
_URL: Final = re.compile(URL_PATTERN)
_QUOTING: Final = "Invalid "  # enum value, or value of a tag
_PLACE: Final = " - at `"  # msgspec appends it


class PayloadError(Exception):
    """The signature holds, but the body is not what the platform documents. The message is for the tenant, and quotes
    nothing of the body.
    """


class Platform(ABC, Generic[E]):
    """How a platform signs and names its events, and what they say. Stateless."""

    def hook_id(self, headers: Headers) -> str | None:  # noqa: ARG002 (most platforms do not name it)
        """How the platform names the webhook in a header; None if it does not."""
        return None

    def delivery_id(self, headers: Headers) -> str | None:  # noqa: ARG002 (most platforms sign none)
        """The id of the event, if it is signed; a header beside a signature of the body alone proves nothing."""
        return None

    @abstractmethod
    def verify(self, headers: Headers, body: bytes, hook: Hook, now: float) -> bool:
        """Whether the body is signed with a secret of the hook, now if a time is signed."""

    @abstractmethod
    def event_name(self, headers: Headers, body: bytes) -> str:
        """The platform's name of the event. Raises PayloadError."""

    @abstractmethod
    def parse(self, event: str, body: bytes, received_at: datetime) -> E:
        """What the event says, called again when it is processed again. Raises PayloadError."""

    def read(self, event: str, body: bytes, received_at: datetime) -> E | PayloadError:
        """What the event says, or why it cannot be read."""
        try:
            return self.parse(event, body, received_at)
        except PayloadError as error:
            return error


ApplyTogether = Callable[
    [AsyncConnection, Sequence[tuple[Integration, Any]], datetime], Awaitable[Sequence[msgspec.Struct | None]]
]


@dataclass(frozen=True, slots=True)
class WebhookSource:
    """A platform, and what its events do: `apply` in a savepoint, with the answer as its result.

    `apply_together` does so for many of them, which integrations have sent, with a result for each; None for those that
    are to be applied one by one.
    """

    platform: Platform[Any]
    apply: Callable[[AsyncConnection, Integration, Any, datetime], Awaitable[msgspec.Struct]]
    apply_together: ApplyTogether | None = None


def header(headers: Headers, name: str) -> str | None:
    """The value of a header that must not be repeated; None if it is missing or repeated: which one of two the sender
    has signed is not to be guessed.
    """
    values: Sequence[str] = headers.getall(name, ())
    return values[0] if len(values) == 1 else None


def decode(type_: type[T], body: bytes, event: str) -> T:
    """The body as JSON of this type. Raises PayloadError."""
    try:
        return msgspec.json.decode(body, type=type_)
    except msgspec.ValidationError as error:
        raise PayloadError(f"The body is not that of the event {event}: {_place(error)}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise PayloadError("The body is not valid JSON.") from None


def convert(type_: type[T], value: Any, event: str) -> T:
    """A decoded value as this type. Raises PayloadError."""
    try:
        return msgspec.convert(value, type_)
    except (msgspec.ValidationError, RecursionError) as error:
        raise PayloadError(f"The body is not that of the event {event}: {_place(error)}.") from None


def clean_line(text: str | None, max_length: int) -> str | None:
    """A platform's text as one printable line of at most so many characters; None if nothing is left."""
    if text is None:
        return None
    return _UNPRINTABLE.sub(" ", text[: 4 * max_length]).strip()[:max_length].strip() or None


def clean_url(text: str | None) -> str | None:
    """A platform's address; None for what is none, or is too long."""
    if text is None or len(text) > MAX_URL_LENGTH or UNSTORABLE.search(text):
        return None
    return text if _URL.match(text) else None


def _place(error: Exception) -> str:
    """What msgspec says of types and places, without the value that is none of an enumeration."""
    text = in_json_words(str(error))
    if text.startswith(_QUOTING):
        text = f"Invalid value{text[text.rindex(_PLACE) :] if _PLACE in text else ''}"
    return text if len(text) <= 200 and text.isprintable() else "a field has another type"
