"""Authenticates accounts for logins and acceptances: finds the account of a password, and verifies its second factor, a
TOTP code (RFC 6238) or a recovery code for a lost device.
"""

import secrets
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Final

from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthenticatedCredential
from chassis.db.database import Database
from chassis.errors import BadRequest, Forbidden, Issue
from control.identity.login.throttle import InvalidCredentials, LoginAttempt, LoginThrottle
from control.identity.members import member_store
from control.identity.users import user_store
from control.identity.users.passwords import Passwords
from control.identity.users.user_store import User
from control.secrets.secret_box import SecretBox
from proto.identity import hash_secret
from proto.totp import (
    RECOVERY_BYTES,
    RECOVERY_CODES,
    SECRET_BYTES,
    matching_step,
    normalize_recovery_code,
    recovery_code,
)

OTP: Final = "otp"  # RFC 8176
RECOVERY: Final = "rc"  # not in RFC 8176


@dataclass(frozen=True, slots=True)
class MfaSecrets:
    """Secrets and codes of second factors. Secrets are stored encrypted, bound to their user."""

    secret_box: SecretBox

    def new_secret(self) -> bytes:
        """A random TOTP secret for an authenticator app."""
        return secrets.token_bytes(SECRET_BYTES)

    def encrypt_secret(self, user_id: str, secret: bytes) -> bytes:
        """The secret in the encrypted form that is stored."""
        return self.secret_box.encrypt(secret, table="users", row=user_id, org="", column="totp_secret")

    async def consume_code(self, connection: AsyncConnection, user: User, code: str, now: datetime) -> str | None:
        """Consume a code of the user. Returns the method that the code proves, OTP or RECOVERY, None if the code is not
        valid.
        """
        recovery = normalize_recovery_code(code)
        if recovery is not None:
            consumed = await user_store.consume_recovery_code(connection, user.id, hash_secret(recovery), now)
            return RECOVERY if consumed else None
        step = self.matching_step(user, code, now)
        if step is None or not await user_store.consume_totp_step(connection, user.id, step):
            return None
        return OTP

    def matching_step(self, user: User, code: str, now: datetime) -> int | None:
        """The TOTP step of the code. None if the code is not current, or not later than the last accepted code."""
        if user.totp_secret is None:
            return None
        secret = self.secret_box.decrypt(user.totp_secret, table="users", row=user.id, org="", column="totp_secret")
        return matching_step(secret, code, now.timestamp(), user.totp_step)

    async def new_recovery_codes(self, connection: AsyncConnection, user_id: str) -> list[str]:
        """Create recovery codes, which are shown only once and replace the earlier codes."""
        codes = [recovery_code(secrets.token_bytes(RECOVERY_BYTES)) for _ in range(RECOVERY_CODES)]
        await user_store.replace_recovery_codes(connection, user_id, map(hash_secret, codes))
        return codes


MAX_ORGANIZATIONS: Final = 1_000  # memberships of one user
MAX_NAMED_ORGANIZATIONS: Final = 20  # listed in an error message
INVALID_CREDENTIALS: Final = "The e-mail address, the password, the second factor or the organization is not valid."


