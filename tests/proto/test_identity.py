"""Formats of tokens, keys, DSNs, slugs, and the table of roles and scopes."""

import hashlib
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from proto.identity import (
    MAX_PROJECT_ID,
    NAME_PATTERN,
    ROLE_SCOPES,
    Dsn,
    Role,
    Scope,
    encode_project_key,
    encode_token,
    format_dsn,
    hash_secret,
    is_project_key,
    is_slug,
    is_token,
    parse_dsn,
    secret_hint,
)


@given(st.binary(min_size=32, max_size=32))
def test_every_token_has_one_length_and_passes_its_own_checksum(entropy: bytes) -> None:
    token = encode_token(entropy)
    assert re.fullmatch(r"pat_[0-9A-Za-z]{49}", token)
    assert is_token(token)


@given(st.binary(min_size=32, max_size=32), st.integers(4, 52), st.sampled_from("0aZ"))
def test_a_token_with_one_other_character_is_none(entropy: bytes, position: int, character: str) -> None:
    token = encode_token(entropy)
    altered = token[:position] + character + token[position + 1 :]
    assert is_token(altered) is (altered == token)


def test_token_format_is_frozen() -> None:
    assert encode_token(bytes(32)) == "pat_" + "0" * 43 + "2GjXJC"
    assert encode_token(b"\xff" * 32) == "pat_yhjskwdA6OZ1AL1YmHWZWm8LLG7HjnuCA2j5rOw8Xp13oiRF4"


def test_what_is_no_token_and_of_which_entropy_none_is_made() -> None:
    for text in ("", "pat_", "scim_" + "0" * 49, encode_token(bytes(32)) + "\n", "pat_" + "é" * 49):
        assert not is_token(text)
    for size in (0, 31, 33):
        with pytest.raises(ValueError):
            encode_token(bytes(size))


def test_a_project_key_is_32_hex_digits() -> None:
    assert encode_project_key(bytes(range(16))) == "000102030405060708090a0b0c0d0e0f"
    assert is_project_key("000102030405060708090a0b0c0d0e0f")
    assert not any(is_project_key(text) for text in ("", "0" * 31, "0" * 33, "A" * 32, "0" * 32 + "\n", "\uff10" * 32))
    with pytest.raises(ValueError):
        encode_project_key(bytes(15))


@given(
    st.binary(min_size=16, max_size=16),
    st.integers(1, MAX_PROJECT_ID),
    st.sampled_from(["http://127.0.0.1:4318", "https://in.example.org", "https://[::1]:8443", "http://h/base/path"]),
)
def test_a_dsn_reads_back_as_it_was_written(entropy: bytes, project_id: int, base_url: str) -> None:
    key = encode_project_key(entropy)
    scheme, _, host = base_url.partition("://")
    assert parse_dsn(format_dsn(base_url, key, project_id)) == Dsn(scheme, key, host, project_id)
    assert format_dsn(base_url + "/", key, project_id) == format_dsn(base_url, key, project_id)


NO_DSNS = [
    *("", "http://h/1", "ftp://k@h/1", "http://k@h/0", "http://k@h/01", "http://k@h", "http://k@h/x", "http://k:s@h/1"),
    *("http://k@h/1?x", "http://k@h/1\n", " http://k@h/1", f"http://k@h/{MAX_PROJECT_ID + 1}"),
    "http://k@h/" + "9" * 5000,
]


def test_what_is_no_dsn_is_refused_without_being_quoted() -> None:
    for text in NO_DSNS:
        with pytest.raises(ValueError) as caught:
            parse_dsn(text)
        assert str(caught.value) == "not a DSN of the form {scheme}://{key}@{host}/{projectId}"
    for base_url in ("", "127.0.0.1:4318", "ftp://h", "http://", "http://user@h"):
        with pytest.raises(ValueError):
            format_dsn(base_url, "k", 1)


@given(st.text())
def test_any_text_is_a_dsn_or_a_value_error(text: str) -> None:
    try:
        parse_dsn(text)
    except ValueError:
        return


def test_secrets_are_hashed_with_sha256_whatever_bytes_a_header_brings() -> None:
    assert hash_secret("abc") == hashlib.sha256(b"abc").digest()
    assert hash_secret("\udcff") == hashlib.sha256(b"\xff").digest()
    assert secret_hint("abcdefgh") == "efgh"


def test_slugs_and_names() -> None:
    assert all(is_slug(slug) for slug in ("a", "0", "a-b", "a" * 64, "a--b", "9lives"))
    no_slugs = ("", "a" * 65, "-a", "a-", "A", "a_b", "a.b", "a\n", "ä", "a\x00", "a/b", "٣")
    assert [slug for slug in no_slugs if is_slug(slug)] == []
    assert all(re.search(NAME_PATTERN, name) for name in ("a", "Päckchen 1 (alt)", "日本"))
    no_names = (" a", "a ", "a\n", "a\x00b", "a\x85b", "a\u2028b", "")
    assert [name for name in no_names if re.search(NAME_PATTERN, name)] == []


def test_the_table_of_roles_and_scopes() -> None:
    viewer = {"explore", "approvals", "channels", "projects", "proofs", "issues", "releases"}
    viewer = {f"{name}:read" for name in viewer} | {"views:write"}
    own = {"approvals:write", "approvals:decide", "channels:write", "proofs:write", "tokens:write"}
    own |= {"issues:write", "releases:write"}
    assert {role: {str(scope) for scope in scopes} for role, scopes in ROLE_SCOPES.items()} == {
        Role.VIEWER: viewer,
        Role.BILLING: {"projects:read"},
        Role.MEMBER: viewer | own,
        Role.ADMIN: {str(scope) for scope in Scope},
        Role.OWNER: {str(scope) for scope in Scope},
    }
    assert len(Scope) == 30
