"""Keys that are there twice, found by counting strings, as a decoder finds them that looks at each key."""

import json
from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.json_keys import RepeatedKey, find_repeated_keys, require_unique_keys

NAMES = st.text(st.sampled_from('ab"\\\n\u00e9\x00'), max_size=3)
VALUES = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | NAMES | st.just(1.5),
    lambda inner: st.lists(inner, max_size=3) | st.lists(st.tuples(NAMES, inner), max_size=3).map(tuple),
    max_leaves=12,
)


def written(value: Any, *, ascii_only: bool) -> str:
    """JSON; a tuple is an object, whose keys may be repeated."""
    if isinstance(value, tuple):
        members = [
            f"{json.dumps(name, ensure_ascii=ascii_only)} : {written(one, ascii_only=ascii_only)}"
            for name, one in value
        ]
        return "{" + ", ".join(members) + "}"
    if isinstance(value, list):
        return "[" + ",".join(written(one, ascii_only=ascii_only) for one in value) + "]"
    return json.dumps(value, ensure_ascii=ascii_only)


def repeated(value: Any, place: str = "") -> Iterator[str]:
    """The places of repeated keys: each once for an object, however often it has the key."""
    if isinstance(value, tuple):
        names = [name for name, _ in value]
        yield from (f"{place}.{name}" for name in dict.fromkeys(names) if names.count(name) > 1)
        for name, one in value:
            yield from repeated(one, f"{place}.{name}")
    elif isinstance(value, list):
        for at, one in enumerate(value):
            yield from repeated(one, f"{place}[{at}]")


def found(raw: bytes) -> list[str]:
    return list(find_repeated_keys(raw, msgspec.json.decode(raw)))


@given(value=VALUES, ascii_only=st.booleans())
def test_repeated_keys_are_found_and_no_others(value: Any, ascii_only: bool) -> None:
    assert sorted(found(written(value, ascii_only=ascii_only).encode())) == sorted(repeated(value))


def test_the_first_one_is_named() -> None:
    raw = b'{"a": [{"b": 1, "b": 2}], "c": 1, "c": 2}'
    with pytest.raises(RepeatedKey) as caught:
        require_unique_keys(raw, msgspec.json.decode(raw))
    assert str(caught.value) == "The JSON key 'a[0].b' is repeated."


def nested(depth: int) -> bytes:
    return b'{"a":' * depth + b'{"b":1,"b":2}' + b"}" * depth


def is_readable(raw: bytes) -> bool:
    try:
        found(raw)
    except RecursionError:
        return False
    return True


def test_a_key_too_deep_to_name() -> None:
    """At the greatest depth that can be read at all, one is found, with its place or without."""
    depth = 1_000
    while not is_readable(nested(depth)):
        depth -= 1
    raw = nested(depth)
    (place,) = found(raw)
    assert place in ("", ".a" * 250)
    with pytest.raises(RepeatedKey, match="is repeated"):
        require_unique_keys(raw, msgspec.json.decode(raw))


def test_places_are_shortened_to_500_characters() -> None:
    deep = b'{"' + b"k" * 20_000 + b'": [' + b",".join([b'{"b": 1, "b": 2}'] * 1_000) + b"]}"
    places = found(deep)
    assert len(places) == 1_000
    assert {len(place) for place in places} == {500}


def test_no_place_is_looked_for_in_a_long_text() -> None:
    """It would take eight times as long as to find that there is one."""
    assert found(b'{"a": "' + b"k" * 70_000 + b'", "a": 1}') == [""]


def test_numbers_of_any_size_are_no_obstacle() -> None:
    assert found(b'{"a": ' + b"9" * 4_000 + b', "b": 1e308, "b": -0.0}') == [".b"]
