"""Stored texts with their type letters (docs/codec.md 2) back to JSON, so that each value reads as it was sent.

Numbers and nested values are spliced in as text: a 64-bit integer keeps every digit, `200.0` stays a double.
"""

from collections.abc import Mapping
from functools import lru_cache
from typing import Final

import msgspec

from query.rows import Carried

_NOT_FINITE: Final = frozenset({"NaN", "Infinity", "-Infinity"})
_KNOWN_TYPE_LISTS: Final = 4096  # a program has a few; the cache saves reading the same one for every row


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


@lru_cache(maxsize=_KNOWN_TYPE_LISTS)
def type_letters(types: str) -> Mapping[str, str]:
    """The type letter of each attribute that is not a string: `i16:http.status_codeb5:cache` (lengths in bytes)."""
    data, at, letters = types.encode(), 0, {}
    while at < len(data):
        colon = data.index(b":", at)
        end = colon + 1 + int(data[at + 1 : colon])
        letters[data[colon + 1 : end].decode()] = chr(data[at])
        at = end
    return letters


def typed(texts: Mapping[str, str], types: str) -> dict[str, object]:
    """An attribute list as a JSON object, in stored order."""
    letters = type_letters(types)
    if not letters:
        return dict(texts)
    return {key: json_value(text, letters.get(key, "s")) for key, text in texts.items()}


def merged(carried: Carried) -> dict[str, object]:
    """All that an item carries as one object: its own attributes under their keys, then those of the resource and scope
    under `resource.` and `scope.`; of equal names the item's own counts, then an attribute before name and version."""
    attributes = typed(carried.attributes, carried.attribute_types)
    for key, value in typed(carried.resource_attributes, carried.resource_attribute_types).items():
        attributes.setdefault(f"resource.{key}", value)
    for key, value in typed(carried.scope_attributes, carried.scope_attribute_types).items():
        attributes.setdefault(f"scope.{key}", value)
    if carried.scope_name:
        attributes.setdefault("scope.name", carried.scope_name)
    if carried.scope_version:
        attributes.setdefault("scope.version", carried.scope_version)
    return attributes


def _double(text: str) -> str:
    """A stored double drops its trailing `.0`, by which JSON readers tell it from an integer."""
    return text if "." in text or "e" in text else f"{text}.0"
