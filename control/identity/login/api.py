"""`/auth`: log in, refresh and end a session; list the public keys of access tokens."""

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.membership_status import any_disabled, common_scopes, load_membership_statuses
from chassis.errors import BadRequest, Forbidden, Issue, Unauthorized
from chassis.http.access import anonymous
from chassis.http.declaration import declared_routes, route
from chassis.http.operation import ResponseSpec, json_content
from chassis.http.web import RATE_LIMITS, Route, json_response, request_id
from chassis.limits.limiter import LimitClass
from control.audit.record import Actor, record
from control.http.context import HandlerContext
from control.http.field_types import Slug
from control.identity.bodies import AUTH, Email, InCookie, MfaCodeInput, PasswordInput, SecretInput
from control.identity.login import challenge, credentials
from control.identity.login.authentication import INVALID_CREDENTIALS, Authenticator, select_organization_error
from control.identity.login.challenge import MAX_PROOF_LENGTH, ChallengeError
from control.identity.login.credentials import KeyWithdrawn, SessionIssuer, SessionMaterial, session_response
from control.identity.login.throttle import InvalidCredentials, LoginAttempt, LoginThrottle
from control.identity.members import member_store
from control.identity.users import login_store, session_store, user_store
from control.identity.users.login_store import LoginCode
from control.identity.users.session_store import IssuedSession, RefreshFailure, Session
from control.identity.users.user_store import User
from control.routing.arguments import control_arguments
from proto.identity import PrincipalKind

MAX_ORGANIZATIONS: Final = 1_000  # that one user is a member of
LOGIN_CODE: Final = "code"  # amr value of our own: a one-time code that an operator has created


