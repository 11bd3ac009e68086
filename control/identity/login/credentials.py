"""The credentials of a session: an access token that this process signs, and the refresh token. The refresh token is in
the response, or in a cookie that no script can read and that only `/auth` receives.

A browser sends a cookie with requests of any page. So routes that use the cookie require JSON, which no form sends, and
`Sec-Fetch-Site: same-origin`, which no page can forge (Fetch Metadata). No other route reads cookies.
"""

import math
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Annotated, Any, ClassVar, Final, Literal

import msgspec
import structlog
from aiohttp import hdrs, web
from msgspec import Meta

from chassis.auth.credential_guards import FRESH_S
from chassis.auth.jwt import LIFETIME, PUBLISH_INTERVAL, JwtSigner, PublicKey, find_key, list_trusted_keys, publish_key
from chassis.db.database import Database
from chassis.errors import JSON_TYPE, Forbidden, ServiceUnavailable
from chassis.http.declaration import Arguments
from chassis.http.route import ResponseSpec, json_content
from chassis.http.web import json_response
from chassis.runtime.periodic import PeriodicTask
from control.http.field_types import Name, Timestamp
from control.identity.bodies import AUTH, Email, Locale, SessionRequest, ThemeName
from control.identity.users.session_store import ABSOLUTE_TIMEOUT, IssuedSession
from control.identity.users.user_store import User
from control.routing.arguments import Handlers
from control.routing.resource import shown_as

REFRESH_COOKIE: Final = "__Secure-sluice"
_COOKIE_PATH: Final = "/auth"

StartedSession = tuple[IssuedSession, User]  # a session, and its user

log = structlog.get_logger(__name__)


class Tokens(msgspec.Struct, frozen=True, rename="camel"):
    """Credentials of a session."""

    access_token: Annotated[str, Meta(description="A JWT, for `Authorization: Bearer`.")]
    refresh_token: Annotated[
        str,
        Meta(
            description="Can be used once: `/auth/refresh` returns the next refresh token. Empty if the refresh token "
            "is in the cookie."
        ),
    ]
    expires_in: Annotated[int, Meta(description="Seconds until the access token expires.")]
    token_type: Literal["Bearer"] = "Bearer"  # noqa: S105  # the name of a scheme


class SessionUser(msgspec.Struct, frozen=True, rename="camel"):
    """The session's user."""

    id: str
    email: Email
    name: Name
    avatar_url: str | None
    locale: Locale
    theme: ThemeName
    email_verified: bool
    mfa_enabled: bool
    created_at: Timestamp


class SessionMaterial(msgspec.Struct, frozen=True, rename="camel"):
    """A session's credentials and its user."""

    tokens: Tokens
    user: SessionUser


SESSION: Final = ResponseSpec("A session: its credentials and its user.", json_content(SessionMaterial))


class KeyWithdrawn(ServiceUnavailable):
    """The signing key of this process was withdrawn. The operator must replace the key file and restart the process."""

    def __init__(self) -> None:
        super().__init__("No session can be issued: the signing key was withdrawn. The operator must replace the key.")


