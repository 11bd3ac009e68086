"""Keys of attributes that a project exempts from scrubbing by key: what may be exempted."""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from proto.identity import EXEMPT_KEY_PATTERN, MAX_EXEMPT_KEY_BYTES
from proto.otlp.policy import is_exemptible

MAX_EXEMPT_KEYS: Final = 100

_EXEMPT_KEY: Final = re.compile(EXEMPT_KEY_PATTERN)


def find_exempt_key_faults(keys: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """Of each key that cannot be exempted its index, the fault as a sentence, and a word for programs. The caller
    checks the number of keys and their characters.
    """
    seen: set[str] = set()
    for index, key in enumerate(keys):
        if len(key.encode()) > MAX_EXEMPT_KEY_BYTES:
            yield index, f"Must have at most {MAX_EXEMPT_KEY_BYTES} bytes of UTF-8.", "too_long"
        elif key in seen:
            yield index, f"{key} is listed twice.", "repeated"
        elif not is_exemptible(key):
            yield index, f"{key} cannot be exempted: values of this key are always scrubbed.", "not_allowed"
        seen.add(key)


def validate_exempt_keys(keys: Sequence[str]) -> list[str]:
    """The keys. Raises ValueError."""
    bad = [keys[index] for index, *_ in find_exempt_key_faults(keys)]
    bad += [key for key in keys if _EXEMPT_KEY.search(key) is None]
    if bad or len(keys) > MAX_EXEMPT_KEYS:
        raise ValueError(f"must be at most {MAX_EXEMPT_KEYS} different keys that may be exempted: {bad}")
    return list(keys)
