"""The types of response fields, as `/openapi.json` shows them.

A number that is spliced into the JSON as text keeps every digit, which `float` would not: such a field is a
`msgspec.Raw`, annotated with the schema of the JSON it holds.

Converts stored texts with their type letters (docs/codec.md 2) back to JSON, so that each value reads as it was
sent.

Numbers and nested values are spliced in as text: a 64-bit integer keeps every digit, `200.0` stays a double.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Annotated, Any, Final

import msgspec

from proto.storage.attribute_encoding import parse_attributes
from query.rows import SPAN_KINDS, STATUS_CODES, AttributeColumns


def raw_json(description: str, **schema: Any) -> msgspec.Meta:
    """The annotation of a `msgspec.Raw`: the schema of the JSON it holds."""
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


_TYPED: Final = 'each value has its original type; NaN and infinities are strings, bytes are `{"bytesValue": base64}`.'
Attributes = Annotated[dict[str, object], msgspec.Meta(description=f"By key; {_TYPED}")]
MergedAttributes = Annotated[
    dict[str, object],
    msgspec.Meta(description=f"The item's attributes by key, then `resource.<key>` and `scope.<key>`; {_TYPED}"),
]
RawAttributes = Annotated[
    msgspec.Raw, raw_json("By key; each value has its original type.", type="object", additionalProperties=True)
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
    """All attributes of an item as one object: its own attributes under their keys, then those of the resource and
    scope under `resource.` and `scope.`. Of equal keys the item's own attribute wins, then an attribute over the
    scope's name and version.
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
