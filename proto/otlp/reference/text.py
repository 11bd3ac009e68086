"""Text in its stored form: well-formed UTF-8 within its limit (docs/codec.md 2)."""

import json
from typing import NamedTuple

from proto.otlp.policy import ItemModification


class Truncation(NamedTuple):
    """A text that was cut: its JSON Pointer (RFC 6901) in the record that explore shows, and its size as sent."""

    path: str
    nbytes: int


class Flags(set[ItemModification]):
    """How an item, a resource or a scope was modified, and what was cut, in the order in which it was read."""

    def __init__(self) -> None:
        super().__init__()
        self.truncations: list[Truncation] = []

    def cut(self, path: str, nbytes: int) -> None:
        self.add(ItemModification.TRUNCATED)
        self.truncations.append(Truncation(path, nbytes))


def pointer(parent: str, name: bytes) -> str:
    """The JSON Pointer of the member `name` of the object at `parent`."""
    return f"{parent}/{name.decode().replace('~', '~0').replace('/', '~1')}"


def encode_truncations(truncations: list[Truncation], limit: int) -> bytes:
    """The entries of a JSON list, without its brackets, that fit into `limit` bytes, and one for all others."""
    encoded, left_out = b"", 0
    for each in truncations:
        longer = encoded + b"," * bool(encoded) + _encode_truncation(each)
        if len(longer) <= limit:
            encoded = longer
        else:
            left_out += each.nbytes
    rest = _encode_truncation(Truncation("/truncations", left_out)) if left_out else b""
    return encoded + b"," * bool(encoded and rest) + rest


def _encode_truncation(truncation: Truncation) -> bytes:
    return compact_json({"path": truncation.path, "bytes": truncation.nbytes})


def repair(raw: bytes, flags: Flags) -> bytes:
    """`raw` with U+FFFD for each maximal ill-formed subpart."""
    try:
        raw.decode()
    except UnicodeDecodeError:
        flags.add(ItemModification.REPAIRED)
        return raw.decode(errors="replace").encode()
    return raw


def truncate(text: bytes, limit: int) -> bytes:
    """The longest prefix of well-formed `text` of at most `limit` bytes that splits no character."""
    if len(text) <= limit:
        return text
    end = limit
    while end > 0 and text[end] & 0xC0 == 0x80:  # inside a character
        end -= 1
    return text[:end]


def cut_middle(text: bytes, limit: int) -> bytes:
    """The first and the last `limit / 2` bytes of `text`, with a line between them that says how many were cut."""
    if len(text) <= limit:
        return text
    head = truncate(text, limit // 2)
    start = len(text) - limit // 2
    while start < len(text) and text[start] & 0xC0 == 0x80:  # inside a character
        start += 1
    return b"%s\n[%d bytes cut]\n%s" % (head, start - len(head), text[start:])


def clean(raw: bytes, limit: int, flags: Flags, path: str) -> bytes:
    """`raw`, repaired, then truncated to `limit` bytes; it is the text at `path`."""
    text = repair(raw, flags)
    if len(text) > limit:
        flags.cut(path, len(raw))
    return truncate(text, limit)


def compact_json(data: object) -> bytes:
    """JSON without spaces, non-ASCII characters unescaped. Raises ValueError for a non-finite number."""
    return json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode()
