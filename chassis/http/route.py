"""The declaration of a route: one method of one path, with its handler, access rule and description.

An `Operation` contains the parameters, bodies and responses as typed values, from which `chassis.http.openapi` builds
the document.

    Operation(
        id="listSpans",
        tag=SPANS,
        parameters=(Parameter("limit", "query", Annotated[int, Meta(ge=1, le=200)], "Rows of a page.", default=50),),
        responses=(ResponseSpec("A page.", json_content(SpanPage)),),
    )

Types are msgspec types (their schemas are JSON Schema 2020-12, which OpenAPI 3.1 requires), built from the constants
that validation uses. The summary of an operation is the first line of its `description`, or its handler's docstring.

A query string is a structure (`Query`). Each field is a parameter with its bounds and its description.

    class ReleaseQuery(Query, frozen=True):
        project: Annotated[str | None, line(MAX_SLUG_LENGTH), Meta(description="Only releases of this project.")] = None

Routes for bearer tokens refuse query parameters that they do not declare, because a misspelled filter would otherwise
return everything. Other routes ignore undeclared parameters, because identity providers, directories, browsers, senders
of webhooks and OTLP exporters append their own parameters.
"""

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cache, partial, reduce
from types import MappingProxyType, NoneType
from typing import Annotated, Any, Final, Literal, TypeVar, get_args, get_type_hints

import msgspec
from aiohttp import web
from msgspec import Meta

from chassis.errors import JSON_TYPE, ApiError, BadRequest, Issue
from chassis.http.access import Access, BearerAuth, Handler, SessionAuth, public
from chassis.http.cors import Cors
from chassis.http.preparse import PreParseFilter
from chassis.http.validation import (
    MAX_ISSUES,
    Issues,
    bounded_int,
    bounded_text,
    must_be_one_of,
    single_value,
    with_known_issues,
)
from chassis.limits.limiter import LimitClass
from proto.errors import ErrorCode
from proto.identity import UNPRINTABLE

ParameterLocation = Literal["path", "query", "header"]
Content = Mapping[str, Any]  # media type -> type of the body; None: bytes that JSON Schema cannot describe


class ErrorBody(msgspec.Struct, rename="camel"):
    """The reason why a request was refused. `code` is for programs, and `message` is for people. Give the `requestId`
    to the operator when you ask about an error.
    """

    code: ErrorCode
    message: str
    request_id: str
    details: list[Issue] | msgspec.UnsetType = msgspec.UNSET


class Error(msgspec.Struct):
    """The body of every error response."""

    error: ErrorBody


@dataclass(frozen=True, slots=True)
class Tag:
    """A group of operations. The document lists groups and their operations in the order of the routes."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """One value in the path (always required), the query string or a header. `default`: the value when it is absent."""

    name: str
    location: ParameterLocation
    type: Any
    description: str
    required: bool = False
    default: Any = None
    example: Any = None


@dataclass(frozen=True, slots=True)
class Body:
    """A required request body, by media type. `example` is the example of every media type that `examples` lacks."""

    content: Content
    description: str = ""
    example: Any = None
    examples: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ResponseSpec:
    """A response that the operation declares. A response without content has no body. `headers`: descriptions of
    additional headers by name.
    """

    description: str
    content: Content = field(default_factory=dict)
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ErrorSpec:
    """The error responses of an operation. `prefix` starts their names in the document's components.

    `descriptions`: descriptions by status, for statuses that have a special meaning in this operation.
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
    """One method of one path. `id` is unique in the product, because client generators name functions after it.

    `error_statuses` lists statuses in addition to the ones that the access rule and the body imply.
    `only_error_statuses` replaces all of them. `description` is used instead of the docstring of a handler that is not
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
    ResponseSpec("The methods and headers that a web page from this origin may send, as CORS headers.", status=204),
)


@dataclass(frozen=True, slots=True)
class Route:
    """One method of one path, its handler and its access rule.

    `limit`: the rate-limit class of a principal's request, on a `bearer` or `session` route.
    `render_error`: renders errors of the route. The default renders the error envelope.
    `cancel_on_disconnect`: cancel the handler when its client disconnects. The default is true for GET, because GET
    changes nothing.
    `operation`: parameters, body and responses, for `/openapi.json` and `/docs`. A route without an operation is not
    shown there.
    `cors`: the pages of other origins that may read the responses. It is set by `cross_origin`.
    `compress`: whether large responses are compressed for clients that accept it. The default is true for GET, except
    for paths whose responses may contain secrets (`chassis.http.compression`).
    `answers_head`: whether a GET route also answers HEAD, with the same response without its body. False if the request
    itself has an effect, or if the response is a stream.
    `pre_parse_filter`: may refuse requests before they are parsed. Only for a path without variables.
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
    """`routes` with `cors` and a preflight route for every path. `routes` unchanged when `cors` has no origins."""
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


Q = TypeVar("Q", bound="Query")

_UNBOUNDED: Final = 8_192  # characters: no request line is longer
_LINE: Final = re.compile(f"[^{UNPRINTABLE}\ud800-\udfff]+")


class Query(msgspec.Struct, frozen=True, rename="camel"):
    """The parameters of one route. Each parameter is optional and has a default."""

    def check(self, issues: Issues) -> None:
        """Record errors that the types of the fields do not exclude. An invalid field has its default value here."""


