"""All routes of directories: SCIM itself, and what administrators see and change of it.

The handlers of SCIM are imported when the first request of a directory comes: the library of their models takes a third
of the CPU time and 16 of the 117 MB that importing control takes, and an installation may have no directory.
"""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from aiohttp import web

from chassis.http.access import directory, directory_identity
from chassis.http.operation import Operation
from chassis.http.web import Handler, Route
from chassis.limits.limiter import LimitClass
from control.http.context import HandlerContext
from control.http.request_slots import RequestSlots
from control.identity.scim import operations
from control.identity.scim.guard import TOO_MANY, DirectoryGuard
from control.identity.scim.messages import ScimUrls, render_error
from control.identity.scim.options import ScimSettingsHandlers
from control.identity.scim.tokens import ScimTokens

if TYPE_CHECKING:
    from control.identity.scim.protocol.handlers import ScimHandlers


class DeferredHandlers:
    """The handlers, and their dependencies."""

    def __init__(self, context: HandlerContext, guard: DirectoryGuard, urls: ScimUrls) -> None:
        self._context = context
        self._guard = guard
        self._urls = urls
        self._handlers: ScimHandlers | None = None
        self._lock = asyncio.Lock()

    async def get(self) -> "ScimHandlers":
        """The handlers. The first requests wait for the import, in a thread; others are served meanwhile."""
        async with self._lock:
            if self._handlers is None:
                self._handlers = await asyncio.to_thread(self._import)
        return self._handlers

    def _import(self) -> "ScimHandlers":
        from control.identity.scim.protocol.handlers import build_handlers  # noqa: PLC0415 (see above)

        return build_handlers(self._context, self._guard, self._urls)


if TYPE_CHECKING:
    from control.identity.scim.protocol.handlers import ScimHandlers

BASE: Final = "/scim/v2/{orgSlug}"
_METHODS: Final = ("GET", "POST", "PUT", "PATCH", "DELETE")
# Paths that begin with none of these; a path that does, with a method that it does not have, is 405.
_ELSEWHERE: Final = "/{rest:(?!(?:Users|Groups|ServiceProviderConfig|Schemas|ResourceTypes|Me|Bulk)(?:/|$)).*}"


def build_scim_routes(context: HandlerContext, public_url: str) -> list[Route]:
    """`public_url`: that of the API."""
    urls, guard = ScimUrls(public_url.rstrip("/")), DirectoryGuard(context.database)
    return [
        *ScimTokens(context, urls).routes(),
        *ScimSettingsHandlers(context, urls).routes(),
        *_DirectoryRoutes(guard, DeferredHandlers(context, guard, urls)).routes(),
    ]


@dataclass(frozen=True, slots=True)
class _DirectoryRoutes:
    """The routes below an organization's SCIM endpoint, whose handlers are imported later."""

    guard: DirectoryGuard
    handlers: DeferredHandlers
    slots: RequestSlots = field(default_factory=lambda: RequestSlots(TOO_MANY))

    def routes(self) -> list[Route]:
        """Users, groups, discovery, and what there is not."""
        route = self._route
        return [
            route("GET", "/Users", lambda one: one.users.list, operations.LIST_USERS),
            route("POST", "/Users/.search", lambda one: one.users.search, operations.SEARCH_USERS),
            route("POST", "/Users", lambda one: one.users.create, operations.CREATE_USER),
            route("GET", "/Users/{id}", lambda one: one.users.show, operations.SHOW_USER),
            route("PUT", "/Users/{id}", lambda one: one.users.replace, operations.REPLACE_USER),
            route("PATCH", "/Users/{id}", lambda one: one.users.change, operations.CHANGE_USER),
            route("DELETE", "/Users/{id}", lambda one: one.users.remove, operations.REMOVE_USER),
            route("GET", "/Groups", lambda one: one.groups.list, operations.LIST_GROUPS),
            route("POST", "/Groups/.search", lambda one: one.groups.search, operations.SEARCH_GROUPS),
            route("POST", "/Groups", lambda one: one.groups.create, operations.CREATE_GROUP),
            route("GET", "/Groups/{id}", lambda one: one.groups.show, operations.SHOW_GROUP),
            route("PUT", "/Groups/{id}", lambda one: one.groups.replace, operations.REPLACE_GROUP),
            route("PATCH", "/Groups/{id}", lambda one: one.groups.change, operations.CHANGE_GROUP),
            route("DELETE", "/Groups/{id}", lambda one: one.groups.remove, operations.REMOVE_GROUP),
            route("GET", "/ServiceProviderConfig", lambda one: one.discovery.config, operations.CONFIG),
            route("GET", "/Schemas", lambda one: one.discovery.schemas, operations.SCHEMAS),
            route("GET", "/Schemas/{uri}", lambda one: one.discovery.schema, operations.SCHEMA),
            route("GET", "/ResourceTypes", lambda one: one.discovery.resource_types, operations.TYPES),
            route("GET", "/ResourceTypes/{name}", lambda one: one.discovery.resource_type, operations.TYPE),
            *(route(method, "/Me", lambda one: one.discovery.me) for method in _METHODS),
            route("POST", "/Bulk", lambda one: one.discovery.bulk),
            route("GET", "", lambda one: one.discovery.search_all),
            route("POST", "/.search", lambda one: one.discovery.search_all),
            *(route(method, _ELSEWHERE, lambda one: one.discovery.unknown_path) for method in _METHODS),
        ]

    def _route(
        self,
        method: str,
        path: str,
        choose: Callable[["ScimHandlers"], Handler],
        operation: Operation | None = None,
    ) -> Route:
        async def take_slot(request: web.Request) -> web.StreamResponse:
            async with self.slots.taken(directory_identity(request).org_id):
                handler = choose(await self.handlers.get())
                return await handler(request)

        return Route(
            method,
            BASE + path,
            take_slot,
            directory(self.guard),
            limit=LimitClass.SCIM,
            render_error=render_error,
            operation=operation,
        )
