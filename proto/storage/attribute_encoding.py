"""Attribute lists that are one text: the columns `attribute_types`, `resource` and `scope` (docs/codec.md 2).

For each attribute BEFORE_KEY, its key, AFTER_KEY, its type letter and, but in `attribute_types`, its canonical text; at
the end BEFORE_KEY once more. A list is so a value of a dictionary, and what is asked of it is answered once per entry:
a key is there where BEFORE_KEY, key and AFTER_KEY stand in a row.
"""

from typing import Final, NamedTuple

BEFORE_KEY: Final = "\1"
AFTER_KEY: Final = "\2"
ESCAPE: Final = "\3"
# What stands for the three where a key or a text has one, in the order in which to put them back.
ESCAPES: Final = ((ESCAPE + "A", BEFORE_KEY), (ESCAPE + "B", AFTER_KEY), (ESCAPE + "C", ESCAPE))


class StoredAttribute(NamedTuple):
    """An attribute; in `attribute_types` without its text."""

    key: str
    type_tag: str
    text: str


def escape(text: str) -> str:
    """`text` as it stands in a list."""
    for escaped, plain in reversed(ESCAPES):
        text = text.replace(plain, escaped)
    return text


def parse_attributes(text: str) -> list[StoredAttribute]:
    """The attributes of a list, in order."""
    found = []
    for entry in text[1:-1].split(BEFORE_KEY) if text else ():
        key, _, rest = entry.partition(AFTER_KEY)
        found.append(StoredAttribute(_unescape(key), rest[0], _unescape(rest[1:])))
    return found


def _unescape(marked: str) -> str:
    if ESCAPE in marked:
        for escaped, plain in ESCAPES:
            marked = marked.replace(escaped, plain)
    return marked
