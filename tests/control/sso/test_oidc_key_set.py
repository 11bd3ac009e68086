"""Key sets: which keys of a provider are used."""

import base64
import json
from typing import Any

import pytest

from control.sso.oidc.key_set import MAX_KEYS, decode_key_set, has_key
from control.sso.refusal import LoginRefused
from tests.control.sso.oidc_tokens import jwk, key_set, private_key


def ids(*keys: Any) -> list[str | None]:
    """The ids of the keys that are left of these."""
    return [key.kid for key in decode_key_set(key_set(*keys))]


def refusal(body: bytes) -> str:
    with pytest.raises(LoginRefused) as raised:
        decode_key_set(body)
    return raised.value.reason


def number(bits: int, length: int | None = None) -> str:
    """An odd number of so many bits, in so many bytes, in base64url."""
    raw = ((1 << (bits - 1)) | 1).to_bytes(length or (bits + 7) // 8, "big")
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode()


UNACCEPTABLE: tuple[Any, ...] = (
    {},
    5,
    None,
    [],
    {"kty": "RSA"},
    {"kty": 5},
    {"kty": "oct", "k": "AAAA"},
    {"kty": "AKP", "alg": "ML-DSA-44", "pub": "AAAA"},
    {**jwk("P-256"), "use": "enc"},
    {**jwk("P-256"), "use": ""},
    {**jwk("P-256"), "kid": 5},
    {**jwk("P-256"), "kid": "a" * 1_001},
    {**jwk("P-256"), "alg": 5},
    {**jwk("P-256"), "key_ops": "verify"},
    {**jwk("P-256"), "key_ops": ["dance"]},
    {**jwk("P-256"), "key_ops": ["verify"] * 17},
    {**jwk("P-256"), "use": "sig", "key_ops": ["deriveKey"]},
    {**jwk("P-256"), "x": jwk("P-256")["y"]},  # not on the curve
    {**jwk("P-256"), "x": ""},
    {**jwk("P-256"), "x": "A+/="},
    {**jwk("P-256"), "x": "\N{SNOWMAN}"},
    {**jwk("P-256"), "x": "A" * 2_000},
    {**jwk("P-256"), "crv": "P-384"},
    {**jwk("P-256"), "crv": "secp256k1"},
    jwk("secp256k1"),
    jwk("Ed448"),
    jwk("X25519"),
    {**jwk("Ed25519"), "x": "AAAA"},
    {**jwk("RSA"), "n": number(2_047)},
    {**jwk("RSA"), "n": number(1_024)},
    {**jwk("RSA"), "n": number(8_193)},
    {**jwk("RSA"), "n": number(2_047, length=300)},  # leading zeros are no bits
    {**jwk("RSA"), "n": "A" * 60_000},
    {**jwk("RSA"), "n": "="},
    {**jwk("RSA"), "e": "AA"},
    {**jwk("RSA"), "e": "Ag"},
    {**jwk("RSA"), "e": "A" * 12},
    {**jwk("RSA"), "e": jwk("RSA")["n"]},
)


@pytest.mark.parametrize("key", UNACCEPTABLE, ids=range(len(UNACCEPTABLE)))
def test_a_key_that_is_not_acceptable_is_ignored(key: Any) -> None:
    assert ids(key, jwk("P-384")) == ["P-384"]
    assert refusal(key_set(key)) == "provider_keys_invalid"


@pytest.mark.parametrize("kind", ["RSA", "P-256", "P-384", "P-521", "Ed25519"])
def test_keys_of_every_type_are_read(kind: str) -> None:
    (key,) = decode_key_set(key_set({**jwk(kind), "x5c": ["AAAA"], "x5t": "a", "other": [1]}))
    assert (key.kid, key.is_private) == (kind, False)
    assert key.as_dict() == jwk(kind)


@pytest.mark.parametrize("bits", [2_048, 8_192])
def test_an_rsa_key_at_its_bound_is_read(bits: int) -> None:
    assert ids({**jwk("RSA"), "n": number(bits)}) == ["RSA"]


@pytest.mark.parametrize("kind", ["RSA", "P-256", "Ed25519"])
def test_private_members_are_not_read(kind: str) -> None:
    (key,) = decode_key_set(key_set({**private_key(kind).as_dict(private=True), "kid": "a"}))
    assert key.is_private is False
    assert "d" not in key.as_dict()


def test_null_is_as_good_as_absent() -> None:
    assert ids({**jwk("P-256"), "use": None, "alg": None, "key_ops": None}) == ["P-256"]


def test_a_key_is_found_by_its_id() -> None:
    keys = decode_key_set(key_set(jwk("P-256"), jwk("P-384", kid=None)))
    assert (has_key(keys, "P-256"), has_key(keys, "P-384"), has_key(keys, "")) == (True, False, False)


def test_a_set_has_a_limited_number_of_keys() -> None:
    assert len(ids(*[jwk("Ed25519")] * MAX_KEYS)) == MAX_KEYS
    assert refusal(key_set(*[jwk("Ed25519")] * (MAX_KEYS + 1))) == "provider_keys_invalid"


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"<html></html>",
        b"[]",
        b"{}",
        b'{"keys":null}',
        b'{"keys":{}}',
        b'{"keys":[]}',
        b"\xff",
        b"[" * 60_000,
        b'{"keys":[' + b"[" * 60_000,
        b'{"keys":[{"kty":"EC","x":' + b"[" * 500 + b"]" * 500 + b"}]}",
        b'{"keys":[' + json.dumps(jwk("P-256")).encode(),
    ],
)
def test_a_document_of_another_form_is_refused(body: bytes) -> None:
    assert refusal(body) == "provider_keys_invalid"
