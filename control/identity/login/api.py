"""`/auth/login` and `/auth/exchange` start a session. `/auth/refresh` and `/auth/switch` continue it, the latter in
another organization, and `/auth/logout` ends it. `/auth/keys` lists the public keys of access tokens.
"""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec
import sqlalchemy as sa
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.grants import FEDERATED, SECOND_FACTORS, any_disabled, common_scopes, load_membership_statuses
from chassis.errors import BadRequest, Forbidden, Issue, MfaRequired, Unauthorized
from chassis.http.access import anonymous
from chassis.http.declaration import route
from chassis.http.route import ResponseSpec, json_content
from chassis.http.web import RATE_LIMITS, json_response, request_id
from chassis.limits.limiter import LimitClass
from control.audit.record import Actor, record
from control.http.field_types import Slug
from control.identity.bodies import MfaCodeInput, PasswordInput, SecretInput, SessionRequest
from control.identity.login import credentials
from control.identity.login.authentication import INVALID_CREDENTIALS, Authenticator, select_organization
from control.identity.login.challenge import ChallengeError
from control.identity.login.credentials import (
    SESSION,
    KeyWithdrawn,
    SessionHandlers,
    StartedSession,
)
from control.identity.login.throttle import InvalidCredentials, LoginAttempt
from control.identity.users import login_store, session_store, user_store
from control.identity.users.session_store import IssuedSession, Session
from proto.identity import PrincipalKind

FEDERATED_ELSEWHERE: Final = (
    "A session through an identity provider is valid only in the organization of that provider. Log in to the other "
    "organization."
)


