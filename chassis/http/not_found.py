"""Requests without a route: 404, or 405 with the methods that the path has.

A catch-all route handles these requests. Without it aiohttp would raise an exception, but only after it has sent
`100 Continue`, which asks for a body that no handler reads.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NoReturn

from aiohttp import web

from chassis.errors import MethodNotAllowed, NotFound
from chassis.http.body import delay_100_continue

UNROUTED: Final = "unrouted"
_ANY_PATH: Final = "/{tail:.*}"


def add_catch_all(app: web.Application, resources: Sequence[web.AbstractResource]) -> None:
    """Add a route for every path and method that `resources` do not have."""

    async def unrouted(request: web.Request) -> NoReturn:
        """Raise 405 when the path has other methods, otherwise 404."""
        _, allowed = await resolve_path(request, resources)
        if allowed:
            raise MethodNotAllowed(sorted(allowed))
        raise NotFound

    app.router.add_route("*", _ANY_PATH, unrouted, expect_handler=delay_100_continue)


async def resolve_path(
    request: web.Request, resources: Iterable[web.AbstractResource]
) -> tuple[web.AbstractResource | None, set[str]]:
    """The first of `resources` that matches the path with any method, and the methods of all matching resources."""
    first, methods = None, set[str]()
    for resource in resources:
        _, allowed = await resource.resolve(request)
        if allowed:
            first = first or resource
            methods |= allowed
    return first, methods


def route_name(request: web.Request) -> str:
    """The path template of the request's route, for metrics. `unrouted` when the request has no route."""
    resource = request.match_info.route.resource
    return UNROUTED if resource is None or resource.canonical == "/{tail}" else resource.canonical
