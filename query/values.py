"""Values in requests and responses: times, and the types of fields.

Times are integers of nanoseconds since 1970 (UTC): parsed from the usual notations, formatted as RFC 3339.

Some numbers are spliced into the JSON as text, which keeps every digit, while `float` would not. Such a field is a
`msgspec.Raw`, annotated with the schema of its JSON.

Stored texts are converted with their type letters (docs/codec.md 2) back to JSON, so that each value is shown as it was
sent. Numbers and nested values are spliced in as text: a 64-bit integer keeps every digit, and `200.0` stays a double.
"""

import re
from collections.abc import Mapping
from datetime import UTC, date, datetime
from decimal import Decimal
from functools import lru_cache
from typing import Annotated, Any, Final

import msgspec

from proto.storage.attribute_encoding import parse_attributes
from query.rows import SPAN_KINDS, STATUS_CODES, AttributeColumns

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
# A "+" that was not percent-encoded arrives as a space.
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
    """The text is not a valid time. The message is meant for the client."""


def ceil_to_second(nanos: int) -> int:
    """Round up to a whole second."""
    return -(-nanos // SECOND) * SECOND


def parse_timestamp(text: str, now_ns: int) -> int:
    """Parse a time into nanoseconds since 1970. Raises TimestampError for other texts and for times outside 1970 to
    2262.

    Accepts RFC 3339 (a time without an offset is UTC, a date without a time is its midnight, and digits after the ninth
    of a fraction are dropped), `now`, `now-15m`, `-15m` (ms, s, m, h, d, w), and Unix time in seconds, milliseconds,
    microseconds or nanoseconds, distinguished by magnitude.
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
    # RFC 3339 allows a leap second; here it is the start of the next minute, as on most clocks.
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


def raw_json(description: str, **schema: Any) -> msgspec.Meta:
    """The annotation of a `msgspec.Raw`: the schema of its JSON."""
    return msgspec.Meta(description=description, extra_json_schema=schema)


TraceId = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{32}$", description="Trace id.")]
SpanId = Annotated[str, msgspec.Meta(pattern="^[0-9a-f]{16}$", description="Span id, unique within its trace.")]
Timestamp = Annotated[
    str,
    msgspec.Meta(
        pattern=r"^[0-9]{4}-[0-9]{2}-[0-9]{2}T[0-9]{2}:[0-9]{2}:[0-9]{2}\.[0-9]{9}Z$",
        description="UTC time with nanosecond precision.",
        examples=["2026-11-20T15:17:03.123456789Z"],
        extra_json_schema={"format": "date-time"},
    ),
]
Millis = Annotated[msgspec.Raw, raw_json("Milliseconds, with nanosecond precision.", type="number", minimum=0)]
Count = Annotated[int, msgspec.Meta(ge=0)]
Share = Annotated[float, msgspec.Meta(ge=0, le=1)]


class Range(msgspec.Struct):
    """A half-open time range; `to` is exclusive."""

    from_: Timestamp = msgspec.field(name="from")
    to: Timestamp


_TYPED: Final = (
    'Each value has its original type. NaN and infinities are strings, and bytes are `{"bytesValue": base64}`.'
)
Attributes = Annotated[dict[str, object], msgspec.Meta(description=f"Values by key. {_TYPED}")]
MergedAttributes = Annotated[
    dict[str, object],
    msgspec.Meta(
        description="The item's own attributes by key, then the attributes of its resource as `resource.<key>` and of "
        f"its scope as `scope.<key>`. {_TYPED}"
    ),
]
RawAttributes = Annotated[
    msgspec.Raw, raw_json("Values by key. Each value has its original type.", type="object", additionalProperties=True)
]

_KINDS: Final = {"enum": list(SPAN_KINDS)}
_STATUSES: Final = {"enum": list(STATUS_CODES)}
SpanKind = Annotated[str, msgspec.Meta(description="Span kind.", extra_json_schema=_KINDS)]
StatusCode = Annotated[str, msgspec.Meta(description="Span status code.", extra_json_schema=_STATUSES)]


_NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_CACHE_ENTRIES: Final = 2048  # a program has few lists; the cache avoids parsing the same one for every row
_MAX_CACHED_CHARS: Final = 8192  # longer lists are not cached


def json_value(text: str, letter: str) -> object:
    """Return a value that msgspec encodes as the value with this canonical text and type letter."""
    match letter:
        case "b" | "i" | "a" | "m":
            return msgspec.Raw(text)
        case "d":
            return text if text in _NOT_FINITE else msgspec.Raw(_format_double(text))
        case "x":
            return {"bytesValue": text}
        case "n":
            return None
    return text


def decode_attribute_list(text: str) -> dict[str, object]:
    """Decode an attribute list that is stored as one text into a JSON object in stored order."""
    return dict((_parse_list if len(text) > _MAX_CACHED_CHARS else _cached_list)(text))


def _parse_list(text: str) -> Mapping[str, object]:
    return {key: json_value(value, letter) for key, letter, value in parse_attributes(text)}


def _parse_types(types: str) -> tuple[tuple[str, str], ...]:
    return tuple((entry.key, entry.type_tag) for entry in parse_attributes(types))


_cached_list: Final = lru_cache(maxsize=_CACHE_ENTRIES)(_parse_list)
_cached_types: Final = lru_cache(maxsize=_CACHE_ENTRIES)(_parse_types)


def typed_attributes(texts: Mapping[str, str], types: str) -> dict[str, object]:
    """An item's own attributes as a JSON object, in the order of `types`: ClickHouse defines the order of a Map."""
    keys = (_parse_types if len(types) > _MAX_CACHED_CHARS else _cached_types)(types)
    return {key: json_value(texts[key], letter) for key, letter in keys}


def merged_attributes(columns: AttributeColumns) -> dict[str, object]:
    """All attributes of an item as one object: its own attributes under their keys, then the attributes of the resource
    and scope under `resource.` and `scope.`. If keys are equal, the item's own attribute comes before others, and an
    attribute of the scope before its name and version.
    """
    attributes = typed_attributes(columns.attributes, columns.attribute_types)
    for key, value in decode_attribute_list(columns.resource).items():
        attributes.setdefault(f"resource.{key}", value)
    for key, value in decode_attribute_list(columns.scope).items():
        attributes.setdefault(f"scope.{key}", value)
    if columns.scope_name:
        attributes.setdefault("scope.name", columns.scope_name)
    if columns.scope_version:
        attributes.setdefault("scope.version", columns.scope_version)
    return attributes


def _format_double(text: str) -> str:
    """Append the `.0` that a stored double lacks: JSON readers need it to tell a double from an integer."""
    return text if "." in text or "e" in text else f"{text}.0"
