"""What no route takes: 404, or 405 with the methods that the path does have.

A route of its own for everything else, where aiohttp would raise: aiohttp says `100 Continue` before that, and asks the
sender for a body that nobody wants.
"""

from collections.abc import Iterable, Sequence
from typing import Final, NoReturn

from aiohttp import web

from chassis.errors import MethodNotAllowed, NotFound
from chassis.http.body import delay_100_continue

UNROUTED: Final = "unrouted"
_ANY_PATH: Final = "/{tail:.*}"


def add_catch_all(app: web.Application, resources: Sequence[web.AbstractResource]) -> None:
    """Answer for every path and method that `resources` leave."""

    async def unrouted(request: web.Request) -> NoReturn:
        """405 when the path has other methods, else 404."""
        _, allowed = await resolve_path(request, resources)
        if allowed:
            raise MethodNotAllowed(sorted(allowed))
        raise NotFound

    app.router.add_route("*", _ANY_PATH, unrouted, expect_handler=delay_100_continue)


async def resolve_path(
    request: web.Request, resources: Iterable[web.AbstractResource]
) -> tuple[web.AbstractResource | None, set[str]]:
    """The first resource of this path, whatever the method, and the methods of all that it has."""
    first, methods = None, set[str]()
    for resource in resources:
        _, allowed = await resource.resolve(request)
        if allowed:
            first = first or resource
            methods |= allowed
    return first, methods


def route_name(request: web.Request) -> str:
    """The route's template, for metrics; `unrouted` for what has none."""
    resource = request.match_info.route.resource
    return UNROUTED if resource is None or resource.canonical == "/{tail}" else resource.canonical
