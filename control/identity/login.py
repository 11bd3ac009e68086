"""`/auth`: log in, refresh and end a session; list the public keys of access tokens."""

from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager, nullcontext, suppress
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
from chassis.http.operation import Body, Operation, ResponseSpec, Tag, json_content
from chassis.http.web import RATE_LIMITS, Route, json_response, request_id
from chassis.limits.limiter import LimitClass
from control.audit.record import Actor, record
from control.http.context import HandlerContext
from control.http.field_types import Slug
from control.identity import member_repository, session_repository, user_repository
from control.identity.login_throttle import InvalidCredentials, LoginThrottle
from control.identity.mfa_secrets import MfaSecrets
from control.identity.passwords import Passwords
from control.identity.schemas import Email, MfaCodeInput, PasswordInput, SecretInput
from control.identity.session_issuer import KeyWithdrawn, SessionIssuer, SessionMaterial
from control.identity.session_repository import IssuedSession, RefreshFailure, Session
from control.identity.user_repository import User
from proto.identity import PrincipalKind

MAX_ORGANIZATIONS: Final = 1_000  # that one user is a member of
MAX_NAMED_ORGANIZATIONS: Final = 20  # listed in an error message
_INVALID_CREDENTIALS: Final = "The e-mail address, the password, the second factor or the organization is not valid."
_SELECT_ORGANIZATION: Final = "You are a member of several organizations. Select one with orgSlug."


