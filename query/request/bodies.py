"""What the JSON bodies of explore share."""

from decimal import Decimal
from typing import Annotated, Final

from aiohttp import web
from msgspec import Meta

from chassis.http.validation import read_json_bytes
from query.statements.window import TimeRange

MAX_BODY_BYTES: Final = 256 * 2**10  # bytes; twenty filters of a hundred values each fit

TimeInput = Annotated[
    str | int | float,
    Meta(description="A time: RFC 3339, Unix time in seconds to nanoseconds (string or number), `now`, or `now-15m`."),
]


def time_range(from_: TimeInput | None, to: TimeInput | None, hours: int | None = None) -> TimeRange:
    """The time range of a body, as written."""
    return TimeRange(_text(from_), _text(to), hours)


async def read_body(request: web.Request, timeout_s: float) -> bytes:
    """Read the body's bytes. Raises UnsupportedMediaType, PayloadTooLarge, BadRequest, in this order."""
    return await read_json_bytes(request, max_bytes=MAX_BODY_BYTES, timeout_s=timeout_s)


def _text(value: TimeInput | None) -> str | None:
    """As a query string would spell it."""
    if isinstance(value, float):
        return format(Decimal(repr(value)), "f")
    return None if value is None else str(value)
