"""Access tokens of dashboard sessions: JWTs (RFC 9068) that one process signs with Ed25519 and every other can check.

A token says who and which session (`sub`, `sid`, `org`), how they were authenticated (`amr`), and until when. What they
may do is not in it: that is looked up at every request.
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

ALGORITHM: Final = "Ed25519"  # RFC 9864; "EdDSA" says less
TYPE: Final = "at+jwt"
ISSUER: Final = "sluice"
CLIENT: Final = "sluice"  # RFC 9068, 2.2: whose client the session is in; there is none but ours
LIFETIME: Final = timedelta(minutes=15)
_LIFETIME_S: Final = int(LIFETIME.total_seconds())
MAX_LENGTH: Final = 2_048  # characters of a token; ours have about 500
_THUMBPRINT: Final = re.compile(r"[A-Za-z0-9_-]{43}")


_EpochSeconds = Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799)]  # epoch seconds, up to the year 9999


class _Header(msgspec.Struct, forbid_unknown_fields=True):  # `crit`, `jwk` and others say what we never sign
    alg: str
    typ: str
    kid: str


class Claims(msgspec.Struct, frozen=True):
    """What a token says."""

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
        """The same as a time."""
        return datetime.fromtimestamp(self.exp, UTC)


class PublicKey(NamedTuple):
    """The half that checks: 32 bytes, and what they are called."""

    kid: str
    raw: bytes

    def jwk(self) -> dict[str, Any]:
        """As a key set shows it (RFC 8037)."""
        return {"kty": "OKP", "crv": "Ed25519", "x": _b64(self.raw), "kid": self.kid, "use": "sig", "alg": ALGORITHM}


class JwtSigner:
    """Signs with one key. Its name is the thumbprint of its public half (RFC 7638), so it is the same everywhere."""

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
        """A token that is good for LIFETIME from `now`."""
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
    """Name of the key that a token says it is signed with; None for what is no token of ours, whoever signed it."""
    head, _, rest = token.partition(".")
    if len(token) > MAX_LENGTH or rest.count(".") != 1:
        return None
    try:
        header = msgspec.json.decode(base64.urlsafe_b64decode(head + "=" * (-len(head) % 4)), type=_Header)
    except (ValueError, msgspec.MsgspecError):
        return None
    ours = (header.alg, header.typ) == (ALGORITHM, TYPE) and _THUMBPRINT.fullmatch(header.kid) is not None
    return header.kid if ours else None


def verify_token(token: str, key: PublicKey) -> Claims | None:
    """What the token says, when this key has signed it, it is meant for us and good for no longer than ours are;
    whether it is still good is not looked at. None for any other.
    """
    imported = OKPKey.import_key({"kty": "OKP", "crv": "Ed25519", "x": _b64(key.raw)})
    try:
        claims = msgspec.convert(jwt.decode(token, imported, algorithms=[ALGORITHM]).claims, Claims)
    except (JoseError, ValueError, TypeError, msgspec.ValidationError):  # TypeError: a header of other types
        return None
    lasting = claims.exp - claims.iat
    return claims if (claims.iss, claims.aud) == (ISSUER, ISSUER) and 0 < lasting <= _LIFETIME_S else None


def _b64(raw: bytes) -> str:
    return base64.urlsafe_b64encode(raw).rstrip(b"=").decode("ascii")