class Login(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Credentials. `orgSlug` selects the organization for a user who is in several. Without it, the account that has
    verified the address counts, and only without such an account those that have not.
    """

    email: Email
    password: PasswordInput
    totp: MfaCodeInput | None = None
    org_slug: Slug | None = None


class Refresh(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The refresh token of the session to refresh or to end."""

    refresh_token: SecretInput


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


TAG: Final = Tag("auth", "User sessions: login, second factor, account.")
_SESSION_CONTENT: Final = json_content(SessionMaterial)
LOGIN: Final = Operation(
    "login",
    TAG,
    (ResponseSpec("A session.", _SESSION_CONTENT),),
    body=Body(json_content(Login), example={"email": "ada@example.org", "password": "correct horse battery"}),
    error_statuses=(401, 403),
)
REFRESH: Final = Operation(
    "refreshSession",
    TAG,
    (ResponseSpec("The refreshed session.", _SESSION_CONTENT),),
    body=Body(json_content(Refresh)),
    error_statuses=(401,),
)
LOGOUT: Final = Operation(
    "logout", TAG, (ResponseSpec("The session has ended.", status=204),), body=Body(json_content(Refresh))
)
LIST_KEYS: Final = Operation("listSigningKeys", TAG, (ResponseSpec("The public keys.", json_content(KeySet)),))


@dataclass(frozen=True, slots=True)
class Logins:
    """Handlers of login, refresh and logout, and their dependencies."""

    context: HandlerContext
    throttle: LoginThrottle
    passwords: Passwords
    mfa_secrets: MfaSecrets
    issuer: SessionIssuer

    def routes(self) -> list[Route]:
        """Every route of this resource; all are anonymous."""
        return [
            Route("POST", "/auth/login", self.login, anonymous(), operation=LOGIN),
            Route("POST", "/auth/refresh", self.refresh, anonymous(), operation=REFRESH),
            Route("POST", "/auth/logout", self.logout, anonymous(), operation=LOGOUT),
            Route("GET", "/auth/keys", self.list_keys, anonymous(), operation=LIST_KEYS),
        ]

    async def login(self, request: web.Request) -> web.StreamResponse:
        """Log in with a password.

        A user with a second factor sends its code as `totp`. Without it, requests of the session get 401 `mfa_required`
        until `/auth/totp/verify` has accepted a code.
        """
        body = await self.context.read_body(request, Login)
        await self.issuer.ensure_key_published()
        async with self.throttle.login(request, body.email, body.org_slug):
            user = await self._authenticate(body)
            async with self.code_attempt(request, user, body.totp), self.context.database.write() as connection:
                issued, user = await self._start_session(connection, request, user, body)
        return json_response(self.issuer.issue(issued, user))

    async def refresh(self, request: web.Request) -> web.StreamResponse:
        """Refresh a session.

        Consumes the refresh token. Reusing a consumed token ends the session, because the token may be stolen.
        For ten seconds it is still accepted, because the response may have been lost.
        """
        body = await self.context.read_body(request, Refresh)
        await self.issuer.ensure_key_published()
        await self._check_refresh_rate(request, body.refresh_token)
        issued, user = await self._refresh_session(request, body.refresh_token)
        if issued is None or user is None:
            await request.app[RATE_LIMITS].record_address_failure(request, LimitClass.FAILED_BEARER)
            raise Unauthorized("The refresh token is not valid.")
        return json_response(self.issuer.issue(issued, user))

    async def logout(self, request: web.Request) -> web.StreamResponse:
        """End a session.

        Its access tokens stop working in this process at once; in others at once with Redis, else within five seconds.
        The same response for the refresh token of an ended or unknown session.
        """
        body = await self.context.read_body(request, Refresh)
        async with self.context.database.write() as connection:
            session = await session_repository.find_by_token(connection, body.refresh_token)
            ended = session is not None and await self._end_session(connection, request, session, "logout")
        if session is None:
            await request.app[RATE_LIMITS].record_address_failure(request, LimitClass.FAILED_BEARER)
        elif ended:
            self.context.guards.invalidate_sessions(session.principal_id)
        return web.Response(status=204)

    async def list_keys(self, _request: web.Request) -> web.StreamResponse:
        """List the public keys of access tokens."""
        with suppress(KeyWithdrawn):  # keys of other processes are still trusted
            await self.issuer.ensure_key_published()
        found = await self.issuer.trusted_keys()
        headers = {"Cache-Control": "public, max-age=300"}
        return json_response({"keys": [key.jwk() for key in found]}, headers=headers)

    async def _authenticate(self, body: Login) -> User:
        """The account that logs in; `user_repository.reload_if_unchanged` checks later that its password still matches.
        Raises InvalidCredentials; BadRequest if the password is that of several accounts.
        """
        async with self.context.database.read() as connection:
            if body.org_slug is None:
                accounts = await user_repository.list_accounts(connection, body.email)
            else:
                found = await user_repository.find_in_organization(connection, body.email, body.org_slug)
                accounts = [] if found is None else [found]
        matching = await self._find_matching(accounts, body.password)
        if len(matching) > 1 and not matching[0].email_verified:
            raise _select_one(await self._organizations_of(matching))
        return await self._renew_hash(matching[0], body.password)

    async def authenticate_verified(self, email: str, password: str) -> User:
        """The account that has verified the address, with the same later check. Raises InvalidCredentials."""
        async with self.context.database.read() as connection:
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
            raise InvalidCredentials(_INVALID_CREDENTIALS)
        return found

    async def _renew_hash(self, user: User, password: str) -> User:
        """Hash the password, which is the user's, with the current parameters if it is not. Raises InvalidCredentials
        if the user has another one by now.
        """
        if not self.passwords.needs_rehash(user.password_hash or ""):
            return user
        new_hash = await self.passwords.hash(password, salted_like=user.password_hash)
        async with self.context.database.write() as connection:
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
        async with self.context.database.read() as connection:
            for user in accounts[:MAX_NAMED_ORGANIZATIONS]:
                found = await member_repository.list_organizations(connection, user.id, MAX_NAMED_ORGANIZATIONS)
                slugs |= {organization.slug for organization, _ in found}
        return sorted(slugs)

    async def _start_session(
        self, connection: AsyncConnection, request: web.Request, authenticated: User, body: Login
    ) -> tuple[IssuedSession, User]:
        """Start a session of an authenticated user; returns it and the user as of this transaction. If no session is
        started, no code is consumed. Raises InvalidCredentials, Forbidden, BadRequest.
        """
        user = await user_repository.reload_if_unchanged(connection, authenticated)
        if user is None:
            raise InvalidCredentials(_INVALID_CREDENTIALS)
        methods = await self.auth_methods(connection, user, body.totp)
        mfa_pending = user.has_factor and len(methods) == 1
        org_id = await _select_organization(connection, user, body.org_slug, naming=not mfa_pending)
        issued = await session_repository.start(connection, org_id, user.id, methods, datetime.now(UTC))
        await _record_audit(connection, request, issued.session, "session.start", {"methods": list(methods)})
        return issued, user

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
            raise InvalidCredentials(_INVALID_CREDENTIALS)
        return ("pwd", method)

    async def _check_refresh_rate(self, request: web.Request, refresh_token: str) -> None:
        """Raises RateLimited for a session that is refreshed too often; the session and its token stay valid."""
        async with self.context.database.read() as connection:
            session = await session_repository.find_by_token(connection, refresh_token)
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
            issued, session, reason = await _try_refresh(connection, refresh_token, now)
            if issued is not None:
                return issued, await user_repository.get_user(connection, issued.session.principal_id)
            ended = session is not None and await self._end_session(connection, request, session, reason)
        if ended and session is not None:
            self.context.guards.invalidate_sessions(session.principal_id)
        return None, None

    async def _end_session(
        self, connection: AsyncConnection, request: web.Request, session: Session, reason: str
    ) -> bool:
        """End the session; False when it had ended before."""
        ended = await session_repository.end(connection, session.id, datetime.now(UTC))
        if ended:
            await _record_audit(connection, request, session, "session.end", {"reason": reason})
        return ended


async def _select_organization(connection: AsyncConnection, user: User, org_slug: str | None, *, naming: bool) -> str:
    """The organization to log in to. Raises Forbidden for a user who is not a member of it, BadRequest for a user of
    several organizations who named none; with `naming`, the error lists them, which only a fully authenticated user may
    see.
    """
    found = await member_repository.list_organizations(connection, user.id, MAX_ORGANIZATIONS)
    slugs = {organization.slug: organization.id for organization, _ in found}
    if org_slug is None and len(slugs) > 1:
        raise _select_one(list(slugs) if naming else [])
    org_id = next(iter(slugs.values()), None) if org_slug is None else slugs.get(org_slug)
    if org_id is None:
        raise Forbidden(
            "You are not a member of that organization." if org_slug else "You are not a member of any organization."
        )
    return org_id


def _select_one(slugs: Sequence[str]) -> BadRequest:
    """The error of a login that could be to several organizations; it lists `slugs`."""
    named = f": {', '.join(slugs[:MAX_NAMED_ORGANIZATIONS])}" if slugs else ""
    issue = Issue("body.orgSlug", f"Must be the slug of one of your organizations{named}.", "missing")
    return BadRequest(_SELECT_ORGANIZATION, [issue])


async def _try_refresh(
    connection: AsyncConnection, refresh_token: str, now: datetime
) -> tuple[IssuedSession | None, Session | None, str]:
    """The refreshed session; else the session to end, if any, and the reason."""
    outcome = await session_repository.refresh(connection, refresh_token, now)
    if isinstance(outcome, IssuedSession):
        if await _is_active(connection, outcome.session):
            return outcome, None, ""
        return None, outcome.session, "its user is no member any more"
    failure, session = outcome
    return None, session if failure is RefreshFailure.REUSED else None, "a refresh token was used twice"


async def _is_active(connection: AsyncConnection, session: Session) -> bool:
    found = await load_membership_statuses(connection, session.org_id, [session.principal_id])
    return not any_disabled(found) and common_scopes(found, None) is not None


async def _record_audit(
    connection: AsyncConnection, request: web.Request, session: Session, action: str, data: dict[str, Any]
) -> None:
    """Record an event in the session's organization."""
    actor = Actor(session.org_id, session.principal_id, PrincipalKind.USER, token_id=session.id)
    await record(connection, actor, action, session.id, data, request_id(request))
