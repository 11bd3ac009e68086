"""Keys of a provider and ID tokens that it signs: valid ones, and any that differ in one point."""

import base64
import json
from collections.abc import Mapping
from datetime import UTC, datetime
from functools import cache
from typing import Any, Final

from joserfc.jwk import ECKey, JWKRegistry, Key, OKPKey, RSAKey
from joserfc.jws import JWSRegistry

from control.identity.sso.oidc.id_token import ALGORITHMS

ISSUER: Final = "https://idp.example.com"
CLIENT_ID: Final = "sluice"
NONCE: Final = "n-0S6_WzA2Mj"
NOW: Final = datetime(2026, 11, 20, 12, 0, tzinfo=UTC)
NOW_S: Final = int(NOW.timestamp())
CLAIMS: Final[Mapping[str, Any]] = {
    "iss": ISSUER,
    "sub": "248289761001",
    "aud": CLIENT_ID,
    "nonce": NONCE,
    "iat": NOW_S,
    "exp": NOW_S + 300,
}


@cache
def private_key(kind: str) -> Key:
    """One private key per kind: `RSA`, or the name of a curve."""
    if kind == "RSA":
        return RSAKey.generate_key(2_048)
    if kind.startswith(("Ed", "X")):
        return OKPKey.generate_key(kind)  # type: ignore[arg-type]
    return ECKey.generate_key(kind)


def kind_for(algorithm: str) -> str:
    """The kind of key that signs with an algorithm."""
    curves = {"ES256": "P-256", "ES384": "P-384", "ES512": "P-521"}
    return "RSA" if algorithm[:2] in ("RS", "PS") else curves.get(algorithm, "Ed25519")


def jwk(kind: str, **members: Any) -> dict[str, Any]:
    """The public key as a member of a JWK set; `kid` is the kind unless another one is given, or None."""
    public = private_key(kind).as_dict(private=False)
    public.pop("kid", None)
    return {name: value for name, value in {**public, "kid": kind, **members}.items() if value is not None}


def key_set(*keys: Mapping[str, Any]) -> bytes:
    """A JWK set on the wire."""
    return json.dumps({"keys": keys}).encode()


def signature(algorithm: str, signed: bytes, key: Key | None = None) -> bytes:
    """The signature of an allowed algorithm, by the key of its kind unless another one is given."""
    key = key or private_key(kind_for(algorithm))
    fresh = JWKRegistry.import_key(key.as_dict(private=True))  # without `use`, `alg` and `key_ops`
    return JWSRegistry.algorithms[ALGORITHMS[algorithm]].sign(signed, fresh)


def token(
    claims: Mapping[str, Any] | bytes = CLAIMS, algorithm: str = "ES256", *, key: Key | None = None, **header: Any
) -> str:
    """A signed token. `claims`: also as bytes, of any content. Of the header, None leaves a member out."""
    members = {"alg": algorithm, "typ": "JWT", "kid": kind_for(algorithm), **header}
    written = json.dumps({name: value for name, value in members.items() if value is not None})
    payload = claims if isinstance(claims, bytes) else json.dumps(claims).encode()
    signed = b64(written.encode()) + b"." + b64(payload)
    return (signed + b"." + b64(signature(algorithm, signed, key))).decode()


def b64(raw: bytes) -> bytes:
    """base64url without padding."""
    return base64.urlsafe_b64encode(raw).rstrip(b"=")
