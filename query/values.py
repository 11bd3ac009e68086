"""Stored texts with their type letters (docs/codec.md 2) back to JSON, so that each value reads as it was sent.

Numbers and nested values are spliced in as text: a 64-bit integer keeps every digit, `200.0` stays a double.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from proto.storage.lists import entries
from query.rows import Carried

_NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_KNOWN_LISTS: Final = 2048  # a program has a few; the cache saves reading the same one for every row
_KNOWN_CHARS: Final = 8192  # longer ones are not kept


def json_value(text: str, letter: str) -> object:
    """What msgspec encodes as the value whose canonical text and type letter these are."""
    match letter:
        case "b" | "i" | "a" | "m":
            return msgspec.Raw(text)
        case "d":
            return text if text in _NOT_FINITE else msgspec.Raw(_double(text))
        case "x":
            return {"bytesValue": text}
        case "n":
            return None
    return text


def listed(text: str) -> dict[str, object]:
    """A list that is one text, as a JSON object in stored order."""
    return dict((_read_list if len(text) > _KNOWN_CHARS else _known_list)(text))


def _read_list(text: str) -> Mapping[str, object]:
    return {key: json_value(value, letter) for key, letter, value in entries(text)}


def _read_types(types: str) -> tuple[tuple[str, str], ...]:
    return tuple((entry.key, entry.letter) for entry in entries(types))


_known_list: Final = lru_cache(maxsize=_KNOWN_LISTS)(_read_list)
_known_types: Final = lru_cache(maxsize=_KNOWN_LISTS)(_read_types)


def typed(texts: Mapping[str, str], types: str) -> dict[str, object]:
    """An item's own attributes as a JSON object, in the order of `types`: a Map's order is ClickHouse's affair."""
    keys = (_read_types if len(types) > _KNOWN_CHARS else _known_types)(types)
    return {key: json_value(texts[key], letter) for key, letter in keys}


def merged(carried: Carried) -> dict[str, object]:
    """All that an item carries as one object: its own attributes under their keys, then those of the resource and scope
    under `resource.` and `scope.`; of equal names the item's own counts, then an attribute before name and version."""
    attributes = typed(carried.attributes, carried.attribute_types)
    for key, value in listed(carried.resource).items():
        attributes.setdefault(f"resource.{key}", value)
    for key, value in listed(carried.scope).items():
        attributes.setdefault(f"scope.{key}", value)
    if carried.scope_name:
        attributes.setdefault("scope.name", carried.scope_name)
    if carried.scope_version:
        attributes.setdefault("scope.version", carried.scope_version)
    return attributes


def _double(text: str) -> str:
    """A stored double drops its trailing `.0`, by which JSON readers tell it from an integer."""
    return text if "." in text or "e" in text else f"{text}.0"
