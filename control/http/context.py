"""What handlers of the control service work with."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.guards import AuthGuards
from chassis.auth.model import AuthenticatedCredential, AuthorizationContext
from chassis.db.database import Database
from chassis.http.access import reauthenticate, reauthorize
from chassis.http.cursor import CursorSigner
from chassis.http.validation import Issues, decode_with_placeholders, read_json, read_json_bytes

B = TypeVar("B")


@dataclass(frozen=True, slots=True)
class HandlerContext:
    """The store with its guards, cursors for pages, and the bounds of a request's body: bytes and seconds."""

    guards: AuthGuards
    cursors: CursorSigner
    max_body_bytes: int
    body_timeout_s: float

    @property
    def database(self) -> Database:
        """The relational store."""
        return self.guards.database

    async def read_body(self, request: web.Request, body_type: type[B]) -> B:
        """The request's JSON body. Raises UnsupportedMediaType, PayloadTooLarge, BadRequest, in this order."""
        return await read_json(request, body_type, max_bytes=self.max_body_bytes, timeout_s=self.body_timeout_s)

    async def read_partial_body(
        self, request: web.Request, body_type: type[B], placeholders: Mapping[str, Any], issues: Issues
    ) -> B | None:
        """The same, where a body has faults that types cannot tell: `chassis.http.validation.decode_mended`."""
        raw = await read_json_bytes(request, max_bytes=self.max_body_bytes, timeout_s=self.body_timeout_s)
        return decode_with_placeholders(body_type, raw, placeholders, issues)

    @asynccontextmanager
    async def write_transaction(
        self, request: web.Request
    ) -> AsyncIterator[tuple[AsyncConnection, AuthorizationContext]]:
        """A transaction of a `bearer` route, and what its caller may do as of it: what the guard found before the body
        came, or remembered, may have been taken away since. Raises what the guard would raise; DatabaseUnavailable.
        """
        async with self.database.write() as connection:
            yield connection, await reauthorize(request, connection, datetime.now(UTC))

    @asynccontextmanager
    async def session_transaction(
        self, request: web.Request
    ) -> AsyncIterator[tuple[AsyncConnection, AuthenticatedCredential]]:
        """The same on a `session` route: a transaction, and whose session it is as of it."""
        async with self.database.write() as connection:
            yield connection, await reauthenticate(request, connection, datetime.now(UTC))