def line(max_length: int) -> Meta:
    """A text without control characters, as columns of names require."""
    return read_as(partial(_matching, _LINE, "Must consist of printable characters."), max_length)


def form(pattern: str, message: str, max_length: int | None = None) -> Meta:
    """A text that matches the pattern as a whole. Otherwise the issue has the message. Without `max_length` only the
    pattern is checked, also for an empty text.
    """
    return read_as(partial(_matching, re.compile(pattern), message), max_length, 0 if max_length is None else 1)


def read_as(read: Callable[[str, str, Issues], Any], max_length: int | None, min_read: int = 1) -> Meta:
    """A text that `read(text, path, issues)` converts to the value. `read` returns None after it has recorded an issue.
    A text shorter than `min_read` is refused before.
    """
    return Meta(min_length=1, max_length=max_length, extra={"read": read, "min_read": min_read})


def read_query(type_: type[Q], query: Mapping[str, str], issues: Issues) -> Q:
    """Read the query string as the structure. Errors are recorded, and invalid fields get their defaults."""
    read = {name: _read(parameter, query, issues) for name, parameter in _parameters(type_).items()}
    value = type_(**{name: each for name, each in read.items() if each is not None})
    value.check(issues)
    return value


def query_parameters(type_: type[Query]) -> tuple[Parameter, ...]:
    """The parameters of the structure, for the document."""
    return tuple(_parameters(type_).values())


@cache
def _parameters(type_: type[Query]) -> dict[str, Parameter]:
    """The parameters by field."""
    hints = get_type_hints(type_, include_extras=True)
    return {field.name: _parameter(field, hints[field.name]) for field in msgspec.structs.fields(type_)}


def _parameter(field: msgspec.structs.FieldInfo, hint: Any) -> Parameter:
    """The parameter of a field. Its description stands beside the schema, not in the schema."""
    alternatives, *metas = get_args(hint)
    (base,) = (each for each in get_args(alternatives) or (alternatives,) if each is not NoneType)
    described = next(meta for meta in metas if meta.description)
    bounds = [meta for meta in metas if meta is not described]
    if any(meta.extra for meta in bounds):
        base = str
    type_ = reduce(lambda inner, meta: Annotated[inner, meta], bounds, base)
    default = None if field.default is msgspec.NODEFAULT else field.default
    examples = described.examples or [None]
    return Parameter(field.encode_name, "query", type_, described.description, default=default, example=examples[0])


def _read(parameter: Parameter, query: Mapping[str, str], issues: Issues) -> Any:
    """The value. None when the parameter is absent or an issue was recorded."""
    name, base = parameter.name, (*get_args(parameter.type), parameter.type)[0]
    bounds = next(iter(getattr(parameter.type, "__metadata__", ())), Meta())
    if base is int:
        return bounded_int(query, name, parameter.default, int(bounds.ge or 0), int(bounds.le or 0), issues)
    if base is str:
        extra = bounds.extra or {}
        least = extra.get("min_read", bounds.min_length or 0)
        text = bounded_text(query, name, least, bounds.max_length or _UNBOUNDED, issues)
        read = extra.get("read")
        return text if read is None or text is None else read(text, f"query.{name}", issues)
    choices = {"true": True, "false": False} if base is bool else {each.value: each for each in base}
    chosen = single_value(query, name, issues)
    if chosen is not None and chosen not in choices:
        issues.add(f"query.{name}", must_be_one_of(choices), "not_allowed")
    return choices.get(chosen or "")


def _matching(pattern: re.Pattern[str], message: str, text: str, path: str, issues: Issues) -> str | None:
    if pattern.fullmatch(text) is not None:
        return text
    issues.add(path, message, "format")
    return None


def refuses_undeclared(route: Route) -> bool:
    """Whether the route refuses query parameters that its operation does not declare."""
    return isinstance(route.access, BearerAuth | SessionAuth) and route.operation is not None


def with_declared_parameters(route: Route) -> Handler:
    """The handler of `route` with a check for undeclared parameters. A request with undeclared parameters has no effect
    and gets a BadRequest that names each of them, together with the errors that the handler's own checks find. A
    handler that has no such checks does not run.
    """
    if route.operation is None or not refuses_undeclared(route):
        return route.handler
    handler, body = route.handler, route.operation.body
    declared = {parameter.name for parameter in route.operation.parameters if parameter.location == "query"}
    known = f"Known parameters: {', '.join(sorted(declared))}." if declared else "This path has no parameters."

    async def checked(request: web.Request) -> web.StreamResponse:
        undeclared = list(dict.fromkeys(name for name in request.query if name not in declared))
        if not undeclared:
            return await handler(request)
        issues = Issues()
        for name in undeclared:
            issues.add(f"query.{name}", f"Is not a known parameter. {known}", "unknown_field")
        error = BadRequest("The query is not valid.", list(issues))
        raise await _with_further_faults(error, handler, request) if declared or body is not None else error

    return checked


async def _with_further_faults(error: BadRequest, handler: Handler, request: web.Request) -> BadRequest:
    """`error` with the errors that the checks of the handler find. Raises errors that precede a 400, such as
    NotFound.
    """
    known = error.details or []
    with with_known_issues(known):
        try:
            await handler(request)
        except BadRequest as further:
            others = [issue for issue in further.details or () if issue not in known]
            further.details = [*known, *others][:MAX_ISSUES]
            return further
    return error
