"""What an OpenID provider sends: ID tokens, key sets, metadata, the responses of its token and userinfo endpoints.

An input: a byte that chooses the document, and the document. Of an ID token, header and payload are separated by a NUL
and then signed, so that the checks of the claims are reached; as text, no key that the fuzzer has seen signs it.
"""

import hashlib
import json
import re
from collections.abc import Callable
from typing import Any, Final
from urllib.parse import urlsplit

from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from joserfc.jwk import KeySet, OKPKey
from multidict import CIMultiDict, CIMultiDictProxy

from control.identity.sso.oidc.code_flow import decode_token_response, decode_userinfo
from control.identity.sso.oidc.id_token import (
    MAX_KEYS,
    MAX_RSA_BITS,
    MIN_RSA_BITS,
    IdToken,
    decode_key_set,
    verify_id_token,
)
from control.identity.sso.oidc.provider import decode_metadata
from control.identity.sso.refusal import MAX_DETAIL_LENGTH, LoginRefused
from control.outbound.egress import HttpReply
from tests.control.identity.sso.oidc_tokens import CLIENT_ID, ISSUER, NONCE, NOW, NOW_S, b64, signature


def _key(first: int) -> OKPKey:
    private = Ed25519PrivateKey.from_private_bytes(bytes(range(first, first + 32)))
    return OKPKey.import_key(private, {"kid": "a"})


_SIGNING: Final = _key(0)
_KEYS: Final = KeySet([_SIGNING])
_SILENT: Final = KeySet([_key(1)])  # never asked to sign: a fuzzer that watches comparisons would learn what it signs
_JSON: Final = CIMultiDictProxy(CIMultiDict({"Content-Type": "application/json"}))
_SENDABLE: Final = re.compile(r"[!-~]+")
_ACCESS_TOKEN: Final = "of-tests"
_AT_HASH: Final = b64(hashlib.sha512(_ACCESS_TOKEN.encode()).digest()[:32]).decode()


def check(data: bytes) -> None:
    chosen, document = data[:1].ljust(1, b"\0")[0] % len(CHECKS), data[1:]
    try:
        CHECKS[chosen](document)
    except LoginRefused as refused:
        assert len(refused.detail) <= MAX_DETAIL_LENGTH


def _verify(text: str, keys: KeySet) -> IdToken:
    return verify_id_token(
        text, keys, issuer=ISSUER, client_id=CLIENT_ID, nonce=NONCE, now=NOW, access_token=_ACCESS_TOKEN
    )


def check_text(document: bytes) -> None:
    _verify(document.decode("latin-1"), _SILENT)
    raise AssertionError("a token was accepted that nobody signed")


def check_signed(document: bytes) -> None:
    header, _, payload = document.partition(b"\0")
    signed = b64(header) + b"." + b64(payload)
    text = (signed + b"." + b64(signature("Ed25519", signed, _SIGNING))).decode()
    check_text_refused(text)
    found = _verify(text, _KEYS)
    members, claims = json.loads(header), json.loads(payload.decode())
    assert members["alg"] in ("Ed25519", "EdDSA")
    assert members.get("kid") in (None, "a")
    assert "crit" not in members
    assert found.claims == claims
    check_claims(found, claims)


def check_text_refused(text: str) -> None:
    """Whatever is signed, with another key it is refused."""
    try:
        _verify(text, _SILENT)
    except LoginRefused:
        return
    raise AssertionError("a token was accepted whose signer is unknown")


def check_claims(found: IdToken, claims: dict[str, Any]) -> None:
    audiences = claims["aud"] if isinstance(claims["aud"], list) else [claims["aud"]]
    assert (claims["iss"], claims["nonce"]) == (ISSUER, NONCE)
    assert CLIENT_ID in audiences
    assert claims.get("azp") == CLIENT_ID or (claims.get("azp") is None and len(audiences) == 1)
    assert NOW_S - 660 <= claims["iat"] <= NOW_S + 60
    assert claims["exp"] > NOW_S - 60
    assert (claims.get("nbf") or 0) <= NOW_S + 60
    assert found.subject == claims["sub"]
    assert 0 < len(found.subject) <= 255
    assert found.subject.isascii()
    assert found.subject.isprintable()
    assert claims.get("at_hash") in (None, _AT_HASH)
    assert all(isinstance(method, str) for method in found.auth_methods)


def check_key_set(document: bytes) -> None:
    keys = list(decode_key_set(document))
    assert 0 < len(keys) <= MAX_KEYS
    for key in keys:
        assert not key.is_private
        assert key.get("use") in (None, "sig")
        public: Any = key.raw_value
        if key.key_type == "RSA":
            assert MIN_RSA_BITS <= public.key_size <= MAX_RSA_BITS
        else:
            assert key.get("crv") in ("P-256", "P-384", "P-521", "Ed25519")


def check_metadata(document: bytes) -> None:
    found = decode_metadata(document, ISSUER)
    assert found.issuer == ISSUER
    for url in (found.authorization_endpoint, found.token_endpoint, found.jwks_uri, found.userinfo_endpoint):
        if url is not None:
            assert url.startswith("https://")
            assert url.isascii()
            assert url.isprintable()
            assert "#" not in url
            parts = urlsplit(url)
            assert parts.hostname
            assert "@" not in parts.netloc


def check_token_response(document: bytes) -> None:
    found = decode_token_response(HttpReply(200, _JSON, document))
    assert isinstance(found.id_token, str)
    assert found.access_token is None or _SENDABLE.fullmatch(found.access_token)


def check_token_error(document: bytes) -> None:
    try:
        decode_token_response(HttpReply(400, _JSON, document))
    except LoginRefused as refused:
        assert re.fullmatch(r"[A-Za-z0-9_.-]{1,64}|HTTP 400", refused.detail)
        return
    raise AssertionError("tokens of an error")


def check_userinfo(document: bytes) -> None:
    assert decode_userinfo(HttpReply(200, _JSON, document)) == json.loads(document.decode())


CHECKS: Final[tuple[Callable[[bytes], None], ...]] = (
    check_text,
    check_signed,
    check_key_set,
    check_metadata,
    check_token_response,
    check_token_error,
    check_userinfo,
)
