"""Access tokens of dashboard sessions: JWTs (RFC 9068) that one process signs with Ed25519 and all others verify.

A token states the user and the session (`sub`, `sid`, `org`), how the user was authenticated (`amr`), and when the
token expires. A token contains no permissions: permissions are looked up at every request.

`publish_key` and the functions below it store the public halves of signing keys in the database. A control process
publishes its key when it starts, and then every PUBLISH_INTERVAL (an hour). A key that was not published for
TRUST_WINDOW is no longer trusted, and a withdrawn key is not trusted either. To replace a key, an operator replaces the
key's file and restarts the process. Each of several machines has its own key.

`JwtVerifier` returns the session id of a token. The signature of a token never changes, so each process verifies the
signature once and caches the result. The result of the check that the key is trusted is at most five seconds old. The
session is looked up like any other credential (`chassis.auth.credential_guards`).
"""

import base64
import re
from collections import OrderedDict
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Annotated, Any, Final, NamedTuple, Self

import msgspec
import sqlalchemy as sa
from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from joserfc import jwt
from joserfc.errors import JoseError
from joserfc.jwk import OKPKey
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.cache import CacheLimits, CacheMetrics, LookupCache
from chassis.auth.grants import INVALID_TOKEN
from chassis.auth.tables import new_id, signing_keys
from chassis.db.database import Database, to_milliseconds
from chassis.errors import CredentialExpired, Unauthorized
from proto.identity import hash_secret

ALGORITHM: Final = "Ed25519"  # RFC 9864; "EdDSA" does not name the curve
TYPE: Final = "at+jwt"
ISSUER: Final = "sluice"
CLIENT: Final = "sluice"  # RFC 9068, 2.2: the client of the session; all sessions have this client
LIFETIME: Final = timedelta(minutes=15)
_LIFETIME_S: Final = int(LIFETIME.total_seconds())
MAX_LENGTH: Final = 2_048  # characters of a token; tokens of Sluice have about 500
_THUMBPRINT: Final = re.compile(r"[A-Za-z0-9_-]{43}")


_EpochSeconds = Annotated[int, msgspec.Meta(ge=0, le=253_402_300_799)]  # epoch seconds, up to the year 9999


