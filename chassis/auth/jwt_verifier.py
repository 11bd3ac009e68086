"""The check of a session's access token: whose signature it bears, and which session it speaks for.

A signature is checked once per token and process, and remembered: it does not change. Whether its key is believed is
as of at most five seconds ago; whether the session lives on is looked up like any other credential
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
SKEW: Final = timedelta(minutes=1)  # that the clock of who signs may be ahead
LIMITS: Final = CacheLimits(fresh_s=5.0, stale_s=3_600.0, max_known=100, max_unknown=1_000)  # of public keys


class _VerifiedJwt(NamedTuple):
    kid: str
    session_id: str
    expires_at: datetime


class JwtVerifier:
    """Finds the session of a token."""

    def __init__(
        self, database: Database, metrics: CacheMetrics, *, clock: Callable[[], float], now: Callable[[], datetime]
    ) -> None:
        self._database = database
        self._now = now
        self._keys: LookupCache[str, PublicKey] = LookupCache("signing_key", self._fetch_key, LIMITS, clock, metrics)
        self._verified: OrderedDict[bytes, _VerifiedJwt] = OrderedDict()

    async def verify_session(self, token: str) -> str:
        """Raises Unauthorized for what is no token of ours, Outlived for an expired one; ServiceUnavailable."""
        digest = hash_secret(token)
        checked = self._verified.get(digest)
        if checked is None:
            checked = await self._verify(token)
            self._cache_verified(digest, checked)
        elif await self._key(checked.kid) is None:
            raise Unauthorized(INVALID_TOKEN)
        if checked.expires_at <= self._now():
            raise CredentialExpired(INVALID_TOKEN)
        return checked.session_id

    async def close(self) -> None:
        """End look-ups under way."""
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

    def _cache_verified(self, digest: bytes, checked: _VerifiedJwt) -> None:
        self._verified[digest] = checked
        while len(self._verified) > MAX_CACHED_TOKENS:
            self._verified.popitem(last=False)

    async def _fetch_key(self, kid: str) -> PublicKey | None:
        async with self._database.read() as connection:
            return await find_key(connection, kid, self._now())
