"""Issues a session's credentials: an access token that this process signs, and the refresh token."""

import math
import time
from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Annotated, Literal

import msgspec
import structlog
from aiohttp import web
from msgspec import Meta
from msgspec.structs import replace

from chassis.auth.bearer import FRESH_S
from chassis.auth.jwt import LIFETIME, PUBLISH_INTERVAL, JwtSigner, PublicKey, find_key, list_trusted_keys, publish_key
from chassis.db.database import Database
from chassis.errors import ServiceUnavailable
from chassis.runtime.periodic import PeriodicTask
from control.http.field_types import Name, Timestamp
from control.identity.schemas import Email, Locale, ThemeName
from control.identity.session_repository import IssuedSession
from control.identity.user_repository import User
from control.routing.resource import shown_as

log = structlog.get_logger(__name__)


class Tokens(msgspec.Struct, frozen=True, rename="camel"):
    """Credentials of a session."""

    access_token: Annotated[str, Meta(description="A JWT, for `Authorization: Bearer`.")]
    refresh_token: Annotated[
        str, Meta(description="Can be used once: `/auth/refresh` returns the next one. Empty: it is in the cookie.")
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

    def without_refresh_token(self) -> "SessionMaterial":
        """For a browser that keeps it in a cookie."""
        return replace(self, tokens=replace(self.tokens, refresh_token=""))


class KeyWithdrawn(ServiceUnavailable):
    """The signing key of this process was withdrawn: it needs another key in its file, and a restart."""

    def __init__(self) -> None:
        super().__init__("No session can be issued: the signing key was withdrawn; the operator must replace it.")


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
        """Publish the key if needed. Call this before tokens are issued and before anything is consumed for them:
        afterwards every process can verify their signature, and the key was trusted at most FRESH_S ago. Raises
        KeyWithdrawn, DatabaseUnavailable.
        """
        published = self._published_at is not None and datetime.now(UTC) - self._published_at < PUBLISH_INTERVAL
        if not published or not await self._is_trusted():
            await self.publish()

    async def publish(self) -> None:
        """Publish that the key is in use. Raises KeyWithdrawn, DatabaseUnavailable."""
        now = datetime.now(UTC)
        async with self.database.write() as connection:
            trusted = await publish_key(connection, self.signer.public, now)
        self._published_at = now if trusted else None
        self._trusted_until = self.clock() + FRESH_S if trusted else -math.inf
        if not trusted:
            raise KeyWithdrawn

    async def _is_trusted(self) -> bool:
        """Whether the key of this process is trusted, as of FRESH_S ago at most."""
        now = self.clock()
        if now >= self._trusted_until:
            async with self.database.read() as connection:
                if await find_key(connection, self.signer.public.kid, datetime.now(UTC)) is None:
                    return False
            self._trusted_until = now + FRESH_S
        return True

    async def trusted_keys(self) -> list[PublicKey]:
        """Keys that may sign tokens, as of FRESH_S ago at most: cached, because the route is public. Raises
        DatabaseUnavailable.
        """
        now = self.clock()
        if now >= self._trusted_keys_until:
            async with self.database.read() as connection:
                self._trusted_keys = await list_trusted_keys(connection, datetime.now(UTC))
            self._trusted_keys_until = now + FRESH_S
        return self._trusted_keys

    def issue(self, issued: IssuedSession, user: User) -> SessionMaterial:
        """The response for a new or refreshed session."""
        session = issued.session
        signed = self.signer.sign(
            session.id, session.principal_id, session.org_id, list(session.methods), datetime.now(UTC)
        )
        tokens = Tokens(signed, issued.refresh_token, int(LIFETIME.total_seconds()))
        return SessionMaterial(tokens, user_body(user))


def user_body(user: User) -> SessionUser:
    """What is shown of an account."""
    return shown_as(SessionUser, user, mfa_enabled=user.has_factor)
