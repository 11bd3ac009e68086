"""Converts stored texts with their type letters (docs/codec.md 2) back to JSON, so that each value reads as it was
sent.

Numbers and nested values are spliced in as text: a 64-bit integer keeps every digit, `200.0` stays a double.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from proto.storage.attribute_encoding import parse_attributes
from query.rows import AttributeColumns

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
