"""Attribute lists that are encoded as one text: the columns `attribute_types`, `resource` and `scope` (docs/codec.md
2).

For each attribute the text has BEFORE_KEY, its key, AFTER_KEY, its type letter and, except in `attribute_types`, its
canonical text; at the end BEFORE_KEY once more. So a list is one value of a LowCardinality dictionary, and ClickHouse
evaluates a condition on it once per dictionary entry. A list has a key if it contains BEFORE_KEY, key, AFTER_KEY.
"""

from typing import Final, NamedTuple

BEFORE_KEY: Final = "\1"
AFTER_KEY: Final = "\2"
ESCAPE: Final = "\3"
# Escapes of the three in keys and texts, in the order in which to unescape them.
ESCAPES: Final = ((ESCAPE + "A", BEFORE_KEY), (ESCAPE + "B", AFTER_KEY), (ESCAPE + "C", ESCAPE))


class StoredAttribute(NamedTuple):
    """An attribute; its text is empty in `attribute_types`."""

    key: str
    type_tag: str
    text: str


def escape(text: str) -> str:
    """`text` with the three separators escaped, as in a list."""
    for escaped, plain in reversed(ESCAPES):
        text = text.replace(plain, escaped)
    return text


def parse_attributes(text: str) -> list[StoredAttribute]:
    """The attributes of a list, in order."""
    attributes = []
    for entry in text[1:-1].split(BEFORE_KEY) if text else ():
        key, _, rest = entry.partition(AFTER_KEY)
        attributes.append(StoredAttribute(_unescape(key), rest[0], _unescape(rest[1:])))
    return attributes


def _unescape(text: str) -> str:
    if ESCAPE in text:
        for escaped, plain in ESCAPES:
            text = text.replace(escaped, plain)
    return text
