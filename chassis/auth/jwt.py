"""Access tokens of dashboard sessions: JWTs (RFC 9068) that one process signs with Ed25519 and all others verify.

A token states the user and the session (`sub`, `sid`, `org`), how the user was authenticated (`amr`), and when it
expires. It holds no permissions: those are looked up at every request.
"""

import base64
import re
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, NamedTuple, Self

import msgspec
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import OKPKey

from chassis.auth.id_generation import new_id

ALGORITHM: Final = "Ed25519"  # RFC 9864; "EdDSA" does not name the curve
TYPE: Final = "at+jwt"
ISSUER: Final = "sluice"
CLIENT: Final = "sluice"  # RFC 9068, 2.2: the client of the session; there is only this one
LIFETIME: Final = timedelta(minutes=15)
_LIFETIME_S: Final = int(LIFETIME.total_seconds())
MAX_LENGTH: Final = 2_048  # characters of a token; ours have about 500
_THUMBPRINT: Final = re.compile(r"[A-Za-z0-9_-]{43}")


_EpochSeconds = Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799)]  # epoch seconds, up to the year 9999


class _Header(msgspec.Struct, forbid_unknown_fields=True):  # `crit`, `jwk` and others, which we never sign, are errors
    alg: str
    typ: str
    kid: str


class Claims(msgspec.Struct, frozen=True):
    """The claims of a token."""

    iss: str
    aud: str
    sub: str
    client_id: str
    org: str
    sid: str
    amr: list[str]
    iat: _EpochSeconds
    exp: _EpochSeconds
    jti: str

    @property
    def expires_at(self) -> datetime:
        """`exp` in UTC."""
        return datetime.fromtimestamp(self.exp, UTC)


class PublicKey(NamedTuple):
    """The public half of a signing key: 32 bytes and its key id."""

    kid: str
    raw: bytes

    def jwk(self) -> dict[str, Any]:
        """The key as a member of a JWK set (RFC 8037)."""
        return {"kty": "OKP", "crv": "Ed25519", "x": _b64(self.raw), "kid": self.kid, "use": "sig", "alg": ALGORITHM}


class JwtSigner:
    """Signs with one key. The key id is the thumbprint of the public half (RFC 7638), so it is the same everywhere."""

    def __init__(self, key: OKPKey, public: PublicKey) -> None:
        self._key = key
        self.public = public

    @classmethod
    def from_seed(cls, seed: bytes) -> Self:
        """From the 32 bytes of a private key (RFC 8032, 5.1.5)."""
        private = Ed25519PrivateKey.from_private_bytes(seed)
        raw = private.public_key().public_bytes(Encoding.Raw, PublicFormat.Raw)
        key = OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": _b64(raw), "d": _b64(seed)})
        return cls(key, PublicKey(key.thumbprint(), raw))

    def sign(self, session_id: str, principal_id: str, org_id: str, methods: list[str], now: datetime) -> str:
        """A token that is valid for LIFETIME from `now`."""
        issued = int(now.timestamp())
        claims = {
            "iss": ISSUER,
            "aud": ISSUER,
            "sub": principal_id,
            "client_id": CLIENT,
            "org": org_id,
            "sid": session_id,
            "amr": methods,
            "iat": issued,
            "exp": issued + _LIFETIME_S,
            "jti": new_id("jwt"),
        }
        header = {"alg": ALGORITHM, "typ": TYPE, "kid": self.public.kid}
        return jwt.encode(header, claims, self._key, algorithms=[ALGORITHM])


def unverified_key_id(token: str) -> str | None:
    """The key id in a token's header; None for a token that is not in our format. The signature is not verified."""
    head, _, rest = token.partition(".")
    if len(token) > MAX_LENGTH or rest.count(".") != 1:
        return None
    try:
        header = msgspec.json.decode(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)), type=_Header)
    except (ValueError, msgspec.MsgspecError):
        return None
    is_ours = (header.alg, header.typ) == (ALGORITHM, TYPE) and _THUMBPRINT.fullmatch(header.kid) is not None
    return header.kid if is_ours else None


def verify_token(token: str, key: PublicKey) -> Claims | None:
    """The claims, if this key signed the token, it is issued by and for us, and its lifetime is at most LIFETIME; None
    for any other token. Does not check whether the token has expired.
    """
    imported = OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": _b64(key.raw)})
    try:
        claims = msgspec.convert(jwt.decode(token, imported, algorithms=[ALGORITHM]).claims, Claims)
    except (JoseError, ValueError, TypeError, msgspec.ValidationError):  # TypeError: a header of other types
        return None
    lifetime_s = claims.exp - claims.iat
    return claims if (claims.iss, claims.aud) == (ISSUER, ISSUER) and 0 < lifetime_s <= _LIFETIME_S else None


def _b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")
