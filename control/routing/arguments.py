"""What handlers of control get for the types of their parameters."""

from collections.abc import Mapping
from contextlib import AsyncExitStack
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import AuthorizationContext
from chassis.http.access import authorization_context
from chassis.http.declaration import Argument, Arguments
from chassis.http.web import request_id
from control.audit.record import record
from control.http.context import HandlerContext
from control.http.paging import DEFAULT_LIMIT, MAX_LIMIT, page_parameters
from control.http.path_ids import path_id
from control.routing.resource import PageReader


@dataclass(frozen=True, slots=True)
class Transaction:
    """The write transaction of a request. It commits when the handler returns, and rolls back when the handler raises.

    `caller`: what the caller may do as of this transaction. What the guard read before the body arrived may have been
    revoked since.
    """

    connection: AsyncConnection
    caller: AuthorizationContext
    request_id: str

    async def record(self, action: str, object_id: str, data: Mapping[str, object]) -> None:
        """Append an event to the audit log: see `control.audit.record`."""
        await record(self.connection, self.caller, action, object_id, data, self.request_id)


def control_arguments(context: HandlerContext, own: Mapping[Any, Argument] = MappingProxyType({})) -> Arguments:
    """The caller; a read or a write transaction; a page; ids of the path; bodies. `own`: further ones, or others."""

    async def caller(request: web.Request, _stack: AsyncExitStack) -> AuthorizationContext:
        return authorization_context(request)

    async def reading(_request: web.Request, stack: AsyncExitStack) -> AsyncConnection:
        return await stack.enter_async_context(context.database.read())

    async def transaction(request: web.Request, stack: AsyncExitStack) -> Transaction:
        connection, authorized = await stack.enter_async_context(context.write_transaction(request))
        return Transaction(connection, authorized, request_id(request))

    by_type = {
        AuthorizationContext: Argument(caller),
        AsyncConnection: Argument(reading),
        Transaction: Argument(transaction),
        PageReader: page_argument(context),
    }
    return Arguments(context.read_body, path_id, by_type | dict(own))


def page_argument(context: HandlerContext, default: int = DEFAULT_LIMIT, maximum: int = MAX_LIMIT) -> Argument:
    """A page of at most `maximum` items."""

    async def page(request: web.Request, _stack: AsyncExitStack) -> Any:
        return PageReader(request, context, default, maximum)

    return Argument(page, page_parameters(default, maximum))
