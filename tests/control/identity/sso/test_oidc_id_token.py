"""The ID token: every check has a token that fails it and nothing else."""

import base64
import hashlib
import hmac
import json
from datetime import UTC, datetime
from itertools import product
from typing import Any, Final

import pytest
from joserfc.jwk import ECKey
from joserfc.jws import JWSRegistry

from control.identity.sso.oidc.id_token import (
    ALGORITHMS,
    MAX_LENGTH,
    IdToken,
    UnknownKey,
    decode_key_set,
    verify_id_token,
)
from control.identity.sso.refusal import LoginRefused
from tests.control.identity.sso.oidc_tokens import (
    CLAIMS,
    CLIENT_ID,
    ISSUER,
    NONCE,
    NOW,
    NOW_S,
    b64,
    jwk,
    key_set,
    kind_for,
    private_key,
    token,
)

KINDS = ("RSA", "P-256", "P-384", "P-521", "Ed25519")
LATEST = 253_402_300_799


def all_keys() -> bytes:
    return key_set(*(jwk(kind) for kind in KINDS))


def verified(text: str, keys: bytes | None = None, *, now: datetime = NOW, access_token: str | None = None) -> IdToken:
    return verify_id_token(
        text,
        decode_key_set(all_keys() if keys is None else keys),
        issuer=ISSUER,
        client_id=CLIENT_ID,
        nonce=NONCE,
        now=now,
        access_token=access_token,
    )


def refusal(text: str, keys: bytes | None = None, *, access_token: str | None = None) -> LoginRefused:
    with pytest.raises(LoginRefused) as raised:
        verified(text, keys, access_token=access_token)
    return raised.value


def without(name: str) -> dict[str, Any]:
    return {key: value for key, value in CLAIMS.items() if key != name}


def test_a_token_of_each_algorithm_is_accepted() -> None:
    expires_at = datetime(2026, 11, 20, 12, 5, tzinfo=UTC)
    for algorithm in ALGORITHMS:
        good = IdToken(CLAIMS["sub"], dict(CLAIMS), auth_methods=(), acr=None, expires_at=expires_at)
        assert verified(token(algorithm=algorithm)) == good, algorithm


# What may not be in a claim beside the good ones, by the reason for which it is refused.
WRONG: Final[dict[str, tuple[dict[str, Any], ...]]] = {
    "issuer_mismatch": tuple({"iss": iss} for iss in ("https://other.example.com", ISSUER + "/", ISSUER.upper())),
    "audience_mismatch": tuple({"aud": aud} for aud in ("other", ["other"], [], CLIENT_ID + "-2")),
    "authorized_party_missing": ({"aud": [CLIENT_ID, "other"]},),
    "authorized_party_mismatch": ({"aud": [CLIENT_ID, "other"], "azp": "other"}, {"azp": "other"}, {"azp": ""}),
    "id_token_expired": ({"exp": NOW_S - 60},),
    "id_token_not_yet_valid": ({"nbf": NOW_S + 61},),
    "id_token_from_future": ({"iat": NOW_S + 61},),
    "id_token_too_old": ({"iat": NOW_S - 661},),
    "nonce_missing": ({"nonce": None},),
    "nonce_mismatch": tuple({"nonce": nonce} for nonce in (NONCE + "x", "", "\N{SNOWMAN}")),
    "subject_invalid": tuple({"sub": sub} for sub in ("", "a" * 256, "a\n", "a\x00b", "a\x7f", "\u00e9")),
    "claims_invalid": tuple(
        {name: value}
        for name, values in {
            "iss": (None, 5, [ISSUER]),
            "sub": (None, 248289761001, ["a"]),
            "aud": (None, 5, [CLIENT_ID, 5], {CLIENT_ID: 1}),
            "exp": (None, str(NOW_S + 300), True, -1, LATEST + 1, 10**400, [NOW_S]),
            "iat": (None, str(NOW_S), False, -1, LATEST + 1),
            "nbf": (str(NOW_S), True, -1, LATEST + 1),
            "azp": (5, [CLIENT_ID]),
            "nonce": (5, [NONCE]),
        }.items()
        for value in values
    ),
}


def test_a_claim_that_is_wrong_is_refused_with_its_reason() -> None:
    for reason, changes in WRONG.items():
        for change in changes:
            assert refusal(token({**CLAIMS, **change})).reason == reason


