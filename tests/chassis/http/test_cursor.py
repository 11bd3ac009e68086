"""Cursors cannot be altered, moved to another list, or made by anyone else."""

import stat
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.errors import BadRequest
from chassis.http.cursor import MAX_CURSOR_LENGTH, CursorSigner, load_cursor_signer
from chassis.runtime.key_file import KeyFileUnusable, load_or_create_key

SIGNER = CursorSigner(bytes(range(32)))
payloads = st.lists(
    st.integers(-(2**63), 2**64 - 1) | st.text(max_size=20) | st.binary(max_size=20) | st.none(), max_size=5
).map(tuple)


@given(payloads, st.binary(max_size=50))
def test_a_cursor_opens_to_what_was_signed(payload: tuple[int | str | bytes | None, ...], binding: bytes) -> None:
    text = SIGNER.sign(payload, binding)
    assert len(text) <= MAX_CURSOR_LENGTH
    assert text.replace("-", "").replace("_", "").isalnum()
    assert SIGNER.open(text, binding) == payload


@given(payloads, st.data())
def test_a_cursor_altered_anywhere_is_refused(
    payload: tuple[int | str | bytes | None, ...], data: st.DataObject
) -> None:
    text = SIGNER.sign(payload, b"list")
    position = data.draw(st.integers(0, len(text) - 1))
    character = data.draw(st.sampled_from("ABCxyz012-_").filter(lambda c: c != text[position]))
    with pytest.raises(BadRequest):
        SIGNER.open(text[:position] + character + text[position + 1 :], b"list")


@given(st.text(max_size=600))
def test_any_text_is_a_cursor_or_a_bad_request(text: str) -> None:
    with pytest.raises(BadRequest) as caught:
        SIGNER.open(text, b"")
    assert caught.value.details is not None
    assert [(issue.path, issue.code) for issue in caught.value.details] == [("query.cursor", "invalid")]


@pytest.mark.parametrize(
    "mangle", [lambda t: t + "=", lambda t: t[:-1], lambda t: t + "A", lambda t: t + "\n", lambda t: " " + t]
)
def test_only_the_canonical_text_opens(mangle: object) -> None:
    text = SIGNER.sign((1, "a"), b"x")
    with pytest.raises(BadRequest):
        SIGNER.open(mangle(text), b"x")  # type: ignore[operator]


def test_a_cursor_of_another_list_or_key_or_shape_is_refused() -> None:
    text = SIGNER.sign((1, "a"), b"list a")
    assert SIGNER.open(text, b"list a", tuple[int, str]) == (1, "a")
    with pytest.raises(BadRequest):
        SIGNER.open(text, b"list b", tuple[int, str])
    with pytest.raises(BadRequest):
        CursorSigner(bytes(32)).open(text, b"list a", tuple[int, str])
    with pytest.raises(BadRequest):
        SIGNER.open(text, b"list a", tuple[str])


def test_binding_and_payload_cannot_be_shifted_into_each_other() -> None:
    text = SIGNER.sign(("a",), b"list")
    body = SIGNER.sign(("a",), b"list" + b"\x91\xa1a")
    assert text != body
    with pytest.raises(BadRequest):
        SIGNER.open(text, b"list\x91")


def test_a_position_too_long_for_a_cursor_is_a_fault_of_the_caller() -> None:
    with pytest.raises(ValueError, match="longer than 500"):
        SIGNER.sign(("x" * 400,), b"")
    with pytest.raises(ValueError):
        CursorSigner(bytes(31))


def test_the_key_is_made_once_private_and_kept(tmp_path: Path) -> None:
    path = tmp_path / "cursor.key"
    with ThreadPoolExecutor(8) as threads:
        keys = set(threads.map(lambda _: load_or_create_key(path, "cursor key"), range(16)))
    assert len(keys) == 1
    assert load_or_create_key(path, "cursor key") in keys
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert list(tmp_path.iterdir()) == [path]


def test_a_key_file_that_will_not_do_is_named(tmp_path: Path) -> None:
    damaged = tmp_path / "cursor.key"
    for content in ("", "zz", "00" * 31, "é"):
        damaged.write_text(content)
        with pytest.raises(KeyFileUnusable, match=r"cursor\.key is corrupt"):
            load_or_create_key(damaged, "cursor key")
    with pytest.raises(KeyFileUnusable, match="No such file or directory"):
        load_or_create_key(tmp_path / "missing" / "cursor.key", "cursor key")
    with pytest.raises(KeyFileUnusable, match="Is a directory"):
        load_or_create_key(tmp_path, "cursor key")


def test_a_configured_key_needs_no_file_and_is_the_same_everywhere(tmp_path: Path) -> None:
    nowhere = tmp_path / "missing" / "cursor.key"
    text = load_cursor_signer("a shared secret", nowhere).sign((1,), b"x")
    assert load_cursor_signer("a shared secret", nowhere).open(text, b"x") == (1,)
    own = load_cursor_signer("", tmp_path / "cursor.key")
    with pytest.raises(BadRequest):
        own.open(text, b"x")
