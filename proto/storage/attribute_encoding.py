"""Attribute lists that are encoded as one text: the columns `attribute_types`, `resource` and `scope` (docs/codec.md
2).

For each attribute the text contains BEFORE_KEY, the key, AFTER_KEY, the type letter and, except in `attribute_types`,
the canonical text. The text ends with another BEFORE_KEY. So a list is one value of a LowCardinality dictionary, and
ClickHouse evaluates a condition on a list once per dictionary entry. A list has a key if the text contains BEFORE_KEY,
key, AFTER_KEY.
"""

from typing import Final, NamedTuple

BEFORE_KEY: Final = "\1"
AFTER_KEY: Final = "\2"
ESCAPE: Final = "\3"
# Escapes of the three separators in keys and texts, in the order of unescaping.
ESCAPES: Final = ((ESCAPE + "A", BEFORE_KEY), (ESCAPE + "B", AFTER_KEY), (ESCAPE + "C", ESCAPE))


class StoredAttribute(NamedTuple):
    """An attribute. Its text is empty in `attribute_types`."""

    key: str
    type_tag: str
    text: str


def escape(text: str) -> str:
    """`text` with escaped separators, as in a list."""
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
