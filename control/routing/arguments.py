"""The arguments that handlers of control get, by the types of their parameters."""

from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass, field
from functools import partial
from types import MappingProxyType
from typing import Any, ClassVar, Generic, TypeVar

import msgspec
from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthenticatedCredential, AuthorizationContext
from chassis.http.access import authenticated_credential, authorization_context
from chassis.http.declaration import Argument, Arguments, declared_routes
from chassis.http.route import Tag
from chassis.http.validation import Issues
from chassis.http.web import Route, request_id
from control.audit.record import record
from control.http.context import HandlerContext, path_id
from control.http.lists import DEFAULT_LIMIT, MAX_LIMIT, page_parameters
from control.routing.resource import PageReader

C = TypeVar("C", AuthenticatedCredential, AuthorizationContext)


class CheckedBody(msgspec.Struct, frozen=True, forbid_unknown_fields=True, rename="camel"):
    """A request body with constraints beyond the types of its fields."""

    def check(self, issues: Issues) -> None:
        """Add an issue for each violated constraint."""


@dataclass(frozen=True, slots=True)
class WriteTransaction(Generic[C]):
    """The write transaction of a request. It commits when the handler returns, and rolls back when the handler raises.

    `caller`: what the caller may do as of this transaction. The rights that the guard read before the body arrived may
    have been revoked since.
    """

    connection: AsyncConnection
    caller: C
    request_id: str
    committed: list[Callable[[], object]] = field(default_factory=list)

    def after_commit(self, call: Callable[..., object], *values: object) -> None:
        """Call `call` before the response, if the transaction commits, for example to inform this process's guards."""
        self.committed.append(partial(call, *values))


@dataclass(frozen=True, slots=True)
class Transaction(WriteTransaction[AuthorizationContext]):
    """The transaction of a `bearer` route."""

    async def record(self, action: str, object_id: str, data: Mapping[str, object]) -> None:
        """Append an event to the audit log: see `control.audit.record`."""
        await record(self.connection, self.caller, action, object_id, data, self.request_id)


@dataclass(frozen=True, slots=True)
class SessionTransaction(WriteTransaction[AuthenticatedCredential]):
    """The transaction of a `session` route."""


@asynccontextmanager
async def begin(context: HandlerContext, request: web.Request) -> AsyncIterator[Transaction]:
    """The transaction of a handler that also does something before or after the transaction."""
    async with context.write_transaction(request) as (connection, caller):
        transaction = Transaction(connection, caller, request_id(request))
        yield transaction
    _call(transaction.committed)


@asynccontextmanager
async def begin_session(context: HandlerContext, request: web.Request) -> AsyncIterator[SessionTransaction]:
    """The transaction of a handler of a `session` route that also does something before or after the transaction."""
    async with context.session_transaction(request) as (connection, caller):
        transaction = SessionTransaction(connection, caller, request_id(request))
        yield transaction
    _call(transaction.committed)


def _call(committed: list[Callable[[], object]]) -> None:
    for each in committed:
        each()


def control_arguments(context: HandlerContext, own: Mapping[Any, Argument] = MappingProxyType({})) -> Arguments:
    """The arguments of all handlers: the caller, a read or a write transaction, a page, ids of the path, bodies. `own`
    adds arguments or replaces some.
    """

    async def caller(request: web.Request, _stack: AsyncExitStack) -> AuthorizationContext:
        return authorization_context(request)

    async def credential(request: web.Request, _stack: AsyncExitStack) -> AuthenticatedCredential:
        return authenticated_credential(request)

    async def reading(_request: web.Request, stack: AsyncExitStack) -> AsyncConnection:
        return await stack.enter_async_context(context.database.read())

    async def transaction(request: web.Request, stack: AsyncExitStack) -> Transaction:
        return await stack.enter_async_context(begin(context, request))

    async def session_transaction(request: web.Request, stack: AsyncExitStack) -> SessionTransaction:
        return await stack.enter_async_context(begin_session(context, request))

    by_type = {
        AuthorizationContext: Argument(caller),
        AuthenticatedCredential: Argument(credential),
        AsyncConnection: Argument(reading),
        Transaction: Argument(transaction),
        SessionTransaction: Argument(session_transaction),
        PageReader: page_argument(context),
    }

    async def read_body(request: web.Request, type_: type[Any]) -> Any:
        if not issubclass(type_, CheckedBody):
            return await context.read_body(request, type_)
        issues = Issues()
        body = await context.read_body(request, type_, issues)
        body.check(issues)
        issues.raise_if_any("The request body is not valid.")
        return body

    return Arguments(read_body, _path_value, by_type | dict(own))


def _path_value(request: web.Request, name: str) -> str:
    """The value of a path variable. The guard has already looked up slugs, so only ids are checked."""
    return request.match_info[name] if name.endswith("Slug") else path_id(request, name)


def page_argument(context: HandlerContext, default: int = DEFAULT_LIMIT, maximum: int = MAX_LIMIT) -> Argument:
    """The argument that is a page of at most `maximum` items."""

    async def page(request: web.Request, _stack: AsyncExitStack) -> Any:
        return PageReader(request, context, default, maximum)

    return Argument(page, page_parameters(default, maximum))


@dataclass(frozen=True, slots=True)
class Handlers:
    """Handlers of one resource. A subclass has its handlers as methods with `@route`, and their dependencies as
    fields.
    """

    TAG: ClassVar[Tag]
    context: HandlerContext

    def routes(self) -> list[Route]:
        """All routes of this resource."""
        return declared_routes(self, self.TAG, self.arguments())

    def arguments(self) -> Arguments:
        """The arguments of the handlers, by the types of their parameters."""
        return control_arguments(self.context)
