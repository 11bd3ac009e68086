"""`/auth`: log in, go on with a session, end it; and the keys that access tokens are signed with."""

from contextlib import suppress
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Annotated, Any, Final

import msgspec
from aiohttp import web
from msgspec import Meta
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.access import visitor
from chassis.errors import BadRequest, Forbidden, Issue, Unauthorized
from chassis.identity import members, sessions, users
from chassis.identity.sessions import Continued, Ended, Session
from chassis.identity.standing import any_disabled, common_scopes, standings
from chassis.identity.users import User
from chassis.limits.limiter import LimitClass
from chassis.operation import Answer, Body, Operation, Tag, json_content
from chassis.web import ADMISSION, Route, json_response, request_id
from control.audit.record import Actor, record
from control.desk import Desk
from control.identity.attempts import Attempts, NotRecognized
from control.identity.factors import Factors
from control.identity.issuing import Issuer, KeyWithdrawn, SessionMaterial
from control.identity.passwords import Passwords
from control.identity.shapes import Email, GivenCode, GivenPassword, GivenSecret
from control.names import Slug
from proto.identity import PrincipalKind

MAX_ORGANIZATIONS: Final = 1_000  # that one person is in
MAX_NAMED: Final = 20  # of them in a message
_REFUSAL: Final = "The e-mail address, the password or the second factor is not valid."


