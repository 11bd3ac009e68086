"""JSON objects with a key twice: readers would disagree about its value."""

import json
from contextlib import suppress
from typing import Any

import msgspec


class RepeatedKey(ValueError):
    """The message names the key."""


def require_unique_keys(raw: bytes, value: Any) -> None:
    """Raises RepeatedKey. `value` is what `raw` was decoded to, by types that drop no key.

    A key that is there twice is a string that `value` does not have, so it is enough to count strings: a fifth of the
    time of looking at each key.
    """
    if _count_strings(raw) != _count_strings(msgspec.json.encode(value)):
        with suppress(RecursionError):  # nested more deeply than this decoder goes: the key stays unnamed
            json.loads(raw, object_pairs_hook=_unique)
        raise RepeatedKey("A key of a JSON object is repeated.")


def _count_strings(raw: bytes) -> int:
    """Twice the number of strings: the quotes that are not escaped. Backslashes are in strings only."""
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    return raw.count(b'"')


def _unique(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) != len({key for key, _ in pairs}):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise RepeatedKey(f"The JSON key {key[:100]!r} is repeated.")
            seen.add(key)
