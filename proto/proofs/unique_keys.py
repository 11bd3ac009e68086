"""JSON objects with a key twice: readers would disagree about its value."""

import json
from typing import Any


class RepeatedKey(ValueError):
    """The message names the key."""


def require_unique_keys(raw: bytes) -> None:
    """Raises RepeatedKey. `raw` is JSON that a decoder has accepted."""
    json.loads(raw, object_pairs_hook=_unique)


def _unique(pairs: list[tuple[str, Any]]) -> None:
    if len(pairs) != len({key for key, _ in pairs}):
        seen: set[str] = set()
        for key, _ in pairs:
            if key in seen:
                raise RepeatedKey(f"The key {key[:100]!r} is there twice.")
            seen.add(key)
