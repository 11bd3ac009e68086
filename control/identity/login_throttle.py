"""Limits login attempts: one at a time per account, and none for a while after several failures."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from chassis.errors import Forbidden, Unauthorized
from chassis.http.web import RATE_LIMITS
from chassis.limits.limiter import LimitClass
from proto.identity import normalize_email


class InvalidCredentials(Unauthorized):
    """401: the password or second factor is wrong, or there is no such account."""


class ReauthenticationFailed(Forbidden):
    """403: the session is valid, but the password or code that was to confirm the user's presence is wrong."""


@dataclass
class _AccountLock:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0


class LoginThrottle:
    """Shared by all routes that verify a password or a code."""

    def __init__(self) -> None:
        self._locks: dict[str, _AccountLock] = {}

    @asynccontextmanager
    async def attempt(self, request: web.Request, email: str) -> AsyncIterator[None]:
        """Surrounds one attempt; InvalidCredentials and ReauthenticationFailed raised inside count as failures. Raises
        RateLimited after too many failures of the account or the address; addresses without an account are counted
        alike. Attempts of one account run one at a time, so that parallel requests get no additional guesses.
        """
        account = hashlib.sha256(normalize_email(email).encode("utf-8", "surrogatepass")).hexdigest()
        rate_limits = request.app[RATE_LIMITS]
        async with self._account_lock(account):
            await rate_limits.check_address(request, LimitClass.FAILED_BEARER)
            await rate_limits.check_account(request, LimitClass.FAILED_LOGIN, account)
            try:
                yield
            except (InvalidCredentials, ReauthenticationFailed):
                await rate_limits.record_account_failure(request, LimitClass.FAILED_LOGIN, account)
                await rate_limits.record_address_failure(request, LimitClass.FAILED_BEARER)
                raise

    @asynccontextmanager
    async def _account_lock(self, account: str) -> AsyncIterator[None]:
        entry = self._locks.setdefault(account, _AccountLock())
        entry.waiting += 1
        try:
            async with entry.lock:
                yield
        finally:
            entry.waiting -= 1
            if not entry.waiting:
                del self._locks[account]
