"""Text in its stored form: well-formed UTF-8 within its limit (docs/codec.md 2)."""

import json

from proto.otlp.policy import ItemModification


def repair(raw: bytes, flags: set[ItemModification]) -> bytes:
    """`raw` with U+FFFD for each maximal ill-formed subpart."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        flags.add(ItemModification.REPAIRED)
        return raw.decode(errors="replace").encode()
    return raw


def truncate(text: bytes, limit: int, flags: set[ItemModification]) -> bytes:
    """The longest prefix of well-formed `text` of at most `limit` bytes that splits no character."""
    if len(text) <= limit:
        return text
    flags.add(ItemModification.TRUNCATED)
    end = limit
    while end > 0 and text[end] & 0xC0 == 0x80:  # inside a character
        end -= 1
    return text[:end]


def clean(raw: bytes, limit: int, flags: set[ItemModification]) -> bytes:
    """`raw`, repaired, then truncated to `limit` bytes."""
    return truncate(repair(raw, flags), limit, flags)


def compact_json(data: object) -> bytes:
    """JSON without spaces, non-ASCII characters unescaped. Raises ValueError for a non-finite number."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
