"""Keys that are there twice, found by counting strings, as a decoder finds them that looks at each key."""

import json
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.proofs.unique_keys import RepeatedKey, require_unique_keys

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


def has_repeated(value: Any) -> bool:
    if isinstance(value, tuple):
        names = [name for name, _ in value]
        return len(names) != len(set(names)) or any(has_repeated(one) for _, one in value)
    return isinstance(value, list) and any(map(has_repeated, value))


@given(value=VALUES, ascii_only=st.booleans())
def test_repeated_keys_are_found_and_no_others(value: Any, ascii_only: bool) -> None:
    raw = written(value, ascii_only=ascii_only).encode()
    read = msgspec.json.decode(raw)
    if has_repeated(value):
        with pytest.raises(RepeatedKey):
            require_unique_keys(raw, read)
    else:
        require_unique_keys(raw, read)


def test_a_key_too_deep_to_name() -> None:
    raw = b'{"a":' * 900 + b'{"b":1,"b":2}' + b"}" * 900
    with pytest.raises(RepeatedKey):
        require_unique_keys(raw, msgspec.json.decode(raw))
