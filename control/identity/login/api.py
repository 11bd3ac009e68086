"""`/auth/login` and `/auth/exchange`: how a session begins; and the public keys of access tokens."""

from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec
import sqlalchemy as sa
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.errors import Unauthorized
from chassis.http.access import anonymous
from chassis.http.declaration import route
from chassis.http.route import ResponseSpec, json_content
from chassis.http.web import RATE_LIMITS, json_response
from chassis.limits.limiter import LimitClass
from control.identity.bodies import MfaCodeInput, PasswordInput, SecretInput, SessionRequest
from control.identity.login.authentication import INVALID_CREDENTIALS, Authenticator, select_organization
from control.identity.login.challenge import ChallengeError
from control.identity.login.credentials import SESSION, KeyWithdrawn, SessionHandlers, StartedSession
from control.identity.login.sessions import is_active_member, record_start
from control.identity.login.throttle import InvalidCredentials, LoginAttempt
from control.identity.users import login_store, session_store, user_store

LOGIN_CODE: Final = "code"  # amr value of our own: a one-time code that an operator has created


class Login(LoginAttempt, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """Credentials. `orgSlug` selects the organization, and with it the account. Without it, it is the account that has
    verified the address if the password is right for it, else the one of the others that it is right for.
    """

    password: PasswordInput
    totp: MfaCodeInput | None = None


class CodeExchange(SessionRequest, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A one-time code of `sluice open`."""

    code: SecretInput


class Jwk(msgspec.Struct, frozen=True):
    """A public key (RFC 8037)."""

    kty: str
    crv: str
    x: str
    kid: str
    use: str
    alg: str


class KeySet(msgspec.Struct, frozen=True):
    """Public keys that verify access tokens of sessions (RFC 7517)."""

    keys: Annotated[list[Jwk], Meta(max_length=100)]


CHALLENGED: Final = ResponseSpec(
    "Too many attempts; see `Retry-After`, or solve the challenge.", json_content(ChallengeError), 429
)
CODE: Final = {"code": "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg"}
LOGIN: Final = {"email": "ada@example.org", "password": "correct horse battery"}


@dataclass(frozen=True, slots=True)
class Logins(SessionHandlers):
    """Handlers of logins, and their dependencies."""

    authenticator: Authenticator

    @route("POST", "/auth/login", anonymous(), errors=(401, 403), example=LOGIN, responses=(SESSION, CHALLENGED))
    async def login(self, body: Login, request: web.Request) -> web.StreamResponse:
        """Log in with a password.

        A user with a second factor sends its code as `totp`. Without it, requests of the session get 401 `mfa_required`
        until `/auth/totp/verify` has accepted a code. 400 without `orgSlug` if the user is a member of several
        organizations, or if several accounts with an unverified address have the password. 403 if the organization
        requires single sign-on, for everyone but the owner who keeps a way in. 429 with a `challenge` in `details` if
        many passwords were tried at the account from addresses that it has not logged in from: an attempt from such an
        address then needs the `challenge`, which is good once for five minutes, and a `proof`, or a `linkSecret`.
        """
        await self.issuer.ensure_key_published()
        async with self.authenticator.throttle.login(request, body) as accounts:
            user = await self.authenticator.find_account(request, body, accounts, body.password)
            code_attempt = self.authenticator.code_attempt(request, user, body.totp)
            async with code_attempt, self.context.database.write() as connection:
                issued, user = await self._start_session(connection, request, user, body)
        return self.issuer.respond(issued, user, in_cookie=body.cookie)

    @route("POST", "/auth/exchange", anonymous(), errors=(401, 403), example=CODE, responses=(SESSION,))
    async def exchange_login_code(self, body: CodeExchange, request: web.Request) -> web.StreamResponse:
        """Log in with a one-time code.

        `sluice open` creates it. It is valid for ten minutes, once. The user has a session of one factor: 401
        `mfa_required` until `/auth/totp/verify` has accepted a code, if the account has a second one.
        """
        await self.issuer.ensure_key_published()
        now = datetime.now(UTC)
        async with self.context.database.write() as connection:
            code = await login_store.spend_code(connection, body.code, now)
            found = None if code is None else await self._start_session_by_code(connection, request, code, now)
        if found is None:
            await request.app[RATE_LIMITS].record_address_failure(request, LimitClass.FAILED_BEARER)
            raise Unauthorized("The code is unknown, was used, or has expired: `sluice open` creates another one.")
        return self.issuer.respond(*found, in_cookie=body.cookie)

    @route("GET", "/auth/keys", anonymous(), responses=(ResponseSpec("Public keys.", json_content(KeySet)),))
    async def list_signing_keys(self) -> web.StreamResponse:
        """List the public keys of access tokens."""
        with suppress(KeyWithdrawn):  # keys of other processes are still trusted
            await self.issuer.ensure_key_published()
        found = await self.issuer.trusted_keys()
        headers = {"Cache-Control": "public, max-age=300"}
        return json_response({"keys": [key.jwk() for key in found]}, headers=headers)

    async def _start_session_by_code(
        self, connection: AsyncConnection, request: web.Request, code: sa.Row[*tuple[Any, ...]], now: datetime
    ) -> StartedSession | None:
        """None if the user is no member any more. Raises SsoRequired."""
        if not await is_active_member(connection, code.org_id, code.principal_id):
            return None
        await session_store.check_password_login(connection, code.org_id, code.principal_id)
        user = await user_store.get_user(connection, code.principal_id)
        issued = await session_store.start(connection, code.org_id, user.id, (LOGIN_CODE,), now)
        if not user.has_factor:
            await self.authenticator.throttle.remember_address(connection, request, user.id)
        await record_start(connection, request, issued.session)
        return issued, user

    async def _start_session(
        self, connection: AsyncConnection, request: web.Request, authenticated: user_store.User, body: Login
    ) -> StartedSession:
        """Start a session of an authenticated user; returns it and the user as of this transaction. If no session is
        started, no code is consumed. Raises InvalidCredentials, Forbidden, BadRequest.
        """
        user = await user_store.reload_if_unchanged(connection, authenticated)
        if user is None:
            raise InvalidCredentials(INVALID_CREDENTIALS)
        methods = await self.authenticator.auth_methods(connection, user, body.totp)
        mfa_pending = user.has_factor and len(methods) == 1
        org_id = await select_organization(connection, user, body.org_slug, naming=not mfa_pending)
        break_glass = await session_store.check_password_login(connection, org_id, user.id)
        issued = await session_store.start(connection, org_id, user.id, methods, datetime.now(UTC))
        if not mfa_pending:
            await self.authenticator.throttle.remember_address(connection, request, user.id)
        await record_start(connection, request, issued.session, break_glass=break_glass)
        return issued, user
