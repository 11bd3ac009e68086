"""Authenticates accounts for logins and acceptances: which account a password belongs to, and its second factor."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.db.database import Database
from chassis.errors import BadRequest, Issue
from control.identity import member_repository, user_repository
from control.identity.login_throttle import InvalidCredentials, LoginAttempt, LoginThrottle
from control.identity.mfa_secrets import MfaSecrets
from control.identity.passwords import Passwords
from control.identity.user_repository import User

MAX_NAMED_ORGANIZATIONS: Final = 20  # listed in an error message
INVALID_CREDENTIALS: Final = "The e-mail address, the password, the second factor or the organization is not valid."


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Verifies passwords and codes; callers limit attempts by `throttle.login`."""

    database: Database
    throttle: LoginThrottle
    passwords: Passwords
    mfa_secrets: MfaSecrets

    async def list_accounts(self, email: str, org_slug: str | None) -> Sequence[User]:
        """The accounts that a login is about: the one with this address in the organization; without one, all with the
        address, the verified one first.
        """
        async with self.database.read() as connection:
            if org_slug is None:
                return await user_repository.list_accounts(connection, email)
            found = await user_repository.find_in_organization(connection, email, org_slug)
            return [] if found is None else [found]

    async def find_account(
        self, request: web.Request, attempt: LoginAttempt, accounts: Sequence[User], password: str
    ) -> User:
        """The account that has verified the address, else the only unverified one with this password.
        Raises InvalidCredentials, BadRequest, RateLimited.

        `user_repository.reload_if_unchanged` checks later that the password still matches.
        """
        org_slug = attempt.org_slug
        matching = await self._find_matching(accounts, password)
        if org_slug is None and not matching[0].email_verified:
            await self.throttle.count_match(request, attempt.email, matching[0].password_hash or "")
        if len(matching) > 1 and not matching[0].email_verified:
            raise select_organization_error(await self._organizations_of(matching))
        return await self._renew_hash(matching[0], password)

    async def find_verified_account(self, email: str, password: str) -> User:
        """The account that has verified the address, with the same later check. Raises InvalidCredentials."""
        async with self.database.read() as connection:
            found = await user_repository.find_verified(connection, email)
        matching = await self._find_matching([] if found is None else [found], password)
        return await self._renew_hash(matching[0], password)

    async def _find_matching(self, accounts: Sequence[User], password: str) -> list[User]:
        """The accounts, in order, that have this password: at least one. Raises InvalidCredentials, after the same time
        whether there are accounts or not.
        """
        stored = {user.id: user.password_hash for user in accounts if user.disabled_at is None}
        hashes = [hashed for hashed in stored.values() if hashed is not None]
        matching = await self.passwords.find_matching(hashes, password)
        found = [user for user in accounts if stored.get(user.id) in matching]
        if not found:
            raise InvalidCredentials(INVALID_CREDENTIALS)
        return found

    async def _renew_hash(self, user: User, password: str) -> User:
        """Hash the password, which is the user's, with the current parameters if it is not. Raises InvalidCredentials
        if the user has another one by now.
        """
        if not self.passwords.needs_rehash(user.password_hash or ""):
            return user
        new_hash = await self.passwords.hash(password, salted_like=user.password_hash)
        async with self.database.write() as connection:
            replaced = await user_repository.rehash_password(connection, user, new_hash)
            current = user if replaced else await user_repository.get_user(connection, user.id)
        if not replaced:
            return (await self._find_matching([current], password))[0]
        return replace(user, password_hash=new_hash)

    async def _organizations_of(self, accounts: Sequence[User]) -> list[str]:
        """Slugs of the organizations of several accounts; none while one of them has yet to present its second factor:
        only a fully authenticated user may see them.
        """
        if any(user.has_factor for user in accounts):
            return []
        slugs: set[str] = set()
        async with self.database.read() as connection:
            for user in accounts[:MAX_NAMED_ORGANIZATIONS]:
                found = await member_repository.list_organizations(connection, user.id, MAX_NAMED_ORGANIZATIONS)
                slugs |= {organization.slug for organization, _ in found}
        return sorted(slugs)

    def code_attempt(self, request: web.Request, user: User, code: str | None) -> AbstractAsyncContextManager[None]:
        """Surrounds `auth_methods` and limits failed codes of the account, if there is a code."""
        return nullcontext() if code is None else self.throttle.code(request, user.id)

    async def auth_methods(self, connection: AsyncConnection, user: User, code: str | None) -> tuple[str, ...]:
        """How the user was authenticated, including the second factor if one is enabled and a code was sent. Raises
        InvalidCredentials for a wrong code.
        """
        if code is None or not user.has_factor:
            return ("pwd",)
        method = await self.mfa_secrets.consume_code(connection, user, code, datetime.now(UTC))
        if method is None:
            raise InvalidCredentials(INVALID_CREDENTIALS)
        return ("pwd", method)


def select_organization_error(slugs: Sequence[str]) -> BadRequest:
    """The error of a login that could be to several organizations; it lists `slugs`."""
    named = f": {', '.join(slugs[:MAX_NAMED_ORGANIZATIONS])}" if slugs else ""
    issue = Issue("body.orgSlug", f"Must be the slug of one of your organizations{named}.", "missing")
    return BadRequest("You are a member of several organizations. Select one with orgSlug.", [issue])
