"""What handlers of the control service work with."""

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, TypeVar

from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.access import grant_again, reach_again
from chassis.cursor import CursorSigner
from chassis.identity.checks import Checks
from chassis.identity.model import Grant, Reach
from chassis.relational import Database
from chassis.validation import Issues, decode_mended, read_json, read_json_bytes

B = TypeVar("B")


@dataclass(frozen=True, slots=True)
class Desk:
    """The store with its guards, cursors for pages, and the bounds of a request's body: bytes and seconds."""

    checks: Checks
    cursors: CursorSigner
    max_body_bytes: int
    body_timeout_s: float

    @property
    def database(self) -> Database:
        """The relational store."""
        return self.checks.database

    async def read(self, request: web.Request, shape: type[B]) -> B:
        """The request's JSON body. Raises UnsupportedMediaType, PayloadTooLarge, BadRequest, in this order."""
        return await read_json(request, shape, max_bytes=self.max_body_bytes, timeout_s=self.body_timeout_s)

    async def read_mended(
        self, request: web.Request, shape: type[B], stand_ins: Mapping[str, Any], issues: Issues
    ) -> B | None:
        """The same, where a body has faults that types cannot tell: `chassis.validation.decode_mended`."""
        raw = await read_json_bytes(request, max_bytes=self.max_body_bytes, timeout_s=self.body_timeout_s)
        return decode_mended(shape, raw, stand_ins, issues)

    @asynccontextmanager
    async def change(self, request: web.Request) -> AsyncIterator[tuple[AsyncConnection, Reach]]:
        """A transaction of a `bearer` route, and what its caller may do as of it: what the guard found before the body
        came, or remembered, may have been taken away since. Raises what the guard would raise; DatabaseUnavailable.
        """
        async with self.database.write() as connection:
            yield connection, await reach_again(request, connection, datetime.now(UTC))

    @asynccontextmanager
    async def change_own(self, request: web.Request) -> AsyncIterator[tuple[AsyncConnection, Grant]]:
        """The same on a `session` route: a transaction, and whose session it is as of it."""
        async with self.database.write() as connection:
            yield connection, await grant_again(request, connection, datetime.now(UTC))
