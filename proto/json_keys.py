"""JSON objects with repeated keys, which are errors because readers would disagree about the value of such a key."""

import json
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from typing import Any, Final

import msgspec

# Of a JSON text in which places are searched for, which takes eight times as long as counting.
_MAX_NAMED_BYTES: Final = 64 * 2**10
_MAX_PLACE: Final = 500  # characters of a place; a deeper value has the place of the value that contains it


class RepeatedKey(ValueError):
    """An object has a key twice. The message names the first such key."""


def require_unique_keys(raw: bytes, value: Any) -> None:
    """Raise RepeatedKey if an object has a key twice. The parameters are the same as for `find_repeated_keys`."""
    for place in find_repeated_keys(raw, value):
        raise RepeatedKey(
            f"The JSON key {place.removeprefix('.')!r} is repeated." if place else "A JSON key is repeated."
        )


def find_repeated_keys(raw: bytes, value: Any) -> Iterator[str]:
    """The places of keys that an object has twice, such as `.claims[0].claimId`. A place is empty if the object is
    nested too deeply, or the text is too long, to find it. `value` is the decoded `raw`, without types or with types
    that keep all keys. Raises RecursionError for a value that is nested too deeply to encode.

    A repeated key is a string in `raw` that `value` does not have. So it is enough to count strings, which takes a
    fifth of the time that a check of each key takes.
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
    """Twice the number of strings, which is the number of unescaped quotes. Backslashes occur only in strings."""
    raw = bytes(text)
    if b"\\" in raw:
        raw = raw.replace(b"\\\\", b"").replace(b'\\"', b"")
    return raw.count(b'"')


class _Members(list[tuple[str, Any]]):
    """The members of an object, including members with a repeated key."""


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