@dataclass(slots=True)
class SessionIssuer:
    """Signs with the key of this process, and publishes the public key to the other processes."""

    signer: JwtSigner
    database: Database
    clock: Callable[[], float] = time.monotonic
    _published_at: datetime | None = field(default=None, init=False)
    _trusted_until: float = field(default=-math.inf, init=False)
    _trusted_keys: list[PublicKey] = field(default_factory=list, init=False)
    _trusted_keys_until: float = field(default=-math.inf, init=False)

    async def running(self, _app: web.Application | None = None) -> AsyncIterator[None]:
        """Publish the key every PUBLISH_INTERVAL (an hour), even without logins: tokens issued earlier depend on it."""
        task = PeriodicTask(
            self.publish, PUBLISH_INTERVAL.total_seconds(), log, "signing key not published", run_immediately=True
        )
        task.start()
        yield
        await task.close()

    async def ensure_key_published(self) -> None:
        """Publish the key if needed. Call this before tokens are issued and before anything is consumed for them.
        Afterwards every process can verify their signature, and the key was trusted at most FRESH_S seconds ago. Raises
        KeyWithdrawn, DatabaseUnavailable.
        """
        published = self._published_at is not None and datetime.now(UTC) - self._published_at < PUBLISH_INTERVAL
        if not published or not await self._is_trusted():
            await self.publish()

    async def publish(self) -> None:
        """Publish the key as a key in use. Raises KeyWithdrawn, DatabaseUnavailable."""
        now = datetime.now(UTC)
        async with self.database.write() as connection:
            trusted = await publish_key(connection, self.signer.public, now)
        self._published_at = now if trusted else None
        self._trusted_until = self.clock() + FRESH_S if trusted else -math.inf
        if not trusted:
            raise KeyWithdrawn

    async def _is_trusted(self) -> bool:
        """Whether the key of this process is trusted, as of at most FRESH_S seconds ago."""
        now = self.clock()
        if now >= self._trusted_until:
            async with self.database.read() as connection:
                if await find_key(connection, self.signer.public.kid, datetime.now(UTC)) is None:
                    return False
            self._trusted_until = now + FRESH_S
        return True

    async def trusted_keys(self) -> list[PublicKey]:
        """Keys that may sign tokens, as of at most FRESH_S seconds ago. They are cached, because the route is public.
        Raises DatabaseUnavailable.
        """
        now = self.clock()
        if now >= self._trusted_keys_until:
            async with self.database.read() as connection:
                self._trusted_keys = await list_trusted_keys(connection, datetime.now(UTC))
            self._trusted_keys_until = now + FRESH_S
        return self._trusted_keys

    def respond(self, issued: IssuedSession, user: User, *, in_cookie: bool, status: int = 200) -> web.Response:
        """The response for a new or refreshed session, with its refresh token in the body or in the cookie."""
        shown = replace(issued, refresh_token="") if in_cookie else issued
        response = json_response(self.issue(shown, user), status=status)
        if in_cookie:
            keep_refresh_token(response, issued.refresh_token)
        return response

    def issue(self, issued: IssuedSession, user: User) -> SessionMaterial:
        """The response body for a new or refreshed session."""
        session = issued.session
        signed = self.signer.sign(
            session.id, session.principal_id, session.org_id, list(session.methods), datetime.now(UTC)
        )
        return SessionMaterial(Tokens(signed, issued.refresh_token, int(LIFETIME.total_seconds())), user_body(user))


def user_body(user: User) -> SessionUser:
    """An account as a response body."""
    return shown_as(SessionUser, user, mfa_enabled=user.has_factor)


def require_same_origin(request: web.Request) -> None:
    """Raises Forbidden for a request that another page may have caused, and for a request that no browser sent."""
    if request.headers.get("Sec-Fetch-Site") != "same-origin" or request.content_type != JSON_TYPE:
        raise Forbidden("A request with `cookie` must come from the page of this origin.")


def read_refresh_token(request: web.Request) -> str:
    """The refresh token in the cookie, empty without a cookie."""
    return request.cookies.get(REFRESH_COOKIE, "")


def keep_refresh_token(response: web.Response, token: str) -> None:
    """Put the refresh token into the cookie of the browser."""
    response.set_cookie(
        REFRESH_COOKIE,
        token,
        max_age=int(ABSOLUTE_TIMEOUT.total_seconds()),
        path=_COOKIE_PATH,
        secure=True,
        httponly=True,
        samesite="Strict",
    )


def clearing_headers() -> dict[str, str]:
    """The headers of an error that remove the cookie from the browser."""
    return {hdrs.SET_COOKIE: f'{REFRESH_COOKIE}=""; Max-Age=0; Path={_COOKIE_PATH}; Secure; HttpOnly; SameSite=Strict'}


def clear_refresh_token(response: web.Response) -> None:
    """Remove the cookie from the browser."""
    response.del_cookie(REFRESH_COOKIE, path=_COOKIE_PATH, secure=True, httponly=True, samesite="Strict")
    response.headers[hdrs.CACHE_CONTROL] = "no-store"


@dataclass(frozen=True, slots=True)
class SessionHandlers(Handlers):
    """Handlers that create sessions. A body with `cookie` is accepted only from the page itself."""

    TAG: ClassVar = AUTH
    issuer: SessionIssuer

    def arguments(self) -> Arguments:
        return replace(Handlers.arguments(self), read_body=self._read_body)

    async def _read_body(self, request: web.Request, type_: type[Any]) -> Any:
        body = await self.context.read_body(request, type_)
        if isinstance(body, SessionRequest) and body.cookie:
            require_same_origin(request)
        return body
