"""The check of a session's access token: verifies the signature and returns the session id.

A signature is verified once per token and process, and the result is cached: it does not change. Whether the key is
trusted is at most five seconds old; whether the session still exists is looked up like any other credential
(`chassis.auth.bearer`).
"""

from collections import OrderedDict
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Final, NamedTuple

from chassis.auth.cache import CacheLimits, CacheMetrics, LookupCache
from chassis.auth.grants import INVALID_TOKEN
from chassis.auth.jwt import LIFETIME, PublicKey, unverified_key_id, verify_token
from chassis.auth.signing_keys import find_key
from chassis.db.database import Database
from chassis.errors import CredentialExpired, Unauthorized
from proto.identity import hash_secret

MAX_CACHED_TOKENS: Final = 10_000  # tokens; about 300 bytes each
SKEW: Final = timedelta(minutes=1)  # that the clock of the signing process may be ahead
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
