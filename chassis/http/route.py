"""The declaration of a route: one method of one path, with its handler, access rule and description.

Parameters, bodies and responses of a route as typed values, from which `chassis.http.openapi` builds the document.

    Operation(
        id="listSpans",
        tag=SPANS,
        parameters=(Parameter("limit", "query", Annotated[int, Meta(ge=1, le=200)], "Rows of a page.", default=50),),
        responses=(ResponseSpec("A page.", json_content(SpanPage)),),
    )

Types are msgspec types (their schemas are JSON Schema 2020-12, which OpenAPI 3.1 requires), built from the constants
that validation uses. The summary of an operation is the first line of its `description`, or its handler's docstring.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec
from aiohttp import web

from chassis.errors import JSON_TYPE as JSON_TYPE  # noqa: PLC0414
from chassis.errors import ApiError, Issue
from chassis.http.access import Access, Handler, public
from chassis.http.cors import Cors
from chassis.http.preparse import PreParseFilter
from chassis.limits.limiter import LimitClass
from proto.errors import ErrorCode

ParameterLocation = Literal["path", "query", "header"]
Content = Mapping[str, Any]  # media type -> type of the body; None: bytes in a format that JSON Schema cannot describe


class ErrorBody(msgspec.Struct, rename="camel"):
    """Why a request was refused. `code` is for programs, `message` for people; quote `requestId` to the operator."""

    code: ErrorCode
    message: str
    request_id: str
    details: list[Issue] | msgspec.UnsetType = msgspec.UNSET


class Error(msgspec.Struct):
    """The body of every error response."""

    error: ErrorBody


@dataclass(frozen=True, slots=True)
class Tag:
    """A group of operations; the document lists groups and their operations in the order of the routes."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """One value in the path (always required), the query string or a header. `default`: its value when absent."""

    name: str
    location: ParameterLocation
    type: Any
    description: str
    required: bool = False
    default: Any = None
    example: Any = None


@dataclass(frozen=True, slots=True)
class Body:
    """A required request body, by media type. `example` is one of every media type, unless `examples` has another."""

    content: Content
    description: str = ""
    example: Any = None
    examples: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResponseSpec:
    """A response that the operation declares; without content it has no body. `headers`: additional ones, by name with
    their descriptions.
    """

    description: str
    content: Content = field(default_factory=dict)
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ErrorSpec:
    """The error responses of an operation. `prefix` starts their names in the document's components.

    `descriptions`: by status, for a status that has a more specific meaning here than elsewhere.
    """

    prefix: str
    content: Content
    descriptions: Mapping[int, str] = field(default_factory=dict)


def json_content(type_: Any) -> Content:
    """Content of media type `application/json`."""
    return MappingProxyType({JSON_TYPE: type_})


DEFAULT_ERROR_SPEC: Final = ErrorSpec("", json_content(Error))


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path. `id` is unique in the product: client generators name functions after it.

    `error_statuses` lists statuses beyond those that the access rule and the body imply; `only_error_statuses` all of
    them, for a handler that has others of its own. `description` is in place of the docstring of a handler that is not
    imported with the route. A declared response replaces the error response of the same status.
    """

    id: str
    tag: Tag
    responses: tuple[ResponseSpec, ...]
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    error_statuses: tuple[int, ...] = ()
    only_error_statuses: tuple[int, ...] | None = None
    error_spec: ErrorSpec = DEFAULT_ERROR_SPEC
    description: str = ""


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