@dataclass(frozen=True, slots=True)
class Authenticator:
    """Verifies passwords and codes. Callers limit attempts with `throttle.login`."""

    database: Database
    throttle: LoginThrottle
    passwords: Passwords
    mfa_secrets: MfaSecrets

    async def find_account(
        self, request: web.Request, attempt: LoginAttempt, accounts: Sequence[User], password: str
    ) -> User:
        """The account that has verified the address, otherwise the only unverified account with this password. Raises
        InvalidCredentials, BadRequest, RateLimited.

        `user_store.reload_if_unchanged` checks later that the password still matches.
        """
        matching = await self._find_matching(accounts, password)
        if attempt.org_slug is None and not matching[0].email_verified:
            await self.throttle.count_match(request, attempt.email, matching[0].password_hash or "")
        if len(matching) > 1 and not matching[0].email_verified:
            raise _select_organization_error(await self._organizations_of(matching))
        return await self._renew_hash(matching[0], password)

    async def load_user(self, caller: AuthenticatedCredential) -> User:
        """The account of a session."""
        async with self.database.read() as connection:
            return await user_store.get_user(connection, caller.principal_id)

    async def find_verified_account(self, email: str, password: str) -> User:
        """The account that has verified the address. The password is checked later as for `find_account`. Raises
        InvalidCredentials.
        """
        async with self.database.read() as connection:
            found = await user_store.find_verified(connection, email)
        matching = await self._find_matching([] if found is None else [found], password)
        return await self._renew_hash(matching[0], password)

    async def _find_matching(self, accounts: Sequence[User], password: str) -> list[User]:
        """The accounts, in order, that have this password: at least one. Raises InvalidCredentials. The check takes the
        same time whether there are accounts or not.
        """
        stored = {user.id: user.password_hash for user in accounts if user.disabled_at is None}
        hashes = [hashed for hashed in stored.values() if hashed is not None]
        matching = await self.passwords.find_matching(hashes, password)
        found = [user for user in accounts if stored.get(user.id) in matching]
        if not found:
            raise InvalidCredentials(INVALID_CREDENTIALS)
        return found

    async def _renew_hash(self, user: User, password: str) -> User:
        """Hash the user's password again if its hash has outdated parameters. Raises InvalidCredentials if the user has
        another password by now.
        """
        if not self.passwords.needs_rehash(user.password_hash or ""):
            return user
        new_hash = await self.passwords.hash(password, salted_like=user.password_hash)
        async with self.database.write() as connection:
            replaced = await user_store.rehash_password(connection, user, new_hash)
            current = user if replaced else await user_store.get_user(connection, user.id)
        if not replaced:
            return (await self._find_matching([current], password))[0]
        return replace(user, password_hash=new_hash)

    async def _organizations_of(self, accounts: Sequence[User]) -> list[str]:
        """Slugs of the organizations of several accounts. None are listed if an account has a second factor, because
        only a fully authenticated user may see its organizations.
        """
        if any(user.has_factor for user in accounts):
            return []
        slugs: set[str] = set()
        async with self.database.read() as connection:
            for user in accounts[:MAX_NAMED_ORGANIZATIONS]:
                found = await member_store.list_organizations(connection, user.id, MAX_NAMED_ORGANIZATIONS)
                slugs |= {organization.slug for organization, _ in found}
        return sorted(slugs)

    def code_attempt(self, request: web.Request, user: User, code: str | None) -> AbstractAsyncContextManager[None]:
        """Context of `auth_methods` that limits failed codes of the account, if a code was sent."""
        return nullcontext() if code is None else self.throttle.code(request, user.id)

    async def auth_methods(self, connection: AsyncConnection, user: User, code: str | None) -> tuple[str, ...]:
        """The methods that authenticated the user, including the second factor if one is enabled and a code was sent.
        Raises InvalidCredentials for a wrong code.
        """
        if code is None or not user.has_factor:
            return ("pwd",)
        method = await self.mfa_secrets.consume_code(connection, user, code, datetime.now(UTC))
        if method is None:
            raise InvalidCredentials(INVALID_CREDENTIALS)
        return ("pwd", method)


def _select_organization_error(slugs: Sequence[str]) -> BadRequest:
    """The error of a login for which several organizations are possible. It lists `slugs`."""
    named = f": {', '.join(slugs[:MAX_NAMED_ORGANIZATIONS])}" if slugs else ""
    issue = Issue("body.orgSlug", f"Must be the slug of one of your organizations{named}.", "missing")
    return BadRequest("You are a member of several organizations. Select one with orgSlug.", [issue])


async def select_organization(connection: AsyncConnection, user: User, org_slug: str | None, *, naming: bool) -> str:
    """The organization to log in to. Raises Forbidden for a user who is not a member of it. Raises BadRequest for a
    user of several organizations who named none. With `naming`, the error lists them, which only a fully authenticated
    user may see.
    """
    found = await member_store.list_organizations(connection, user.id, MAX_ORGANIZATIONS)
    slugs = {organization.slug: organization.id for organization, _ in found}
    if org_slug is None and len(slugs) > 1:
        raise _select_organization_error(list(slugs) if naming else [])
    org_id = next(iter(slugs.values()), None) if org_slug is None else slugs.get(org_slug)
    if org_id is None:
        raise Forbidden(
            "You are not a member of that organization." if org_slug else "You are not a member of any organization."
        )
    return org_id