def test_a_required_claim_that_is_missing_is_refused() -> None:
    for name in ("iss", "sub", "aud", "exp", "iat"):
        refused = refusal(token(without(name)))
        assert (refused.reason, f"`{name}`" in refused.detail) == ("claims_invalid", True)
    assert refusal(token(without("nonce"))).reason == "nonce_missing"


def test_a_claim_at_its_bound_is_accepted() -> None:
    changes: tuple[dict[str, Any], ...] = (
        *({"exp": exp} for exp in (NOW_S - 59, NOW_S + 0.5, LATEST)),
        *({"nbf": nbf} for nbf in (NOW_S + 60, None)),
        *({"iat": iat} for iat in (NOW_S + 60, NOW_S - 660)),
        {"aud": [CLIENT_ID]},
        {"aud": [CLIENT_ID, "other"], "azp": CLIENT_ID},
        {"azp": CLIENT_ID},
        {"sub": " !~" + "a" * 252},
    )
    for change in changes:
        assert verified(token({**CLAIMS, **change})).claims == {**CLAIMS, **change}


def test_authentication_methods_count_only_in_their_form() -> None:
    said: tuple[tuple[Any, Any, tuple[str, ...], str | None], ...] = (
        (["pwd", "otp"], "urn:example:gold", ("pwd", "otp"), "urn:example:gold"),
        ([], "", (), ""),
        ("mfa", 5, (), None),
        (["mfa", 5], ["a"], (), None),
        ({"mfa": True}, None, (), None),
    )
    for amr, acr, methods, context in said:
        found = verified(token({**CLAIMS, "amr": amr, "acr": acr}))
        assert (found.auth_methods, found.acr) == (methods, context)


def altered(text: str, part: int) -> str:
    """With another character in the middle of one part."""
    parts = text.split(".")
    middle = len(parts[part]) // 2
    other = "A" if parts[part][middle] != "A" else "B"
    parts[part] = parts[part][:middle] + other + parts[part][middle + 1 :]
    return ".".join(parts)


def test_a_signature_that_is_altered_is_refused() -> None:
    for algorithm in ALGORITHMS:
        assert refusal(altered(token(algorithm=algorithm), 2)).reason == "signature_invalid", algorithm


def test_claims_that_are_altered_are_refused() -> None:
    parts = token().split(".")
    parts[1] = b64(json.dumps({**CLAIMS, "sub": "1"}).encode()).decode()
    assert refusal(".".join(parts)).reason == "signature_invalid"


def test_a_signature_by_another_key_is_refused() -> None:
    assert refusal(token(key=ECKey.generate_key("P-256"))).reason == "signature_invalid"


def test_a_signature_of_any_bytes_is_refused() -> None:
    head = token().rpartition(".")[0]
    for encoded in (b"", b"\0" * 64, b"\xff" * 64, b"\x01" * 63, b"\x01" * 200):
        assert refusal(head + "." + b64(encoded).decode()).reason == "signature_invalid"


def test_an_algorithm_that_is_not_allowed_is_refused() -> None:
    """Whatever the signature: none, or an HMAC with what is public."""
    pem = private_key("RSA").as_pem(private=False)  # type: ignore[union-attr]
    for algorithm in ("none", "None", "NONE", "", "HS256", "HS384", "HS512", "ES256K", "Ed448", "RSA1_5"):
        signed = b64(json.dumps({"alg": algorithm, "kid": "RSA"}).encode()) + b"." + b64(json.dumps(CLAIMS).encode())
        for proof in (b"", hmac.digest(pem, signed, "sha256"), hmac.digest(CLIENT_ID.encode(), signed, "sha256")):
            refused = refusal((signed + b"." + b64(proof)).decode())
            assert (refused.reason, refused.detail) == ("algorithm_not_allowed", algorithm)


def test_a_key_in_the_header_does_not_verify() -> None:
    evil = ECKey.generate_key("P-256")
    header: dict[str, Any] = {
        "jwk": evil.as_dict(private=False),
        "jku": "https://evil.example/keys",
        "x5u": "https://evil.example/x",
    }
    assert refusal(token(key=evil, **header)).reason == "signature_invalid"
    assert refusal(token(key=evil, kid=None, **header), key_set(jwk("P-256"))).reason == "signature_invalid"
    assert refusal(token(key=evil, kid="evil", **header)).reason == "unknown_key"


