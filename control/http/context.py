"""The context that all handlers of the control service share, and ids in paths.

`RequestSlots` bounds how many requests of one sender are processed at once. All organizations share the database's
connections and its writes, so a sender of hundreds of expensive requests could otherwise occupy all of them.
"""

import asyncio
import re
from collections.abc import AsyncIterator, Callable, Hashable, Mapping
from contextlib import asynccontextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from types import MappingProxyType
from typing import Any, Final, TypeVar

from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.guards import AuthGuards
from chassis.auth.model import AuthenticatedCredential, AuthorizationContext
from chassis.db.database import Database
from chassis.errors import NotFound, RateLimited
from chassis.http.access import reauthenticate, reauthorize
from chassis.http.cursor import CursorSigner
from chassis.http.validation import Issues, decode_with_placeholders, read_json, read_json_bytes

_ID: Final = re.compile(r"[a-z]{3}_[0-9a-z]{26}")


def path_id(request: web.Request, name: str) -> str:
    """The id in the path. Raises NotFound for a text that is not an id, because it may hold characters that no column
    accepts.
    """
    text = request.match_info[name]
    if _ID.fullmatch(text) is None:
        raise NotFound
    return text


B = TypeVar("B")
C = TypeVar("C")
_INVALID: Final = "The request body is not valid."


@dataclass(frozen=True, slots=True)
class HandlerContext:
    """Database and guards, the signer of page cursors, and the limits of a request body: bytes and seconds."""

    guards: AuthGuards
    cursors: CursorSigner
    max_body_bytes: int
    body_timeout_s: float

    @property
    def database(self) -> Database:
        """The relational database."""
        return self.guards.database

    async def read_body(self, request: web.Request, body_type: type[B], issues: Issues | None = None) -> B:
        """Decode the JSON body. A handler that checks the body further passes its `issues`. Raises
        UnsupportedMediaType, PayloadTooLarge, BadRequest, in this order.
        """
        return await read_json(request, body_type, issues, max_bytes=self.max_body_bytes, timeout_s=self.body_timeout_s)

    async def read_partial_body(
        self, request: web.Request, body_type: type[B], placeholders: Mapping[str, Any], issues: Issues
    ) -> B | None:
        """Decode a JSON body that has constraints beyond its types, as
        `chassis.http.validation.decode_with_placeholders` does. Raises the errors of `read_body`.
        """
        raw = await read_json_bytes(request, max_bytes=self.max_body_bytes, timeout_s=self.body_timeout_s)
        return decode_with_placeholders(body_type, raw, placeholders, issues)

    async def read_checked_body(
        self,
        request: web.Request,
        body_type: type[B],
        check: Callable[[B, Issues], C],
        placeholders: Mapping[str, Any] = MappingProxyType({}),
    ) -> tuple[B, C]:
        """A JSON body with constraints beyond its types, and the result of `check(body, issues)`, which adds what is
        wrong to `issues`. Raises the errors of `read_partial_body`, and BadRequest with all issues together.
        """
        issues = Issues()
        body = await self.read_partial_body(request, body_type, placeholders, issues)
        if body is None:
            issues.raise_if_any(_INVALID)
            raise TypeError("a body that was not decoded must have issues")
        checked = check(body, issues)
        issues.raise_if_any(_INVALID)
        return body, checked

    @asynccontextmanager
    async def write_transaction(
        self, request: web.Request
    ) -> AsyncIterator[tuple[AsyncConnection, AuthorizationContext]]:
        """A write transaction of a `bearer` route, and the caller's authorization as of this transaction. The
        authorization that the guard read before the body, or took from its cache, may have been revoked since. Raises
        the errors of the guard, and DatabaseUnavailable.
        """
        async with self.database.write() as connection:
            yield connection, await reauthorize(request, connection, datetime.now(UTC))

    @asynccontextmanager
    async def session_transaction(
        self, request: web.Request
    ) -> AsyncIterator[tuple[AsyncConnection, AuthenticatedCredential]]:
        """A write transaction of a `session` route, and the session's credential as of this transaction."""
        async with self.database.write() as connection:
            yield connection, await reauthenticate(request, connection, datetime.now(UTC))


MAX_RUNNING: Final = 3  # requests of one sender in this process, each with one connection to the database
MAX_WAITING: Final = 64
RETRY_AFTER_S: Final = 1


@dataclass(slots=True)
class _Queue:
    running: asyncio.Semaphore
    requests: int = 0


class RequestSlots:
    """Slots per sender. The requests of a sender wait for a slot in the order in which they arrived. A request beyond
    `max_waiting` is answered with the message `refusal`, and may be retried after `retry_after_s`.
    """

    def __init__(
        self,
        refusal: str,
        max_running: int = MAX_RUNNING,
        *,
        max_waiting: int = MAX_WAITING,
        retry_after_s: int = RETRY_AFTER_S,
    ) -> None:
        self._refusal = (refusal, retry_after_s)
        self._max_running = max_running
        self._max_requests = max_running + max_waiting
        self._queues: dict[Hashable, _Queue] = {}

    @asynccontextmanager
    async def taken(self, whose: Hashable) -> AsyncIterator[None]:
        """Hold a slot of the sender `whose` for the time of a request. Raises RateLimited if too many wait."""
        queue = self._queues.setdefault(whose, _Queue(asyncio.Semaphore(self._max_running)))
        if queue.requests >= self._max_requests:
            raise RateLimited(*self._refusal)
        queue.requests += 1
        try:
            async with queue.running:
                yield
        finally:
            queue.requests -= 1
            if not queue.requests:
                del self._queues[whose]
