"""Text as it is stored: well-formed UTF-8, no longer than its limit (docs/codec.md 2)."""

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
    """The longest start of well-formed `text` that is at most `limit` bytes and ends with a whole character."""
    if len(text) <= limit:
        return text
    flags.add(ItemModification.TRUNCATED)
    end = limit
    while end > 0 and text[end] & 0xC0 == 0x80:  # inside a character
        end -= 1
    return text[:end]


def clean(raw: bytes, limit: int, flags: set[ItemModification]) -> bytes:
    """Repaired, then truncated."""
    return truncate(repair(raw, flags), limit, flags)


def compact_json(data: object) -> bytes:
    """JSON without spaces, non-ASCII characters as themselves. Non-finite numbers must be gone already."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