def test_members_of_the_header_that_are_not_used_do_not_matter() -> None:
    header: dict[str, Any] = {"jku": "https://idp.example.com/keys", "x5t": "abc", "x5c": ["A" * 4_000], "nonce": "x"}
    assert verified(token(**header, typ=None)).subject == CLAIMS["sub"]


def test_a_header_of_another_form_is_refused() -> None:
    headers: dict[str, tuple[dict[str, Any], ...]] = {
        "critical_header": ({"crit": ["exp"], "exp": 1}, {"crit": []}, {"crit": "b64"}, {"b64": True}),
        "id_token_malformed": (
            *({"kid": 5}, {"kid": ["P-256"]}, {"x5c": "A"}),
            *({"jku": 5}, {"typ": 5}, {"jwk": 5}),
        ),
    }
    for reason, members in headers.items():
        for header in members:
            assert refusal(token(**header)).reason == reason, header


def test_an_unencoded_payload_is_refused() -> None:
    head = b64(json.dumps({"alg": "ES256", "kid": "P-256", "b64": False, "crit": ["b64"]}).encode())
    signed = head + b"." + json.dumps(CLAIMS).encode().replace(b".", b"")
    model = JWSRegistry.algorithms["ES256"]
    text = (signed + b"." + b64(model.sign(signed, private_key("P-256")))).decode()
    assert refusal(text).reason == "critical_header"


def test_an_unknown_key_is_named() -> None:
    refused = refusal(token(kid="key-2"))
    assert isinstance(refused, UnknownKey)
    assert (refused.reason, refused.kid) == ("unknown_key", "key-2")


def test_a_refusal_can_be_stored_whatever_the_header_says() -> None:
    refused = refusal(token(kid="key\ud800\0\n"))
    assert refused.reason == "unknown_key"
    assert refused.detail == "The provider's key set has no key with the id key\ufffd\ufffd\ufffd"


def test_without_a_key_id_one_key_must_fit() -> None:
    other = {**jwk("P-256"), "kid": "second"}
    text = token(kid=None)
    assert verified(text, all_keys()).subject == CLAIMS["sub"]
    assert verified(text, key_set(jwk("P-256", kid=None))).subject == CLAIMS["sub"]
    assert refusal(text, key_set(jwk("P-256"), other)).reason == "key_ambiguous"
    assert refusal(text, key_set(jwk("RSA"))).reason == "key_not_suitable"


def test_a_key_id_must_name_one_key() -> None:
    assert refusal(token(), key_set(jwk("P-256"), jwk("P-256"))).reason == "key_ambiguous"
    assert verified(token(), key_set(jwk("P-256"), jwk("RSA", kid="P-256"))).subject == CLAIMS["sub"]


def test_a_key_without_an_id_is_not_the_key_of_any_id() -> None:
    assert refusal(token(), key_set(jwk("P-256", kid=None))).reason == "unknown_key"


def test_a_key_that_is_not_for_the_algorithm_does_not_verify() -> None:
    others: tuple[dict[str, Any], ...] = (
        *({"alg": algorithm} for algorithm in ("ES384", "RS256", "ECDH-ES")),
        *({"key_ops": uses} for uses in (["sign"], [])),
    )
    for members in others:
        assert refusal(token(), key_set(jwk("P-256", **members))).reason == "key_not_suitable", members
    for algorithm, kind in (("ES256", "P-384"), ("ES384", "P-256"), ("RS256", "P-256"), ("EdDSA", "RSA")):
        assert refusal(token(algorithm=algorithm, kid=kind)).reason == "key_not_suitable", (algorithm, kind)


def test_a_key_that_is_for_the_algorithm_verifies() -> None:
    ours: tuple[dict[str, Any], ...] = (
        *({"use": "sig"}, {"alg": "ES256"}, {"key_ops": ["verify"]}, {"key_ops": ["verify", "sign"]}),
    )
    for members in ours:
        assert verified(token(), key_set(jwk("P-256", **members))).subject == CLAIMS["sub"], members


def test_both_names_of_the_edwards_algorithm_are_one() -> None:
    for algorithm, name in product(("EdDSA", "Ed25519"), repeat=2):
        assert verified(token(algorithm=algorithm), key_set(jwk("Ed25519", alg=name))).subject == CLAIMS["sub"]


