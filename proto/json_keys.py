"""JSON objects with a key twice: readers would disagree about its value."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec

_MAX_NAMED_BYTES: Final = 64 * 2**10  # of a JSON text in which places are looked for: it takes eight times the count
_MAX_PLACE: Final = 500  # characters of a place; what is nested more deeply has the place of what it is in


class RepeatedKey(ValueError):
    """The message names the first such key."""


def require_unique_keys(raw: bytes, value: Any) -> None:
    """Raises RepeatedKey. The parameters are those of `find_repeated_keys`."""
    for place in find_repeated_keys(raw, value):
        raise RepeatedKey(
            f"The JSON key {place.removeprefix('.')!r} is repeated." if place else "A JSON key is repeated."
        )


def find_repeated_keys(raw: bytes, value: Any) -> Iterator[str]:
    """The places of keys that an object has twice, as in `.claims[0].claimId`; an empty one if the object is nested too
    deeply, or the text is too long, to find it. `value` is what `raw` was decoded to, without types or by types that
    drop no key. Raises RecursionError for a value that is nested too deeply to encode.

    Such a key is a string that `value` does not have, so it is enough to count strings: a fifth of the time of looking
    at each key.
    """
    if count_strings(raw) == count_strings(msgspec.json.encode(value)):
        return
    if len(raw) > _MAX_NAMED_BYTES:
        yield ""
        return
    found = False
    with suppress(RecursionError):
        for place in _places(json.loads(raw, object_pairs_hook=_Members), ""):
            found = True
            yield place
    if not found:
        yield ""


def count_strings(text: bytes | msgspec.Raw) -> int:
    """Twice the number of strings: the quotes that are not escaped. Backslashes are in strings only."""
    raw = bytes(text)
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    return raw.count(b'"')


class _Members(list[tuple[str, Any]]):
    """The members of an object, also those whose key is repeated."""


def _places(value: Any, place: str) -> Iterator[str]:
    if isinstance(value, _Members):
        times = Counter[str]()
        for key, part in value:
            inner = f"{place}.{key}"[:_MAX_PLACE]
            times[key] += 1
            if times[key] == 2:
                yield inner
            yield from _places(part, inner)
    elif isinstance(value, list):
        for at, part in enumerate(value):
            yield from _places(part, f"{place}[{at}]"[:_MAX_PLACE])