class _Header(msgspec.Struct, forbid_unknown_fields=True):  # tokens of Sluice never have other fields such as `crit`
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
    """Signs with one key. The key id is the thumbprint of the public half (RFC 7638), so all processes derive the same
    id.
    """

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
    """The key id in a token's header, or None if the token does not have Sluice's format. Does not verify the
    signature.
    """
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
    """The claims of the token, or None unless this key signed it, Sluice is its issuer and audience, and its lifetime
    is at most LIFETIME. Does not check whether the token has expired.
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


TRUST_WINDOW: Final = timedelta(days=7)
KEEP_UNSEEN_FOR: Final = timedelta(days=90)  # unpublished keys are kept for this long, to investigate old signatures
PUBLISH_INTERVAL: Final = timedelta(hours=1)
MAX_SHOWN: Final = 100


class StoredKey(NamedTuple):
    """A published key."""

    kid: str
    created_at: datetime
    seen_at: datetime
    withdrawn_at: datetime | None

    def trusted_at(self, now: datetime) -> bool:
        """Whether its signatures are valid at `now`."""
        return self.withdrawn_at is None and self.seen_at > now - TRUST_WINDOW


async def publish_key(connection: AsyncConnection, key: PublicKey, now: datetime) -> bool:
    """Record that the key is in use, and delete keys that were not published for KEEP_UNSEEN_FOR. Returns False when
    the key is withdrawn. A withdrawn key cannot be published again.
    """
    is_key, is_unseen = signing_keys.c.kid == key.kid, signing_keys.c.seen_at <= now - KEEP_UNSEEN_FOR
    await connection.execute(signing_keys.delete().where(is_unseen, signing_keys.c.withdrawn_at.is_(None)))
    if (await connection.execute(signing_keys.update().where(is_key).values(seen_at=now))).rowcount == 0:
        row = {"kid": key.kid, "public_key": key.raw, "created_at": now, "seen_at": now}
        await connection.execute(signing_keys.insert().values(row))
    return await connection.scalar(sa.select(signing_keys.c.withdrawn_at).where(is_key)) is None


async def find_key(connection: AsyncConnection, kid: str, now: datetime) -> PublicKey | None:
    """The key with this id, if it is trusted."""
    statement = sa.select(signing_keys).where(signing_keys.c.kid == kid, _trusted(now))
    row = (await connection.execute(statement)).one_or_none()
    return None if row is None else PublicKey(row.kid, bytes(row.public_key))


async def list_trusted_keys(connection: AsyncConnection, now: datetime) -> list[PublicKey]:
    """At most MAX_SHOWN trusted keys, the most recently published first."""
    statement = sa.select(signing_keys).where(_trusted(now)).order_by(signing_keys.c.seen_at.desc(), signing_keys.c.kid)
    return [PublicKey(row.kid, bytes(row.public_key)) for row in await connection.execute(statement.limit(MAX_SHOWN))]


async def list_all_keys(connection: AsyncConnection, limit: int) -> list[StoredKey]:
    """At most `limit` of all stored keys, the most recently published first."""
    columns = [signing_keys.c[name] for name in StoredKey._fields]
    statement = sa.select(*columns).order_by(signing_keys.c.seen_at.desc(), signing_keys.c.kid).limit(limit)
    return [StoredKey(*row) for row in await connection.execute(statement)]


async def withdraw_key(connection: AsyncConnection, kid: str, now: datetime) -> bool:
    """Invalidate all signatures of the key, past and future; idempotent. False when there is no such key."""
    is_key = signing_keys.c.kid == kid
    not_withdrawn = signing_keys.c.withdrawn_at.is_(None)
    await connection.execute(
        signing_keys.update().where(is_key, not_withdrawn).values(withdrawn_at=to_milliseconds(now))
    )
    return await connection.scalar(sa.select(signing_keys.c.kid).where(is_key)) is not None


def _trusted(now: datetime) -> sa.ColumnElement[bool]:
    return signing_keys.c.withdrawn_at.is_(None) & (signing_keys.c.seen_at > now - TRUST_WINDOW)


MAX_CACHED_TOKENS: Final = 10_000  # tokens; about 300 bytes each
SKEW: Final = timedelta(minutes=1)  # the clock of the signing process may be ahead by at most this much
LIMITS: Final = CacheLimits(fresh_s=5.0, stale_s=3_600.0, max_known=100, max_unknown=1_000)  # of public keys


class _VerifiedJwt(NamedTuple):
    kid: str
    session_id: str
    expires_at: datetime


class JwtVerifier:
    """Verifies access tokens and finds their sessions."""

    def __init__(
        self, database: Database, metrics: CacheMetrics, *, clock: Callable[[], float], now: Callable[[], datetime]
    ) -> None:
        self._database = database
        self._now = now
        self._keys: LookupCache[str, PublicKey] = LookupCache("signing_key", self._fetch_key, LIMITS, clock, metrics)
        self._verified: OrderedDict[bytes, _VerifiedJwt] = OrderedDict()

    async def verify_session(self, token: str) -> str:
        """The session id. Raises Unauthorized for an invalid token, CredentialExpired for an expired one,
        ServiceUnavailable when the key cannot be looked up.
        """
        digest = hash_secret(token)
        verified = self._verified.get(digest)
        if verified is None:
            verified = await self._verify(token)
            self._cache_verified(digest, verified)
        elif await self._key(verified.kid) is None:
            raise Unauthorized(INVALID_TOKEN)
        if verified.expires_at <= self._now():
            raise CredentialExpired(INVALID_TOKEN)
        return verified.session_id

    async def close(self) -> None:
        """Cancel pending lookups."""
        await self._keys.close()

    async def _verify(self, token: str) -> _VerifiedJwt:
        kid = unverified_key_id(token)
        key = None if kid is None else await self._key(kid)
        claims = None if key is None else verify_token(token, key)
        if key is None or claims is None or claims.expires_at > self._now() + LIFETIME + SKEW:
            raise Unauthorized(INVALID_TOKEN)
        return _VerifiedJwt(key.kid, claims.sid, claims.expires_at)

    async def _key(self, kid: str) -> PublicKey | None:
        return self._keys.peek(kid) or await self._keys.get(kid)

    def _cache_verified(self, digest: bytes, verified: _VerifiedJwt) -> None:
        self._verified[digest] = verified
        while len(self._verified) > MAX_CACHED_TOKENS:
            self._verified.popitem(last=False)

    async def _fetch_key(self, kid: str) -> PublicKey | None:
        async with self._database.read() as connection:
            return await find_key(connection, kid, self._now())
