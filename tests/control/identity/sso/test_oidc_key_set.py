"""Key sets: which keys of a provider are used."""

import base64
import json
from typing import Any

import pytest

from control.identity.sso.oidc.id_token import MAX_KEYS, decode_key_set, has_key
from control.identity.sso.refusal import LoginRefused
from tests.control.identity.sso.oidc_tokens import jwk, key_set, private_key


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


P_256: dict[str, Any] = jwk("P-256")
UNACCEPTABLE: tuple[Any, ...] = (
    *({}, 5, None, [], {"kty": "RSA"}, {"kty": 5}, {"kty": "oct", "k": "AAAA"}),
    {"kty": "AKP", "alg": "ML-DSA-44", "pub": "AAAA"},
    *(P_256 | {"use": use} for use in ("enc", "")),
    *(P_256 | {"kid": kid} for kid in (5, "a" * 1_001)),
    P_256 | {"alg": 5},
    *(P_256 | {"key_ops": uses} for uses in ("verify", ["dance"], ["verify"] * 17)),
    P_256 | {"use": "sig", "key_ops": ["deriveKey"]},
    P_256 | {"x": P_256["y"]},  # not on the curve
    *(P_256 | {"x": x} for x in ("", "A+/=", "\N{SNOWMAN}", "A" * 2_000)),
    *(P_256 | {"crv": curve} for curve in ("P-384", "secp256k1")),
    *(jwk(kind) for kind in ("secp256k1", "Ed448", "X25519")),
    jwk("Ed25519") | {"x": "AAAA"},
    *(jwk("RSA") | {"n": number(bits)} for bits in (2_047, 1_024, 8_193)),
    jwk("RSA") | {"n": number(2_047, length=300)},  # leading zeros are no bits
    *(jwk("RSA") | {"n": n} for n in ("A" * 60_000, "=")),
    *(jwk("RSA") | {"e": e} for e in ("AA", "Ag", "A" * 12, jwk("RSA")["n"])),
)


def test_a_key_that_is_not_acceptable_is_ignored() -> None:
    for key in UNACCEPTABLE:
        assert ids(key, jwk("P-384")) == ["P-384"], key
        assert refusal(key_set(key)) == "provider_keys_invalid", key


def test_keys_of_every_type_are_read() -> None:
    for kind in ("RSA", "P-256", "P-384", "P-521", "Ed25519"):
        (key,) = decode_key_set(key_set({**jwk(kind), "x5c": ["AAAA"], "x5t": "a", "other": [1]}))
        assert (key.kid, key.is_private, key.as_dict()) == (kind, False, jwk(kind))
    assert ids(*({**jwk("RSA"), "n": number(bits)} for bits in (2_048, 8_192))) == ["RSA"] * 2


def test_private_members_are_not_read() -> None:
    for kind in ("RSA", "P-256", "Ed25519"):
        (key,) = decode_key_set(key_set({**private_key(kind).as_dict(private=True), "kid": "a"}))
        assert (key.is_private, "d" in key.as_dict()) == (False, False)


def test_null_is_as_good_as_absent() -> None:
    assert ids({**jwk("P-256"), "use": None, "alg": None, "key_ops": None}) == ["P-256"]


def test_a_key_is_found_by_its_id() -> None:
    keys = decode_key_set(key_set(jwk("P-256"), jwk("P-384", kid=None)))
    assert (has_key(keys, "P-256"), has_key(keys, "P-384"), has_key(keys, "")) == (True, False, False)


def test_a_set_has_a_limited_number_of_keys() -> None:
    assert len(ids(*[jwk("Ed25519")] * MAX_KEYS)) == MAX_KEYS
    assert refusal(key_set(*[jwk("Ed25519")] * (MAX_KEYS + 1))) == "provider_keys_invalid"


def test_a_document_of_another_form_is_refused() -> None:
    for body in (
        *(b"", b"<html></html>", b"[]", b"{}", b'{"keys":null}', b'{"keys":{}}', b'{"keys":[]}', b"\xff"),
        *(begun + b"[" * 60_000 for begun in (b"", b'{"keys":[')),
        b'{"keys":[{"kty":"EC","x":' + b"[" * 500 + b"]" * 500 + b"}]}",
        b'{"keys":[' + json.dumps(jwk("P-256")).encode(),
    ):
        assert refusal(body) == "provider_keys_invalid", body[:100]
