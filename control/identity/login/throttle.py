"""Limits login attempts: one at a time per account and address, and no attempt for a while after several failures.
Passwords that are tried from new addresses count together, and above the limit each attempt needs a proof of work.
"""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager, nullcontext, suppress
from datetime import UTC, datetime
from typing import Annotated
from weakref import WeakValueDictionary

from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthenticatedCredential
from chassis.db.database import Database
from chassis.errors import Forbidden, RateLimited, Unauthorized
from chassis.http.web import RATE_LIMITS
from chassis.limits.limiter import LimitClass
from chassis.limits.rate_limits import LIMIT_RESULT
from control.http.field_types import Slug
from control.identity.bodies import Email, SecretInput, SessionRequest
from control.identity.login.challenge import MAX_PROOF_LENGTH, LoginChallenges, challenge_required, read_browser_secret
from control.identity.users import login_store, user_store
from control.identity.users.user_store import User
from proto.identity import normalize_email


class InvalidCredentials(Unauthorized):
    """401: the password or second factor is wrong, or there is no such account."""


class ReauthenticationFailed(Forbidden):
    """403: the session is valid, but the password or code that should confirm the user's presence is wrong."""


class LoginAttempt(SessionRequest, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """The address and organization of a login, and optional exceptions from the limit of new addresses: a solved
    challenge, or the secret of a mailed link in the browser that asked for it.
    """

    email: Email
    org_slug: Slug | None = None
    challenge: Annotated[
        SecretInput | None, Meta(description="The challenge that the 429 of an earlier attempt contained.")
    ] = None
    proof: Annotated[
        Annotated[str, Meta(max_length=MAX_PROOF_LENGTH)] | None,
        Meta(
            description="The solution of `challenge`. The SHA-256 hash of `challenge` + `proof` (UTF-8) must begin "
            "with `bits` zero bits."
        ),
    ] = None
    link_secret: Annotated[
        SecretInput | None, Meta(description="The secret of a link that `POST /auth/login/link` has mailed.")
    ] = None


class LoginThrottle:
    """Limits attempts of all routes that verify a password or a code.

    A login names an e-mail address and perhaps an organization. Its failures count for these names together with the
    client's address, whether the account exists or not. So failures of a stranger do not lock out a user at another
    client address. Other attempts are made in a session, or after the right password, and count for the account from
    any client address. So failures with one account never lock another account with the same e-mail address.
    """

    def __init__(self, database: Database, challenges: LoginChallenges) -> None:
        self._database = database
        self._challenges = challenges
        self._locks: WeakValueDictionary[str, asyncio.Lock] = WeakValueDictionary()

    @asynccontextmanager
    async def login(self, request: web.Request, attempt: LoginAttempt) -> AsyncIterator[Sequence[User]]:
        """Context of one attempt to log in. InvalidCredentials raised inside counts as a failure. Yields the possible
        accounts, verified ones first. A refused attempt does not look for accounts. Raises RateLimited after too many
        failures for the named account from the client's address, or of the address. Also raises RateLimited with a
        challenge.
        """
        account = _at_address(request, _named(attempt.email, attempt.org_slug))
        async with self._attempt(request, account, LimitClass.FAILED_LOGIN):
            async with self._database.read() as connection:
                accounts = await _list_accounts(connection, attempt)
                is_known = await self._is_known(connection, accounts, request.app[RATE_LIMITS].address_key(request))
            async with nullcontext() if is_known else self._from_new_address(request, attempt):
                yield accounts

    async def remember_address(self, connection: AsyncConnection, request: web.Request, user_id: str) -> None:
        """Store that the account has logged in from the client's address, with its own credentials."""
        address = self._challenges.hash_address(user_id, request.app[RATE_LIMITS].address_key(request))
        await login_store.remember_address(connection, user_id, address, datetime.now(UTC))

    def acceptance(self, request: web.Request, email: str, org_id: str) -> AbstractAsyncContextManager[None]:
        """Context of one attempt to accept an invitation of the organization with an existing account. Failures count
        separately from logins. Otherwise strangers with failed logins could block an acceptance.
        """
        return self._attempt(request, _named(email, org_id))

    async def count_match(self, request: web.Request, email: str, password_hash: str) -> None:
        """Count a right password of an unverified account in a login without an organization as a failure. The same
        password soon afterwards does not count again. Such a login tries the password for all accounts of the address.
        The owner of one account could otherwise set its password to a guess, and so test the guess at the other
        accounts. Raises RateLimited.
        """
        limits, account = request.app[RATE_LIMITS], _at_address(request, _named(email))
        await limits.record_attempt(request, LimitClass.FAILED_LOGIN, account, _digest(f"{account}\0{password_hash}"))
        with suppress(RateLimited):  # above the limit, each attempt has cost a proof of work
            holder = _digest(f"{_named(email)}\0{password_hash}")
            await limits.record_attempt(request, LimitClass.NEW_ADDRESS, _named(email), holder)

    def account(self, request: web.Request, caller: AuthenticatedCredential) -> AbstractAsyncContextManager[None]:
        """Context of one attempt to confirm the password or a code in a session. InvalidCredentials and
        ReauthenticationFailed raised inside count as failures. In a single sign-on session, failures count only for the
        account in its organization, so that the owner of the identity provider cannot lock the account out of other
        organizations. Raises RateLimited.
        """
        user_id = caller.principal_id
        return self._attempt(request, f"{user_id}:{caller.org_id}" if caller.is_federated else user_id)

    def code(self, request: web.Request, user_id: str) -> AbstractAsyncContextManager[None]:
        """Context of one code in an attempt to log in. The attempt itself counts failures for the client's address."""
        return self._attempt(request, user_id, of_address=False)

    @asynccontextmanager
    async def _attempt(
        self,
        request: web.Request,
        account: str,
        limit: LimitClass = LimitClass.FAILED_CODE,
        *,
        of_address: bool = True,
    ) -> AsyncIterator[None]:
        """Run the attempts of one account one at a time, so that parallel requests get no additional guesses."""
        rate_limits = request.app[RATE_LIMITS]
        async with self._account_lock(account):
            await rate_limits.check_address(request, LimitClass.FAILED_BEARER)
            await rate_limits.check_account(request, limit, account)
            try:
                yield
            except (InvalidCredentials, ReauthenticationFailed):
                await rate_limits.record_account_failure(request, limit, account)
                if of_address:
                    await rate_limits.record_address_failure(request, LimitClass.FAILED_BEARER)
                raise

    @asynccontextmanager
    async def _from_new_address(self, request: web.Request, attempt: LoginAttempt) -> AsyncIterator[None]:
        """Count a failure for the account, one attempt at a time. Raises RateLimited with a challenge."""
        limits, account = request.app[RATE_LIMITS], _named(attempt.email)
        async with self._account_lock(account):
            shown = request.get(LIMIT_RESULT)
            try:
                await limits.check_account(request, LimitClass.NEW_ADDRESS, account)
            except RateLimited as refused:
                address = limits.address_key(request)
                if not await self._is_excepted(request, attempt, address):
                    challenge = self._challenges.new_challenge(attempt.email, address)
                    raise challenge_required(challenge, refused.retry_after or 1) from refused
                if shown is not None:
                    request[LIMIT_RESULT] = shown
            try:
                yield
            except InvalidCredentials:
                await limits.admits(LimitClass.NEW_ADDRESS, account)
                raise

    async def _is_known(self, connection: AsyncConnection, accounts: Sequence[User], address: str) -> bool:
        """Whether the account whose password is tried has logged in from the client address. Without a verified
        account, all accounts must have. Otherwise the owner of one account could make the client address known for the
        other accounts by logging in to this account.
        """
        guessed = [user for user in accounts if user.email_verified] or accounts
        hashed = {user.id: self._challenges.hash_address(user.id, address) for user in guessed}
        return await login_store.are_known_addresses(connection, hashed, datetime.now(UTC))

    async def _is_excepted(self, request: web.Request, attempt: LoginAttempt, address: str) -> bool:
        challenge, proof, link_secret = attempt.challenge, attempt.proof, attempt.link_secret
        browser = read_browser_secret(request)
        if link_secret is not None and self._challenges.is_link_secret(link_secret, attempt.email, browser):
            return True
        if challenge is None or proof is None:
            return False
        if not self._challenges.is_solved(challenge, proof, attempt.email, address):
            return False
        return await request.app[RATE_LIMITS].admits(LimitClass.LOGIN_PROOF_OF_WORK, _digest(challenge))

    def _account_lock(self, account: str) -> asyncio.Lock:
        """The lock of an account. It exists while an attempt holds it or waits for it."""
        return self._locks.setdefault(account, asyncio.Lock())


async def _list_accounts(connection: AsyncConnection, attempt: LoginAttempt) -> Sequence[User]:
    """The account with this address in the organization. Without an organization, all accounts with the address, the
    verified account first.
    """
    if attempt.org_slug is None:
        return await user_store.list_accounts(connection, attempt.email)
    found = await user_store.find_in_organization(connection, attempt.email, attempt.org_slug)
    return [] if found is None else [found]


def _at_address(request: web.Request, account: str) -> str:
    return _digest(f"{account}\0{request.app[RATE_LIMITS].address_key(request)}")


def _named(email: str, org_slug: str | None = None) -> str:
    return _digest(f"{normalize_email(email)}\0{org_slug or ''}")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
