"""Limits login attempts: one at a time per account, and none for a while after several failures."""

import asyncio
import hashlib
from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field

from aiohttp import web

from chassis.auth.model import AuthenticatedCredential
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
    """Shared by all routes that verify a password or a code.

    A login names an address and perhaps an organization; its failures count for what it named, whether there is such an
    account or not. All else is done in a session, or after the password was right, and counts for the account. So
    failures with one account never lock another one with the same address, and a user whose address somebody else
    tries in vain can still log in by naming the organization.
    """

    def __init__(self) -> None:
        self._locks: dict[str, _AccountLock] = {}

    def login(self, request: web.Request, email: str, org_slug: str | None = None) -> AbstractAsyncContextManager[None]:
        """Surrounds one attempt to log in; InvalidCredentials raised inside counts as a failure. Raises RateLimited
        after too many failures of what is named, or of the client's address.
        """
        return self._attempt(request, _named(email, org_slug))

    def acceptance(self, request: web.Request, email: str, org_id: str) -> AbstractAsyncContextManager[None]:
        """The same for one attempt to accept an invitation of the organization with an existing account. It counts
        apart from logins: who accepts cannot name another organization when strangers have tried the address in vain.
        """
        return self._attempt(request, _named(email, org_id))

    async def count_match(self, request: web.Request, email: str, password_hash: str) -> None:
        """Count a right password of an unverified account in a login that names no organization as a failure, but not
        again and again: it was tried at all accounts of the address, and whoever has one of them can set its password
        to whatever is to be tried at the others. Raises RateLimited.
        """
        limits, account = request.app[RATE_LIMITS], _named(email)
        await limits.record_attempt(request, LimitClass.FAILED_LOGIN, account, _digest(f"{account}\0{password_hash}"))

    def account(self, request: web.Request, caller: AuthenticatedCredential) -> AbstractAsyncContextManager[None]:
        """Surrounds one attempt to confirm the password or a code in a session; InvalidCredentials and
        ReauthenticationFailed raised inside count as failures. Those of a session that an identity provider has vouched
        for count for the account in its organization: whoever controls the provider must not lock the account out of
        others. Raises RateLimited.
        """
        user_id = caller.principal_id
        return self._attempt(request, f"{user_id}:{caller.org_id}" if caller.is_federated else user_id)

    def code(self, request: web.Request, user_id: str) -> AbstractAsyncContextManager[None]:
        """The same for the code in an attempt to log in, which counts for the client's address itself."""
        return self._attempt(request, user_id, of_address=False)

    @asynccontextmanager
    async def _attempt(self, request: web.Request, account: str, *, of_address: bool = True) -> AsyncIterator[None]:
        """Attempts of one account run one at a time, so that parallel requests get no additional guesses."""
        rate_limits = request.app[RATE_LIMITS]
        async with self._account_lock(account):
            await rate_limits.check_address(request, LimitClass.FAILED_BEARER)
            await rate_limits.check_account(request, LimitClass.FAILED_LOGIN, account)
            try:
                yield
            except (InvalidCredentials, ReauthenticationFailed):
                await rate_limits.record_account_failure(request, LimitClass.FAILED_LOGIN, account)
                if of_address:
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


def _named(email: str, org_slug: str | None = None) -> str:
    return _digest(f"{normalize_email(email)}\0{org_slug or ''}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
