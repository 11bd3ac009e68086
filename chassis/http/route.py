"""The declaration of a route: one method of one path, with its handler, access rule and description."""

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Final

from aiohttp import web

from chassis.errors import ApiError
from chassis.http.access import Access, Handler, public
from chassis.http.cors import Cors
from chassis.http.operation import Operation, ResponseSpec
from chassis.http.preparse import PreParseFilter
from chassis.limits.limiter import LimitClass

ErrorRenderer = Callable[[web.Request, ApiError, str], web.Response]

_PREFLIGHT_RESPONSES: Final = (
    ResponseSpec("The methods and headers that the page may send, as CORS headers.", status=204),
)


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path, its handler and its access rule.

    `limit`: the class that a principal's request counts for, on a `bearer` or `session` route.
    `render_error`: renders its errors; by default as the error envelope.
    `cancel_on_disconnect`: cancel the handler when its client disconnects; by default for GET, which changes nothing.
    `operation`: its parameters, body and responses, for `/openapi.json` and `/docs`; without one neither shows it.
    `cors`: which pages of other origins may read its responses; set by `cross_origin`.
    `compress`: whether large answers are compressed for clients that accept it; by default those to GET, but for paths
    whose answers may hold secrets (`chassis.http.compression`).
    `answers_head`: whether a GET route answers HEAD too, as it answers GET, without the body. False where the
    request itself has an effect, and where the answer is a stream.
    `pre_parse_filter`: may refuse requests before they are parsed. For a path without variables.
    """

    method: str
    path: str
    handler: Handler
    access: Access
    limit: LimitClass = LimitClass.API
    render_error: ErrorRenderer | None = None
    cancel_on_disconnect: bool | None = None
    operation: Operation | None = None
    compress: bool | None = None
    answers_head: bool = True
    pre_parse_filter: PreParseFilter | None = None
    cors: Cors | None = None


def cross_origin(routes: Iterable[Route], cors: Cors) -> list[Route]:
    """`routes` with `cors` and a preflight route for every path; unchanged when `cors` has no origins."""
    if not cors.origins:
        return list(routes)
    marked = [replace(route, cors=cors) for route in routes]
    return [*marked, *(_preflight(route, cors) for route in {route.path: route for route in marked}.values())]


def _preflight(route: Route, cors: Cors) -> Route:
    return Route(
        "OPTIONS",
        route.path,
        cors.preflight,
        public(),
        render_error=route.render_error,
        operation=None if route.operation is None else _preflight_operation(route.operation),
        cors=cors,
    )


def _preflight_operation(operation: Operation) -> Operation:
    in_path = tuple(parameter for parameter in operation.parameters if parameter.location == "path")
    name = f"preflight{operation.id[0].upper()}{operation.id[1:]}"
    return Operation(name, operation.tag, _PREFLIGHT_RESPONSES, in_path, error_spec=operation.error_spec)