class Login(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """Who logs in. `orgSlug`: where to, for who is in several organizations."""

    email: Email
    password: GivenPassword
    totp: GivenCode | None = None
    org_slug: Slug | None = None


class Refresh(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """The token that a session goes on with, or is ended by."""

    refresh_token: GivenSecret


class Jwk(msgspec.Struct, frozen=True):
    """A public key (RFC 8037)."""

    kty: str
    crv: str
    x: str
    kid: str
    use: str
    alg: str


class KeySet(msgspec.Struct, frozen=True):
    """Keys that access tokens of sessions may be signed with (RFC 7517)."""

    keys: Annotated[list[Jwk], Meta(max_length=100)]


TAG: Final = Tag("auth", "Sessions of people: log in, second factor, account.")
_MATERIAL: Final = json_content(SessionMaterial)
LOGIN: Final = Operation(
    "login",
    TAG,
    (Answer("A session.", _MATERIAL),),
    body=Body(json_content(Login), example={"email": "ada@example.org", "password": "correct horse battery"}),
    refused=(401, 403),
)
REFRESH: Final = Operation(
    "refreshSession",
    TAG,
    (Answer("The session goes on.", _MATERIAL),),
    body=Body(json_content(Refresh)),
    refused=(401,),
)
LOGOUT: Final = Operation(
    "logout", TAG, (Answer("The session is over.", status=204),), body=Body(json_content(Refresh))
)
KEYS: Final = Operation("listSigningKeys", TAG, (Answer("The keys.", json_content(KeySet)),))


@dataclass(frozen=True, slots=True)
class Logins:
    """The handlers, with what they need."""

    desk: Desk
    attempts: Attempts
    passwords: Passwords
    factors: Factors
    issuer: Issuer

    def routes(self) -> list[Route]:
        """Every route of this resource; those who call have nothing else to show yet."""
        return [
            Route("POST", "/auth/login", self.login, visitor(), operation=LOGIN),
            Route("POST", "/auth/refresh", self.refresh, visitor(), operation=REFRESH),
            Route("POST", "/auth/logout", self.logout, visitor(), operation=LOGOUT),
            Route("GET", "/auth/keys", self.keys, visitor(), operation=KEYS),
        ]

    async def login(self, request: web.Request) -> web.StreamResponse:
        """Log in with a password.

        Who has a second factor sends it along as `totp`; without it the session answers 401 `mfa_required` until it is
        shown to `/auth/totp/verify`.
        """
        body = await self.desk.read(request, Login)
        await self.issuer.get_ready()
        async with self.attempts.at(request, body.email):
            user = await self.recognized(body.email, body.password)
            async with self.desk.database.write() as connection:
                continued, user = await self._start(connection, request, user, body)
        return json_response(self.issuer.material(continued, user))

    async def refresh(self, request: web.Request) -> web.StreamResponse:
        """Go on with a session.

        The refresh token is spent by this. One that was spent before ends the session: one of the two who have it has
        stolen it. For ten seconds it passes again, as the answer may have been lost.
        """
        body = await self.desk.read(request, Refresh)
        await self.issuer.get_ready()
        await self._hold_to_rate(request, body.refresh_token)
        continued, user = await self._go_on(request, body.refresh_token)
        if continued is None or user is None:
            await request.app[ADMISSION].charge_address(request, LimitClass.FAILED_BEARER)
            raise Unauthorized("The refresh token is not valid.")
        return json_response(self.issuer.material(continued, user))

    async def logout(self, request: web.Request) -> web.StreamResponse:
        """End a session.

        Its access tokens stop working in this process at once, in others within five seconds. A token of a session
        that is over already, or of none, gets the same answer.
        """
        body = await self.desk.read(request, Refresh)
        async with self.desk.database.write() as connection:
            session = await sessions.find_by_token(connection, body.refresh_token)
            ended = session is not None and await self._end(connection, request, session, "logout")
        if session is None:
            await request.app[ADMISSION].charge_address(request, LimitClass.FAILED_BEARER)
        elif ended:
            self.desk.checks.forget_sessions(session.principal_id)
        return web.Response(status=204)

    async def keys(self, _request: web.Request) -> web.StreamResponse:
        """List the public keys of access tokens."""
        with suppress(KeyWithdrawn):  # those of other processes are good yet
            await self.issuer.get_ready()
        found = await self.issuer.believed()
        headers = {"Cache-Control": "public, max-age=300"}
        return json_response({"keys": [key.jwk() for key in found]}, headers=headers)

    async def recognized(self, email: str, password: str) -> User:
        """The user whose password it is, a moment ago: `users.still` says whether it still is. Raises NotRecognized."""
        user = await self._compared(email, password)
        if not self.passwords.is_dated(user.password_hash or ""):
            return user
        renewed = await self.passwords.hash(password)
        async with self.desk.database.write() as connection:
            done = await users.renew_hash(connection, user, renewed)
        return replace(user, password_hash=renewed) if done else await self._compared(email, password)

    async def _compared(self, email: str, password: str) -> User:
        async with self.desk.database.read() as connection:
            user = await users.find_user_by_email(connection, email)
        stored = None if user is None or user.disabled_at is not None else user.password_hash
        if not await self.passwords.matches(stored, password) or user is None or stored is None:
            raise NotRecognized(_REFUSAL)
        return user

    async def _start(
        self, connection: AsyncConnection, request: web.Request, seen: User, body: Login
    ) -> tuple[Continued, User]:
        """A session of the user who was recognized, and the user as of now. Without one no code is spent. Raises
        NotRecognized, Forbidden, BadRequest.
        """
        user = await users.still(connection, seen)
        if user is None:
            raise NotRecognized(_REFUSAL)
        methods = await self._methods(connection, user, body.totp)
        owing = user.has_factor and len(methods) == 1
        org_id = await _organization(connection, user, body.org_slug, naming=not owing)
        continued = await sessions.start(connection, org_id, user.id, methods, datetime.now(UTC))
        await _tell(connection, request, continued.session, "session.start", {"methods": list(methods)})
        return continued, user

    async def _methods(self, connection: AsyncConnection, user: User, code: str | None) -> tuple[str, ...]:
        """How the user was authenticated, the second factor among it if it was given and is asked for."""
        if code is None or not user.has_factor:
            return ("pwd",)
        method = await self.factors.accept(connection, user, code, datetime.now(UTC))
        if method is None:
            raise NotRecognized(_REFUSAL)
        return ("pwd", method)

    async def _hold_to_rate(self, request: web.Request, refresh_token: str) -> None:
        """Raises RateLimited for a session that goes on too often, and leaves it and its token as they are."""
        async with self.desk.database.read() as connection:
            session = await sessions.find_by_token(connection, refresh_token)
        if session is not None:
            await request.app[ADMISSION].take(request, LimitClass.REFRESH, session.id)

    async def _go_on(self, request: web.Request, refresh_token: str) -> tuple[Continued | None, User | None]:
        """The session and its user, as long as that one is a member; what became of it is committed either way."""
        now = datetime.now(UTC)
        async with self.desk.database.write() as connection:
            continued, session, reason = await _continued(connection, refresh_token, now)
            if continued is not None:
                return continued, await users.existing_user(connection, continued.session.principal_id)
            ended = session is not None and await self._end(connection, request, session, reason)
        if ended and session is not None:
            self.desk.checks.forget_sessions(session.principal_id)
        return None, None

    async def _end(self, connection: AsyncConnection, request: web.Request, session: Session, reason: str) -> bool:
        """Whether it was not over yet."""
        ended = await sessions.end(connection, session.id, datetime.now(UTC))
        if ended:
            await _tell(connection, request, session, "session.end", {"reason": reason})
        return ended


async def _organization(connection: AsyncConnection, user: User, org_slug: str | None, *, naming: bool) -> str:
    """Where to the user logs in. Raises Forbidden for who is not there, BadRequest for who must say where; it names his
    organizations if he has shown that he is who he is (`naming`).
    """
    found = await members.list_organizations(connection, user.id, MAX_ORGANIZATIONS)
    slugs = {organization.slug: organization.id for organization, _ in found}
    if org_slug is None and len(slugs) > 1:
        named = f": {', '.join(list(slugs)[:MAX_NAMED])}" if naming else ""
        issue = Issue("body.orgSlug", f"Must name one of your organizations{named}.", "missing")
        raise BadRequest("You are in several organizations.", [issue])
    org_id = next(iter(slugs.values()), None) if org_slug is None else slugs.get(org_slug)
    if org_id is None:
        raise Forbidden("You are not a member of that organization." if org_slug else "You are in no organization.")
    return org_id


async def _continued(
    connection: AsyncConnection, refresh_token: str, now: datetime
) -> tuple[Continued | None, Session | None, str]:
    """The session as it goes on; else the one that is to be ended, if any, and why."""
    outcome = await sessions.go_on(connection, refresh_token, now)
    if isinstance(outcome, Continued):
        if await _in_good_standing(connection, outcome.session):
            return outcome, None, ""
        return None, outcome.session, "its user is no member any more"
    why, session = outcome
    return None, session if why is Ended.REUSED else None, "a refresh token was used twice"


async def _in_good_standing(connection: AsyncConnection, session: Session) -> bool:
    found = await standings(connection, session.org_id, [session.principal_id])
    return not any_disabled(found) and common_scopes(found, None) is not None


async def _tell(
    connection: AsyncConnection, request: web.Request, session: Session, action: str, data: dict[str, Any]
) -> None:
    """The audit of the session's organization."""
    actor = Actor(session.org_id, session.principal_id, PrincipalKind.USER, token_id=session.id)
    await record(connection, actor, action, session.id, data, request_id(request))
