"""The guard of SCIM: who calls is looked up at every request, so that a revoked token works nowhere from then on."""

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from typing import Final

from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import DirectoryIdentity
from chassis.db.database import Database
from chassis.errors import NotFound, Unauthorized
from chassis.http.access import directory_identity
from control.http.request_slots import RequestSlots
from control.identity.scim import tokens
from proto.identity import SCIM_PREFIX, hash_secret, is_token

TOO_MANY: Final = "Too many requests of this directory wait. Try again."
USE_PRECISION: Final = timedelta(minutes=1)
TOKEN_REQUIRED: Final = "A SCIM token is required: Authorization: Bearer scim_..."  # noqa: S105 (a message)
INVALID_TOKEN: Final = "The SCIM token is invalid, expired or revoked."  # noqa: S105 (a message)


@dataclass(frozen=True, slots=True)
class DirectoryGuard:
    """Checks the tokens of directories."""

    database: Database
    now: Callable[[], datetime] = field(default=lambda: datetime.now(UTC))
    # By token: they need connections of the database, too.
    lookups: RequestSlots = field(default_factory=lambda: RequestSlots(TOO_MANY))

    async def check(self, authorization: str | None, org_slug: str) -> DirectoryIdentity:
        """Raises Unauthorized; NotFound for another organization than the token's; RateLimited, DatabaseUnavailable."""
        secret = _parse_bearer(authorization)
        if not secret.startswith(SCIM_PREFIX):
            raise Unauthorized(TOKEN_REQUIRED)
        if not is_token(secret, SCIM_PREFIX):
            raise Unauthorized(INVALID_TOKEN)
        now = self.now()
        async with self.lookups.taken(hash_secret(secret)), self.database.read() as connection:
            found = await tokens.find_accepted(connection, secret, now)
        if found is None:
            raise Unauthorized(INVALID_TOKEN)
        if found.slug != org_slug:
            raise NotFound
        if found.last_used_at is None or now - found.last_used_at >= USE_PRECISION:
            async with self.database.write() as connection:
                await tokens.record_use(connection, found.id, now)
        return DirectoryIdentity(found.id, found.org_id, found.slug)

    @asynccontextmanager
    async def write_transaction(self, request: web.Request) -> AsyncIterator[tuple[AsyncConnection, DirectoryIdentity]]:
        """A write transaction of the directory that calls, if its token is still valid: a body may take long to arrive.
        Raises Unauthorized, DatabaseUnavailable.
        """
        identity = directory_identity(request)
        async with self.database.write() as connection:
            if not await tokens.is_accepted(connection, identity.token_id, self.now()):
                raise Unauthorized(INVALID_TOKEN)
            yield connection, identity


def _parse_bearer(authorization: str | None) -> str:
    scheme, _, credential = (authorization or "").partition(" ")
    if scheme.lower() != "bearer":
        raise Unauthorized(TOKEN_REQUIRED)
    return credential.strip()
