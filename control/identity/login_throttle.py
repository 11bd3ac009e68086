"""Attempts to be somebody: one at a time for each account, and after a few failures none for a while."""

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
    """401: password or second factor are not those of the account, or there is no such account."""


class ReauthenticationFailed(Forbidden):
    """403: the session is good, but what was to confirm that its user is still there is not right."""


@dataclass
class _AccountLock:
    lock: asyncio.Lock = field(default_factory=asyncio.Lock)
    waiting: int = 0


class LoginThrottle:
    """Shared by all routes that compare a password or a code."""

    def __init__(self) -> None:
        self._locks: dict[str, _AccountLock] = {}

    @asynccontextmanager
    async def attempt(self, request: web.Request, email: str) -> AsyncIterator[None]:
        """Around one attempt, which raises NotRecognized or NotConfirmed when it fails. RateLimited after too many
        failures of the account; what is unknown is an account, too. One at a time, so that nobody gets more guesses
        by making them all at once.
        """
        account = hashlib.sha256(normalize_email(email).encode("utf-8", "surrogatepass")).hexdigest()
        admission = request.app[RATE_LIMITS]
        async with self._account_lock(account):
            await admission.check_address(request, LimitClass.FAILED_BEARER)
            await admission.check_account(request, LimitClass.FAILED_LOGIN, account)
            try:
                yield
            except (InvalidCredentials, ReauthenticationFailed):
                await admission.record_account_failure(request, LimitClass.FAILED_LOGIN, account)
                await admission.record_address_failure(request, LimitClass.FAILED_BEARER)
                raise

    @asynccontextmanager
    async def _account_lock(self, account: str) -> AsyncIterator[None]:
        turn = self._locks.setdefault(account, _AccountLock())
        turn.waiting += 1
        try:
            async with turn.lock:
                yield
        finally:
            turn.waiting -= 1
            if not turn.waiting:
                del self._locks[account]
