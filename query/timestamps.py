"""Times as integers of nanoseconds since 1970 (UTC): parsed from the usual notations, formatted as RFC 3339."""

import re
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Final

SECOND: Final = 10**9
MINUTE: Final = 60 * SECOND
HOUR: Final = 3600 * SECOND
MAX_NANOS: Final = 2**63 - 1  # 2262-04-11, the last DateTime64(9)

_UNITS: Final = {
    "ms": 10**6,
    "s": SECOND,
    "m": MINUTE,
    "h": HOUR,
    "d": 24 * HOUR,
    "w": 7 * 24 * HOUR,
}
# A "+" that nobody percent-encoded arrives as a space.
_RELATIVE: Final = re.compile(r"(?:now(?:([+\- ])([0-9]{1,9})(ms|s|m|h|d|w))?|(-)([0-9]{1,9})(ms|s|m|h|d|w))")
_EPOCH: Final = re.compile(r"[0-9]{1,19}(?:\.[0-9]{1,9})?")
_RFC3339: Final = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})"
    r"(?:[Tt ]([0-9]{2}):([0-9]{2})(?::([0-9]{2})(?:\.([0-9]{1,18}))?)?"
    r"([Zz]|[+\- ][0-9]{2}:?[0-9]{2})?)?"
)
# All accepted notations, for the API documentation.
TIMESTAMP_PATTERN: Final = f"^(?:{'|'.join(each.pattern for each in (_RELATIVE, _EPOCH, _RFC3339))})$"
_EPOCH_DAY: Final = date(1970, 1, 1).toordinal()


class TimestampError(ValueError):
    """The text is not a valid time; the message is meant for the client."""


def ceil_to_second(nanos: int) -> int:
    """Round up to a whole second."""
    return -(-nanos // SECOND) * SECOND


def parse_timestamp(text: str, now_ns: int) -> int:
    """Parse a time into nanoseconds since 1970. Raises TimestampError for anything else or outside 1970 to 2262.

    RFC 3339 (without an offset UTC; a date alone is its midnight; digits beyond the ninth of a fraction are dropped),
    `now`, `now-15m`, `-15m` (ms, s, m, h, d, w), or epoch seconds, milliseconds, microseconds or nanoseconds by
    magnitude.
    """
    nanos = _relative(text, now_ns)
    if nanos is None:
        nanos = _epoch(text)
    if nanos is None:
        nanos = _rfc3339(text)
    if nanos is None:
        raise TimestampError(
            "Must be a time: RFC 3339, Unix time (seconds, milliseconds, microseconds or nanoseconds), now or now-15m."
        )
    if not 0 <= nanos <= MAX_NANOS:
        raise TimestampError("Must be a time between the years 1970 and 2262.")
    return nanos


def format_timestamp(nanos: int) -> str:
    """RFC 3339 in UTC, always nine digits and `Z`: `2026-11-20T15:17:03.123456789Z`."""
    seconds, fraction = divmod(nanos, SECOND)
    moment = datetime.fromtimestamp(seconds, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{fraction:09d}Z"


def format_millis(nanos: int) -> str:
    """Milliseconds as a JSON number with six decimals, exact: 12345678 ns is `12.345678`. Not for negative values."""
    millis, fraction = divmod(nanos, 10**6)
    return f"{millis}.{fraction:06d}"


def _relative(text: str, now_ns: int) -> int | None:
    match = _RELATIVE.fullmatch(text)
    if match is None:
        return None
    sign, amount, unit = match[1] or match[4], match[2] or match[5], match[3] or match[6]
    if sign is None:
        return now_ns
    distance = int(amount) * _UNITS[unit]
    return now_ns - distance if sign == "-" else now_ns + distance


def _epoch(text: str) -> int | None:
    if _EPOCH.fullmatch(text) is None:
        return None
    number = Decimal(text)
    if number < 10**11:
        scale = SECOND
    elif number < 10**14:
        scale = 10**6
    elif number < 10**17:
        scale = 10**3
    else:
        scale = 1
    return int(number * scale)


def _rfc3339(text: str) -> int | None:
    match = _RFC3339.fullmatch(text)
    if match is None:
        return None
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    try:
        days = date(int(year), int(month), int(day)).toordinal() - _EPOCH_DAY
    except ValueError:
        return None
    offset = _offset(zone)
    # RFC 3339 allows a leap second; here it is the start of the next minute, as on every clock that steps.
    if int(hour or 0) > 23 or int(minute or 0) > 59 or int(second or 0) > 60 or offset is None:
        return None
    seconds = days * 86_400 + int(hour or 0) * 3600 + int(minute or 0) * 60 + int(second or 0) - offset
    return seconds * SECOND + int((fraction or "0")[:9].ljust(9, "0"))


def _offset(zone: str | None) -> int | None:
    """Seconds east of UTC; None for an impossible offset."""
    if zone is None or zone in "Zz":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[-2:])
    if hours > 23 or minutes > 59:
        return None
    seconds = hours * 3600 + minutes * 60
    return -seconds if zone[0] == "-" else seconds
