"""What handlers of the control service work with."""

from dataclasses import dataclass
from typing import TypeVar

from aiohttp import web

from chassis.cursor import CursorSigner
from chassis.identity.checks import Checks
from chassis.relational import Database
from chassis.validation import read_json

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