def test_one_rsa_algorithm_is_not_another() -> None:
    """A signature with PKCS #1 v1.5 under a header that says PSS, and with another hash."""
    for said in ("PS256", "RS384"):
        header = b64(json.dumps({"alg": said, "kid": "RSA"}).encode())
        signed = header + b"." + b64(json.dumps(CLAIMS).encode())
        proof = JWSRegistry.algorithms["RS256"].sign(signed, private_key("RSA"))
        assert refusal((signed + b"." + b64(proof)).decode()).reason == "signature_invalid"


def unsigned(header: bytes, payload: bytes = b"{}") -> str:
    return (b64(header) + b"." + b64(payload) + b".AAAA").decode()


def test_text_that_is_no_token_is_refused() -> None:
    some = unsigned(b'{"alg":"ES256"}')
    headers = (
        *(b"[]", b'["alg"]', b'["alg","b64"]', b'"alg"', b'"alg b64"', b"5", b"null", b"\xff", b'{"alg":5}'),
        *(b'{"alg":["ES256"]}', b'{"alg":"ES256","b64":false}', b'{"alg":"ES256","x":' + b"9" * 5_000 + b"}"),
        *(b'{"alg":' + b"[" * 5_000, b'{"alg":"ES256"}' + b" " * 9_000),
    )
    texts = (
        *("", ".", "..", "...", "a.b.c", "a.b.c.d.e", "\N{SNOWMAN}.e30.AAAA", "\ud800.e30.AAAA", "e30.e30.AAAA"),
        *(some.replace(".e30.", payload) for payload in (".e3.0.", ".e31.", ".e30=.")),
        some + "=" * 4_000,
    )
    for text in (*texts, *map(unsigned, headers)):
        assert refusal(text).reason == "id_token_malformed", text


def test_signed_bytes_that_are_no_claims_are_refused() -> None:
    for payload in (
        *(b"", b"[]", b"5", b"null", b'"x"', b"{", b'{"a":' + b"[" * 5_000),
        *(b'{"a":"\xff"}', b'{"a":"\\ud800"}', b"{}{}"),
    ):
        assert refusal(token(payload)).reason == "id_token_malformed", payload


def test_the_last_of_two_equal_claims_counts_everywhere() -> None:
    """RFC 7519, section 4."""
    written = json.dumps(CLAIMS)[:-1] + ', "sub": "second"}'
    found = verified(token(written.encode()))
    assert (found.subject, found.claims["sub"]) == ("second", "second")


def test_a_token_that_is_too_large_is_refused() -> None:
    wide = token({**CLAIMS, "x": "a" * (MAX_LENGTH // 4 * 3)})
    assert refusal(wide).reason == "id_token_too_large"
    room = token({**CLAIMS, "x": ""})
    fitting = token({**CLAIMS, "x": "a" * ((MAX_LENGTH - len(room)) * 3 // 4 - 3)})
    assert MAX_LENGTH - 8 < len(fitting) <= MAX_LENGTH
    assert verified(fitting).subject == CLAIMS["sub"]


def half_hash(access_token: str, name: str) -> str:
    digest = hashlib.new(name, access_token.encode()).digest()
    return base64.urlsafe_b64encode(digest[: len(digest) // 2]).rstrip(b"=").decode()


def test_the_access_token_must_be_the_hashed_one() -> None:
    for algorithm in ALGORITHMS:
        name = f"sha{algorithm[-3:]}" if algorithm[-3:].isdecimal() and kind_for(algorithm) != "Ed25519" else "sha512"
        text = token({**CLAIMS, "at_hash": half_hash("of-tests", name)}, algorithm)
        assert verified(text, access_token="of-tests").subject == CLAIMS["sub"]
        assert refusal(text, access_token="other").reason == "access_token_mismatch"


def test_a_hash_that_cannot_be_checked_is_refused() -> None:
    hashes: tuple[Any, ...] = ("", "x", 5, [], True, half_hash("of-tests", "sha512"), "\N{SNOWMAN}")
    for at_hash in hashes:
        text = token({**CLAIMS, "at_hash": at_hash})
        assert refusal(text, access_token="of-tests").reason == "access_token_mismatch"
        assert verified(text).subject == CLAIMS["sub"]  # there is no access token to check


def test_an_access_token_without_a_hash_is_accepted() -> None:
    """OpenID Connect Core 1.0, section 3.1.3.6: optional in the code flow."""
    assert verified(token(), access_token="of-tests").subject == CLAIMS["sub"]
    assert verified(token({**CLAIMS, "at_hash": None}), access_token="of-tests").subject == CLAIMS["sub"]