class Refresh(SessionRequest, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The refresh token of the session to refresh or to end. With `cookie`, the cookie has the token."""

    refresh_token: SecretInput | None = None


class Switch(Refresh, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """The organization to switch to, and the refresh token of the session. With `cookie`, the cookie has the token."""

    org_slug: Slug


class Sessions(SessionHandlers):
    """Handlers of sessions, and their dependencies."""

    @route("POST", "/auth/refresh", anonymous(), errors=(401, 403), responses=(SESSION,))
    async def refresh_session(self, body: Refresh, request: web.Request) -> web.StreamResponse:
        """Refresh a session.

        Consumes the refresh token. Reuse of a consumed token ends the session, because the token may be stolen. Within
        ten seconds the token is still accepted, because the response may have been lost.
        """

        async def refreshed(connection: AsyncConnection, issued: IssuedSession) -> StartedSession:
            return issued, await user_store.get_user(connection, issued.session.principal_id)

        continued = await self._continue(request, body, lambda session: session.id, refreshed)
        if continued is not None:
            return self.issuer.respond(*continued, in_cookie=body.cookie)
        if body.cookie:  # a browser that returns after its session has ended has done nothing wrong
            raise Unauthorized("The session has ended.", headers=credentials.clearing_headers())
        await request.app[RATE_LIMITS].record_address_failure(request, LimitClass.FAILED_BEARER)
        raise Unauthorized("The refresh token is not valid.")

    @route("POST", "/auth/switch", anonymous(), errors=(401, 403), responses=(SESSION,))
    async def switch_organization(self, body: Switch, request: web.Request) -> web.StreamResponse:
        """Continue in another organization.

        The user must be a member of both organizations. Consumes the refresh token as `/auth/refresh` does, ends the
        session and starts a new session, which ends no later. The rules of a login apply: 401 `mfa_required` while the
        second factor is pending, 403 if the other organization requires single sign-on. A session through an identity
        provider also gets 403, because the provider counts in its own organization only. After a refusal the session
        continues, and its refresh token stays valid.
        """

        async def switched(connection: AsyncConnection, issued: IssuedSession) -> StartedSession:
            return await _switch(connection, request, issued.session, body.org_slug)

        # Limited by user, because every switch creates a session.
        continued = await self._continue(request, body, lambda session: session.principal_id, switched)
        if continued is not None:
            self.context.guards.invalidate_sessions(continued[1].id)
            return self.issuer.respond(*continued, in_cookie=body.cookie)
        if not body.cookie or credentials.read_refresh_token(request):  # a browser without a session has no cookie
            await request.app[RATE_LIMITS].record_address_failure(request, LimitClass.FAILED_BEARER)
        raise Unauthorized("The refresh token is not valid.")

    @route(
        "POST",
        "/auth/logout",
        anonymous(),
        errors=(403,),
        responses=(ResponseSpec("The session has ended.", status=204),),
    )
    async def logout(self, body: Refresh, request: web.Request) -> web.StreamResponse:
        """End a session.

        The access tokens of the session stop working in this process at once. In other processes they stop working at
        once with Redis, otherwise within five seconds. The refresh token of an ended or unknown session gets the same
        response.
        """
        refresh_token = _given_refresh_token(request, body)
        async with self.context.database.write() as connection:
            session = await session_store.find_by_token(connection, refresh_token)
            ended = session is not None and await _end(connection, request, session, "logout")
        if session is None and not body.cookie:  # as in `refresh_session`
            await request.app[RATE_LIMITS].record_address_failure(request, LimitClass.FAILED_BEARER)
        if session is not None and ended:
            self.context.guards.invalidate_sessions(session.principal_id)
        response = web.Response(status=204)
        if body.cookie:
            credentials.clear_refresh_token(response)
        return response

    async def _continue(
        self,
        request: web.Request,
        body: Refresh,
        limited_by: Callable[[Session], str],
        make: Callable[[AsyncConnection, IssuedSession], Awaitable[StartedSession]],
    ) -> StartedSession | None:
        """Refresh the session of the refresh token and return the result of `make`. The refresh token is consumed
        unless `make` raises. None if the token is not valid. A token that was used before, or whose user may not
        continue, ends its session. Raises BadRequest. Raises RateLimited for a session that is refreshed too often.
        """
        refresh_token = _given_refresh_token(request, body)
        await self.issuer.ensure_key_published()
        async with self.context.database.read() as connection:
            session = await session_store.find_by_token(connection, refresh_token)
        if session is not None:
            await request.app[RATE_LIMITS].take(request, LimitClass.REFRESH, limited_by(session))
        async with self.context.database.write() as connection:
            issued, invalid, reason = await _try_refresh(connection, refresh_token, datetime.now(UTC))
            if issued is not None:
                return await make(connection, issued)
            ended = invalid is not None and await _end(connection, request, invalid, reason)
        if invalid is not None and ended:
            self.context.guards.invalidate_sessions(invalid.principal_id)
        return None


def _given_refresh_token(request: web.Request, body: Refresh) -> str:
    """The refresh token of the body or of the cookie. Raises BadRequest if the request has both or neither."""
    if body.cookie == (body.refresh_token is not None):
        issue = Issue("body.refreshToken", "Either `refreshToken` or `cookie` must be given.", "required")
        raise BadRequest("The request body is not valid.", [issue])
    return credentials.read_refresh_token(request) if body.refresh_token is None else body.refresh_token


async def _try_refresh(
    connection: AsyncConnection, refresh_token: str, now: datetime
) -> tuple[IssuedSession | None, Session | None, str]:
    """The refreshed session. If it cannot be refreshed, the session to end, if any, and the reason."""
    found = await session_store.refresh(connection, refresh_token, now)
    if not isinstance(found, IssuedSession):
        return None, found, "a refresh token was used twice"
    if not await is_active_member(connection, found.session.org_id, found.session.principal_id):
        return None, found.session, "the user of the session is no longer a member"
    if not await session_store.may_continue(connection, found.session):
        return None, found.session, "the organization requires single sign-on"
    return found, None, ""


async def is_active_member(connection: AsyncConnection, org_id: str, principal_id: str) -> bool:
    """Whether the user is a member of the organization, and not disabled."""
    found = await load_membership_statuses(connection, org_id, [principal_id])
    return not any_disabled(found) and common_scopes(found, None) is not None


async def _switch(connection: AsyncConnection, request: web.Request, session: Session, org_slug: str) -> StartedSession:
    """Start the session in the other organization. Raises Forbidden, MfaRequired."""
    if FEDERATED in session.methods:
        raise Forbidden(FEDERATED_ELSEWHERE)
    user = await user_store.get_user(connection, session.principal_id)
    if user.has_factor and SECOND_FACTORS.isdisjoint(session.methods):
        raise MfaRequired
    org_id = await select_organization(connection, user, org_slug, naming=False)
    break_glass = await session_store.check_password_login(connection, org_id, user.id)
    moved = await session_store.replace(connection, session.id, datetime.now(UTC), org_id=org_id)
    await record_event(connection, request, session, "session.end", reason="switch")
    await record_start(connection, request, moved.session, break_glass=break_glass, switched=True)
    return moved, user


async def _end(connection: AsyncConnection, request: web.Request, session: Session, reason: str) -> bool:
    """End the session. False if it had ended before."""
    ended = await session_store.end(connection, session.id, datetime.now(UTC))
    if ended:
        await record_event(connection, request, session, "session.end", reason=reason)
    return ended


async def record_start(
    connection: AsyncConnection, request: web.Request, session: Session, *, break_glass: bool = False, **more: object
) -> None:
    """Record that a session has begun. `break_glass`: the login used a password, although the organization requires
    single sign-on.
    """
    data = {"methods": list(session.methods), **more} | ({"breakGlass": True} if break_glass else {})
    await record_event(connection, request, session, "session.start", **data)


async def record_event(
    connection: AsyncConnection, request: web.Request, session: Session, action: str, **data: object
) -> None:
    """Record an event in the session's organization."""
    actor = Actor(session.org_id, session.principal_id, PrincipalKind.USER, token_id=session.id)
    await record(connection, actor, action, session.id, data, request_id(request))


LOGIN_CODE: Final = "code"  # Sluice's own amr value: a one-time code that an operator has created


class Login(LoginAttempt, frozen=True, forbid_unknown_fields=True, rename="camel", kw_only=True):
    """Credentials. `orgSlug` selects the organization and its account. Without `orgSlug`, the account that has verified
    the address is used if the password is right for it, otherwise another account that has this password.
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
    "Too many attempts. See `Retry-After`, or solve the challenge.", json_content(ChallengeError), 429
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

        A user with a second factor sends its code as `totp`. Without a code, requests of the session get 401
        `mfa_required` until `/auth/totp/verify` has accepted a code. 400 without `orgSlug` if the user is a member of
        several organizations, or if several accounts with an unverified address have the password. 403 if the
        organization requires single sign-on, except for the one owner whose password is still admitted. 429 with a
        `challenge` in `details` if many passwords were tried for the account from addresses that it has not logged in
        from. An attempt from such an address then needs the `challenge`, which is valid once within five minutes, and a
        `proof`, or a `linkSecret`.
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

        `sluice open` creates the code, which is valid once within ten minutes. The session has one factor: if the
        account has a second factor, requests get 401 `mfa_required` until `/auth/totp/verify` has accepted a code.
        """
        await self.issuer.ensure_key_published()
        now = datetime.now(UTC)
        async with self.context.database.write() as connection:
            code = await login_store.spend_code(connection, body.code, now)
            found = None if code is None else await self._start_session_by_code(connection, request, code, now)
        if found is None:
            await request.app[RATE_LIMITS].record_address_failure(request, LimitClass.FAILED_BEARER)
            raise Unauthorized("The code is unknown, was used, or has expired. Create another code with `sluice open`.")
        return self.issuer.respond(*found, in_cookie=body.cookie)

    @route("GET", "/auth/keys", anonymous(), responses=(ResponseSpec("Public keys.", json_content(KeySet)),))
    async def list_signing_keys(self) -> web.StreamResponse:
        """List the public keys of access tokens."""
        with suppress(KeyWithdrawn):  # keys of other processes are still trusted
            await self.issuer.ensure_key_published()
        found = await self.issuer.trusted_keys()
        return json_response({"keys": [key.jwk() for key in found]}, headers={"Cache-Control": "public, max-age=300"})

    async def _start_session_by_code(
        self, connection: AsyncConnection, request: web.Request, code: sa.Row[*tuple[Any, ...]], now: datetime
    ) -> StartedSession | None:
        """Start the session. None if the user is no longer a member. Raises Forbidden."""
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
        """Start a session of an authenticated user. Returns the session, and the user as of this transaction. If no
        session is started, no code is consumed. Raises InvalidCredentials, Forbidden, BadRequest.
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
