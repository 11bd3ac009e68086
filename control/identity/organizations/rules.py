"""The valid names, slugs and numbers of organizations and projects, and the attribute keys that a project may exempt
from scrubbing.
"""

import re
from collections.abc import Iterator, Sequence
from typing import Final

from proto.identity import (
    EXEMPT_KEY_PATTERN,
    MAX_EXEMPT_KEY_BYTES,
    MAX_NAME_LENGTH,
    MAX_SLUG_LENGTH,
    NAME_PATTERN,
    is_slug,
)
from proto.otlp.policy import is_exemptible

MAX_EXEMPT_KEYS: Final = 100

_NAME: Final = re.compile(NAME_PATTERN)
_EXEMPT_KEY: Final = re.compile(EXEMPT_KEY_PATTERN)


def find_exempt_key_faults(keys: Sequence[str]) -> Iterator[tuple[int, str, str]]:
    """For each key that cannot be exempted: its index, the fault as a sentence, and an identifier of the fault. The
    caller checks the number of keys and their characters.
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
    """Return the keys if all can be exempted. Raises ValueError otherwise."""
    bad = [keys[index] for index, *_ in find_exempt_key_faults(keys)]
    bad += [key for key in keys if _EXEMPT_KEY.search(key) is None]
    if bad or len(keys) > MAX_EXEMPT_KEYS:
        raise ValueError(f"must be at most {MAX_EXEMPT_KEYS} different keys that may be exempted: {bad}")
    return list(keys)


def validate_slug(text: str) -> str:
    """Return the text if it is a slug. Raises ValueError otherwise."""
    if not is_slug(text):
        raise ValueError(
            f"a slug must have 1 to {MAX_SLUG_LENGTH} lowercase letters, digits and inner hyphens: {text!r}"
        )
    return text


def validate_name(text: str) -> str:
    """Return the text if it is a valid name. Raises ValueError otherwise."""
    if not 1 <= len(text) <= MAX_NAME_LENGTH or _NAME.search(text) is None:
        raise ValueError(
            f"a name must have 1 to {MAX_NAME_LENGTH} printable characters, without outer spaces: {text!r}"
        )
    return text


def bounded_int(limit: int, number: int) -> int:
    """Return the number if it is from 0 to `limit`. Raises ValueError otherwise."""
    if not 0 <= number <= limit:
        raise ValueError(f"must be from 0 to {limit}: {number}")
    return number
