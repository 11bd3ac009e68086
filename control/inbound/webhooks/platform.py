"""The interface that each sending platform implements for its webhooks, and the interface for applying its events."""

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
from control.inbound.integrations.tables import Integration, WebhookEndpoint
from proto.identity import MAX_URL_LENGTH, UNPRINTABLE

T = TypeVar("T")
E = TypeVar("E")
Headers = CIMultiDictProxy[str]
UNSTORABLE: Final = re.compile("[\x00\ud800-\udfff]")  # characters that a database cannot store
_UNPRINTABLE: Final = re.compile(rf"[{UNPRINTABLE}\s\ud800-\udfff]+")
_URL: Final = re.compile(URL_PATTERN)
_QUOTING: Final = "Invalid "  # for example an enum value, or the value of a tag
_PLACE: Final = " - at `"  # msgspec appends it


class PayloadError(Exception):
    """The signature is valid, but the body differs from the platform's documentation. The message is for the tenant,
    and quotes nothing of the body.
    """


class Platform(ABC, Generic[E]):
    """How a platform signs and names its events, and how their contents are parsed. Stateless."""

    def hook_id(self, headers: Headers) -> str | None:  # noqa: ARG002 (most platforms do not name it)
        """The webhook's id in a header. None if the platform sends none."""
        return None

    def delivery_id(self, headers: Headers) -> str | None:  # noqa: ARG002 (most platforms sign none)
        """The id of the event, if it is signed. A header proves nothing if only the body is signed."""
        return None

    @abstractmethod
    def verify(self, headers: Headers, body: bytes, endpoint: WebhookEndpoint, now: float) -> bool:
        """Whether the body is signed with a secret of the endpoint, and, if a time is signed, whether that time is
        current.
        """

    @abstractmethod
    def event_name(self, headers: Headers, body: bytes) -> str:
        """The platform's name of the event. Raises PayloadError."""

    @abstractmethod
    def parse(self, event: str, body: bytes, received_at: datetime) -> E:
        """Parse the contents of the event. This is called again when the event is processed again. Raises
        PayloadError.
        """

    def read(self, event: str, body: bytes, received_at: datetime) -> E | PayloadError:
        """The contents of the event, or why they cannot be parsed."""
        try:
            return self.parse(event, body, received_at)
        except PayloadError as error:
            return error


ApplyTogether = Callable[
    [AsyncConnection, Sequence[tuple[Integration, Any]], datetime], Awaitable[Sequence[msgspec.Struct | None]]
]


@dataclass(frozen=True, slots=True)
class WebhookSource:
    """A platform, and functions that apply its events. `apply` runs in a savepoint, and its answer is the result.

    `apply_together` applies many events of several integrations, with a result for each. The result is None for events
    that have to be applied one by one.
    """

    platform: Platform[Any]
    apply: Callable[[AsyncConnection, Integration, Any, datetime], Awaitable[msgspec.Struct]]
    apply_together: ApplyTogether | None = None


def header(headers: Headers, name: str) -> str | None:
    """The value of a header that must not be repeated. None if it is missing or repeated: Sluice does not guess which
    of two values the sender has signed.
    """
    values: Sequence[str] = headers.getall(name, ())
    return values[0] if len(values) == 1 else None


def decode(type_: type[T], body: bytes, event: str) -> T:
    """Decode the body as JSON of this type. Raises PayloadError."""
    try:
        return msgspec.json.decode(body, type=type_)
    except msgspec.ValidationError as error:
        raise PayloadError(f"The body is not a valid {event} event: {_place(error)}.") from None
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise PayloadError("The body is not valid JSON.") from None


def convert(type_: type[T], value: Any, event: str) -> T:
    """Convert a decoded value to this type. Raises PayloadError."""
    try:
        return msgspec.convert(value, type_)
    except (msgspec.ValidationError, RecursionError) as error:
        raise PayloadError(f"The body is not a valid {event} event: {_place(error)}.") from None


def clean_line(text: str | None, max_length: int) -> str | None:
    """A platform's text as one printable line of at most `most` characters. None if nothing is left."""
    if text is None:
        return None
    return _UNPRINTABLE.sub(" ", text[: 4 * max_length]).strip()[:max_length].strip() or None


def clean_url(text: str | None) -> str | None:
    """A platform's address. None if it is not an address, or is too long."""
    if text is None or len(text) > MAX_URL_LENGTH or UNSTORABLE.search(text):
        return None
    return text if _URL.match(text) else None


def _place(error: Exception) -> str:
    """The part of a msgspec message that names types and places, without the invalid value of an enumeration."""
    text = in_json_words(str(error))
    if text.startswith(_QUOTING):
        text = f"Invalid value{text[text.rindex(_PLACE) :] if _PLACE in text else ''}"
    return text if len(text) <= 200 and text.isprintable() else "a field has the wrong type"