class Login(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Credentials. `orgSlug` selects the organization, and with it the account. Without it, it is the account that has
    verified the address if the password is right for it, else the one of the others that it is right for.
    """

    email: Email
    password: PasswordInput
    totp: MfaCodeInput | None = None
    org_slug: Slug | None = None
    cookie: InCookie = False
    challenge: Annotated[
        SecretInput | None, Meta(description="The challenge of a 429 to an earlier attempt; `proof` solves it.")
    ] = None
    proof: Annotated[
        Annotated[str, Meta(max_length=MAX_PROOF_LENGTH)] | None,
        Meta(
            description="SHA-256 of the challenge followed directly by the proof (UTF-8) must begin with `bits` zero "
            "bits."
        ),
    ] = None
    link_secret: Annotated[
        SecretInput | None, Meta(description="The secret of a link that `POST /auth/login/link` has mailed.")
    ] = None


class Refresh(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The refresh token of the session to refresh or to end; or `cookie`, which has it."""

    refresh_token: SecretInput | None = None
    cookie: InCookie = False


class CodeExchange(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A one-time code of `sluice open`."""

    code: SecretInput
    cookie: InCookie = False


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


SESSION: Final = ResponseSpec("A session.", json_content(SessionMaterial))
CHALLENGED: Final = ResponseSpec(
    "Too many attempts; see `Retry-After`, or solve the challenge.", json_content(ChallengeError), 429
)
CODE: Final = {"code": "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefg"}
LOGIN: Final = {"email": "ada@example.org", "password": "correct horse battery"}
ENDED: Final = ResponseSpec("The session has ended.", status=204)
KEYS: Final = ResponseSpec("Public keys.", json_content(KeySet))


@dataclass(frozen=True, slots=True)
class Logins:
    """Handlers of login, refresh and logout, and their dependencies."""

    context: HandlerContext
    throttle: LoginThrottle
    authenticator: Authenticator
    issuer: SessionIssuer

    def routes(self) -> list[Route]:
        """Every route of this resource."""
        return declared_routes(self, AUTH, replace(control_arguments(self.context), read_body=self.read_body))

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
        attempt = LoginAttempt(
            email=body.email,
            org_slug=body.org_slug,
            challenge=body.challenge,
            proof=body.proof,
            link_secret=body.link_secret,
            browser=challenge.read_browser_secret(request),
        )
        async with self.throttle.login(request, attempt, self.authenticator.list_accounts) as accounts:
            user = await self.authenticator.find_account(request, attempt, accounts, body.password)
            code_attempt = self.authenticator.code_attempt(request, user, body.totp)
            async with code_attempt, self.context.database.write() as connection:
                issued, user = await self._start_session(connection, request, user, body)
        return session_response(self.issuer.issue(issued, user), in_cookie=body.cookie)

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
        return session_response(self.issuer.issue(*found), in_cookie=body.cookie)

    @route("POST", "/auth/refresh", anonymous(), errors=(401, 403), responses=(SESSION,))
    async def refresh_session(self, body: Refresh, request: web.Request) -> web.StreamResponse:
        """Refresh a session.

        Consumes the refresh token. Reusing a consumed token ends the session, because the token may be stolen.
        For ten seconds it is still accepted, because the response may have been lost.
        """
        refresh_token = given_refresh_token(request, body.refresh_token, in_cookie=body.cookie)
        await self.issuer.ensure_key_published()
        await self._check_refresh_rate(request, refresh_token)
        issued, user = await self._refresh_session(request, refresh_token)
        if issued is None or user is None:
            if body.cookie:  # a browser that comes back after its session has ended has done nothing wrong
                raise Unauthorized("The session has ended.", headers=credentials.clearing_headers())
            await request.app[RATE_LIMITS].record_address_failure(request, LimitClass.FAILED_BEARER)
            raise Unauthorized("The refresh token is not valid.")
        return session_response(self.issuer.issue(issued, user), in_cookie=body.cookie)

    @route("POST", "/auth/logout", anonymous(), errors=(403,), responses=(ENDED,))
    async def logout(self, body: Refresh, request: web.Request) -> web.StreamResponse:
        """End a session.

        Its access tokens stop working in this process at once; in others at once with Redis, else within five seconds.
        The same response for the refresh token of an ended or unknown session.
        """
        refresh_token = given_refresh_token(request, body.refresh_token, in_cookie=body.cookie)
        async with self.context.database.write() as connection:
            session = await session_store.find_by_token(connection, refresh_token)
            ended = session is not None and await self.end_session(connection, request, session, "logout")
        if session is None:
            if not body.cookie:  # as in `refresh_session`
                await request.app[RATE_LIMITS].record_address_failure(request, LimitClass.FAILED_BEARER)
        elif ended:
            self.context.guards.invalidate_sessions(session.principal_id)
        response = web.Response(status=204)
        if body.cookie:
            credentials.clear_refresh_token(response)
        return response

    @route("GET", "/auth/keys", anonymous(), responses=(KEYS,))
    async def list_signing_keys(self) -> web.StreamResponse:
        """List the public keys of access tokens."""
        with suppress(KeyWithdrawn):  # keys of other processes are still trusted
            await self.issuer.ensure_key_published()
        found = await self.issuer.trusted_keys()
        headers = {"Cache-Control": "public, max-age=300"}
        return json_response({"keys": [key.jwk() for key in found]}, headers=headers)

    async def read_body(self, request: web.Request, type_: type[Any]) -> Any:
        """The body; with `cookie`, only of a request of the page itself."""
        body = await self.context.read_body(request, type_)
        if body.cookie:
            credentials.require_same_origin(request)
        return body

    async def _start_session_by_code(
        self, connection: AsyncConnection, request: web.Request, code: LoginCode, now: datetime
    ) -> tuple[IssuedSession, User] | None:
        """None if the user is no member any more. Raises SsoRequired."""
        found = await load_membership_statuses(connection, code.org_id, [code.principal_id])
        if any_disabled(found) or common_scopes(found, None) is None:
            return None
        await session_store.check_password_login(connection, code.org_id, code.principal_id)
        user = await user_store.get_user(connection, code.principal_id)
        issued = await session_store.start(connection, code.org_id, user.id, (LOGIN_CODE,), now)
        if not user.has_factor:
            await self.throttle.remember_address(connection, request, user.id)
        await record_session_audit(connection, request, issued.session, "session.start", {"methods": [LOGIN_CODE]})
        return issued, user

    async def _start_session(
        self, connection: AsyncConnection, request: web.Request, authenticated: User, body: Login
    ) -> tuple[IssuedSession, User]:
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
            await self.throttle.remember_address(connection, request, user.id)
        data: dict[str, Any] = {"methods": list(methods)} | ({"breakGlass": True} if break_glass else {})
        await record_session_audit(connection, request, issued.session, "session.start", data)
        return issued, user

    async def _check_refresh_rate(self, request: web.Request, refresh_token: str) -> None:
        """Raises RateLimited for a session that is refreshed too often; the session and its token stay valid."""
        async with self.context.database.read() as connection:
            session = await session_store.find_by_token(connection, refresh_token)
        if session is not None:
            await request.app[RATE_LIMITS].take(request, LimitClass.REFRESH, session.id)

    async def _refresh_session(
        self, request: web.Request, refresh_token: str
    ) -> tuple[IssuedSession | None, User | None]:
        """The refreshed session and its user, if the user is still a member; else None. The outcome is committed either
        way.
        """
        now = datetime.now(UTC)
        async with self.context.database.write() as connection:
            issued, session, reason = await try_refresh(connection, refresh_token, now)
            if issued is not None:
                return issued, await user_store.get_user(connection, issued.session.principal_id)
            ended = session is not None and await self.end_session(connection, request, session, reason)
        if ended and session is not None:
            self.context.guards.invalidate_sessions(session.principal_id)
        return None, None

    async def end_session(
        self, connection: AsyncConnection, request: web.Request, session: Session, reason: str
    ) -> bool:
        """End the session; False when it had ended before."""
        ended = await session_store.end(connection, session.id, datetime.now(UTC))
        if ended:
            await record_session_audit(connection, request, session, "session.end", {"reason": reason})
        return ended


def given_refresh_token(request: web.Request, refresh_token: str | None, *, in_cookie: bool) -> str:
    """The refresh token of the body or of the cookie. Raises BadRequest for both or none."""
    if in_cookie == (refresh_token is not None):
        issue = Issue("body.refreshToken", "Either `refreshToken` or `cookie` must be given.", "required")
        raise BadRequest("The request body is not valid.", [issue])
    return credentials.read_refresh_token(request) if refresh_token is None else refresh_token


async def select_organization(connection: AsyncConnection, user: User, org_slug: str | None, *, naming: bool) -> str:
    """The organization to log in to. Raises Forbidden for a user who is not a member of it, BadRequest for a user of
    several organizations who named none; with `naming`, the error lists them, which only a fully authenticated user may
    see.
    """
    found = await member_store.list_organizations(connection, user.id, MAX_ORGANIZATIONS)
    slugs = {organization.slug: organization.id for organization, _ in found}
    if org_slug is None and len(slugs) > 1:
        raise select_organization_error(list(slugs) if naming else [])
    org_id = next(iter(slugs.values()), None) if org_slug is None else slugs.get(org_slug)
    if org_id is None:
        raise Forbidden(
            "You are not a member of that organization." if org_slug else "You are not a member of any organization."
        )
    return org_id


async def try_refresh(
    connection: AsyncConnection, refresh_token: str, now: datetime
) -> tuple[IssuedSession | None, Session | None, str]:
    """The refreshed session; else the session to end, if any, and the reason."""
    outcome = await session_store.refresh(connection, refresh_token, now)
    if isinstance(outcome, IssuedSession):
        if not await _is_active(connection, outcome.session):
            return None, outcome.session, "its user is no member any more"
        if not await session_store.may_continue(connection, outcome.session):
            return None, outcome.session, "the organization requires single sign-on"
        return outcome, None, ""
    failure, session = outcome
    return None, session if failure is RefreshFailure.REUSED else None, "a refresh token was used twice"


async def _is_active(connection: AsyncConnection, session: Session) -> bool:
    found = await load_membership_statuses(connection, session.org_id, [session.principal_id])
    return not any_disabled(found) and common_scopes(found, None) is not None


async def record_session_audit(
    connection: AsyncConnection, request: web.Request, session: Session, action: str, data: dict[str, Any]
) -> None:
    """Record an event in the session's organization."""
    actor = Actor(session.org_id, session.principal_id, PrincipalKind.USER, token_id=session.id)
    await record(connection, actor, action, session.id, data, request_id(request))
