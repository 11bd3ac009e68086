"""All routes of directories: SCIM itself, and the routes for administrators.

The handlers of SCIM are imported with the first request of a directory. The library of their models takes a third of
the CPU time and 16 of the 117 MB that importing control takes, and an installation may have no directory.
"""

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from aiohttp import web

from chassis.http.access import directory, directory_identity
from chassis.http.declaration import declared_routes
from chassis.http.route import Tag
from chassis.http.web import Route
from chassis.limits.limiter import LimitClass
from control.http.context import HandlerContext, RequestSlots
from control.identity.scim.messages import ScimUrls, render_error
from control.identity.scim.operations import ROUTES, ScimRoute
from control.identity.scim.options import DirectoryOptions
from control.identity.scim.tokens import TOO_MANY, DirectoryGuard, ScimTokens
from control.identity.sso.routes import only_for_users
from control.routing.arguments import control_arguments

if TYPE_CHECKING:
    from control.identity.scim.protocol.handlers import ScimHandlers

TAG: Final = Tag("directory", "SCIM tokens and settings of the organization's directory.")
BASE: Final = "/scim/v2/{orgSlug}"


def build_scim_routes(context: HandlerContext, public_url: str) -> list[Route]:
    """All routes of directories. `public_url`: the public URL of the API."""
    urls, guard, arguments = (
        ScimUrls(public_url.rstrip("/")),
        DirectoryGuard(context.database),
        control_arguments(context),
    )
    resources = (ScimTokens(context, urls), DirectoryOptions(context, urls))
    managed = [only_for_users(each) for one in resources for each in declared_routes(one, TAG, arguments)]
    deferred = DeferredHandlers(context, guard, urls)
    return [*managed, *(_route(each, guard, deferred) for each in ROUTES)]


def _route(described: ScimRoute, guard: DirectoryGuard, deferred: "DeferredHandlers") -> Route:
    return Route(
        described.method,
        BASE + described.path,
        partial(deferred.call, described),
        directory(guard),
        limit=LimitClass.SCIM,
        render_error=render_error,
        operation=described.operation,
    )


class DeferredHandlers:
    """The handlers of directories. Only a few requests of each directory are processed at once."""

    def __init__(self, context: HandlerContext, guard: DirectoryGuard, urls: ScimUrls) -> None:
        self._context = context
        self._guard = guard
        self._urls = urls
        self._slots = RequestSlots(TOO_MANY)
        self._handlers: ScimHandlers | None = None
        self._lock = asyncio.Lock()

    async def call(self, described: ScimRoute, request: web.Request) -> web.StreamResponse:
        """The response of the handler of a route. Raises RateLimited."""
        async with self._slots.taken(directory_identity(request).org_id):
            return await described.handler(await self.get())(request)

    async def get(self) -> "ScimHandlers":
        """The handlers. The first requests wait for the import in a thread. Other requests are served meanwhile."""
        async with self._lock:
            if self._handlers is None:
                self._handlers = await asyncio.to_thread(self._import)
        return self._handlers

    def _import(self) -> "ScimHandlers":
        from control.identity.scim.protocol.handlers import build_handlers  # noqa: PLC0415 (see above)

        return build_handlers(self._context, self._guard, self._urls)
