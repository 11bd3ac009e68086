"""Routes that are declared at their handlers. The signature of a handler says what the handler needs and returns.

    VIEWS = "/orgs/{orgSlug}/projects/{projectSlug}/views"

    @route("POST", VIEWS, bearer(Scope.VIEWS_WRITE), status=201, errors=(409,), example={"name": "Payment"})
    async def create_saved_view(self, body: NewSavedView, transaction: Transaction) -> SavedView:
        \"\"\"Save an address of the page under a name.\"\"\"

`declared_routes` makes a `Route` of each such handler. The handler's name and docstring give the operation's id
(`createSavedView`), summary and description. The signature gives
- the value of each parameter, in the order of the parameters: the value that the service provides for the parameter's
  type (`Arguments`), or a variable of the path with the parameter's name, or the JSON body if the type is a structure,
  or the query string if the type is a `Query`,
- the response: a structure is sent as JSON, a `Created` with 201, None as 204, and a `StreamResponse` unchanged.
"""

import inspect
import re
from collections.abc import Awaitable, Callable, Container, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from functools import cache
from types import MethodType, UnionType
from typing import Annotated, Any, Final, Generic, TypeVar, Union, get_args, get_origin, get_type_hints

import msgspec
from aiohttp import web
from msgspec import Meta

from chassis.http.access import Access, Handler
from chassis.http.route import (
    DEFAULT_ERROR_SPEC,
    Body,
    ErrorSpec,
    Operation,
    Parameter,
    Query,
    ResponseSpec,
    Route,
    Tag,
    json_content,
    query_parameters,
    read_query,
)
from chassis.http.validation import Issues, with_known_issues
from chassis.http.web import json_response

Provide = Callable[[web.Request, AsyncExitStack], Awaitable[Any]]
T = TypeVar("T")
F = TypeVar("F", bound=Callable[..., Awaitable[Any]])

_DECLARED: Final = "__declared__"
_VARIABLE: Final = re.compile(r"{(\w+)}")
_PATH_ID: Final = Annotated[str, Meta(min_length=1)]
_DONE: Final = "The request was carried out."


class PageOf(msgspec.Struct, Generic[T], rename="camel", frozen=True):
    """A page of a list, and the cursor of the next page."""

    data: list[T]
    next_cursor: str | None
    has_more: bool


@dataclass(frozen=True, slots=True)
class Created(Generic[T]):
    """The result of a handler that created a resource. A handler that may also find an existing resource returns
    `Created[Release] | Release`.
    """

    body: T


class ChecksQuery:
    """A value that reads the rest of the query string when the handler asks for it, and then raises all errors."""

    __slots__ = ()


@dataclass(frozen=True, slots=True)
class Argument:
    """The value that handlers get for a type. `provide` may enter contexts, which are left when the handler has
    returned, before the response is made. `parameters`: the parameters of the query string that `provide` reads.
    """

    provide: Provide
    parameters: tuple[Parameter, ...] = ()


@dataclass(frozen=True, slots=True)
class Arguments:
    """The values that the handlers of a service may ask for. `read_body` reads a JSON body as a structure, and
    `read_path` reads a variable of the path.
    """

    read_body: Callable[[web.Request, type[Any]], Awaitable[Any]]
    read_path: Callable[[web.Request, str], Any]
    by_type: Mapping[Any, Argument] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class _Declaration:
    method: str
    path: str
    access: Access
    tag: Tag | None
    status: int
    errors: tuple[int, ...]
    example: Any
    body: Body | None
    responses: tuple[ResponseSpec, ...]
    parameters: tuple[Parameter, ...]
    error_spec: ErrorSpec
    only_errors: tuple[int, ...] | None
    page: str
    checks_query: bool
    route: Mapping[str, Any]


def route(
    method: str,
    path: str,
    access: Access,
    *,
    tag: Tag | None = None,
    status: int = 200,
    errors: tuple[int, ...] = (),
    example: Any = None,
    body: Body | None = None,
    responses: tuple[ResponseSpec, ...] = (),
    parameters: tuple[Parameter, ...] = (),
    error_spec: ErrorSpec = DEFAULT_ERROR_SPEC,
    only_errors: tuple[int, ...] | None = None,
    page: str = "",
    checks_query: bool = False,
    **options: Any,
) -> Callable[[F], F]:
    """Declare the method below as the handler of a route.

    `tag` replaces the tag of the class. `status` is the status of a response with a body. `errors` are the error
    statuses in addition to the ones that access and body imply. `only_errors` replaces all of them. `example` is an
    example of the body. `body`, `responses` and `parameters` describe a handler that takes the `web.Request` and reads
    and responds without declared types. `page` is the name of a page in the document, by default the name of its items
    and `Page`. `checks_query`: the handler reads the query string itself, and raises its errors before all other work.
    `options` are further fields of `Route`.
    """
    declared = _Declaration(
        method,
        path,
        access,
        tag,
        status,
        errors,
        example,
        body,
        responses,
        parameters,
        error_spec,
        only_errors,
        page,
        checks_query,
        options,
    )

    def declare(handler: F) -> F:
        setattr(handler, _DECLARED, declared)
        return handler

    return declare


def declared_routes(resource: object, tag: Tag, arguments: Arguments) -> list[Route]:
    """The routes of an object's methods, in the order of the class. Raises TypeError for a parameter whose type the
    service does not provide.
    """
    handlers = [name for name, member in vars(type(resource)).items() if hasattr(member, _DECLARED)]
    return [_route(getattr(resource, name), tag, arguments) for name in handlers]


@cache
def page_of(item: type[Any], name: str) -> type[msgspec.Struct]:
    """`PageOf[item]` under the name that it has in the document."""
    next_cursor = Annotated[str | None, Meta(description="The `cursor` of the next page. Null on the last page.")]
    fields = [("data", list[item]), ("next_cursor", next_cursor), ("has_more", bool)]  # type: ignore[valid-type]
    page = msgspec.defstruct(name, fields, rename="camel")
    page.__doc__ = "A page."
    return page


@dataclass(frozen=True, slots=True)
class _Signature:
    """The parameters, the responses and the documentation of a handler."""

    types: Mapping[str, Any]
    responses: tuple[ResponseSpec, ...]
    body: Body | None
    description: str


@cache  # tests build a service thousands of times
def _signature(handler: Callable[..., Awaitable[Any]]) -> _Signature:
    declared: _Declaration = getattr(handler, _DECLARED)
    types = get_type_hints(handler, include_extras=True)
    results = _alternatives(types.pop("return"))
    responses = declared.responses or tuple(_response(each, declared.status, declared.page) for each in results)
    body = declared.body or _body(types.values(), declared.example)
    return _Signature(types, responses, body, inspect.getdoc(handler) or "")


def _route(handler: MethodType, tag: Tag, arguments: Arguments) -> Route:
    declared: _Declaration = getattr(handler, _DECLARED)
    signature = _signature(handler.__func__)
    given = {name: _argument(name, type_, declared.path, arguments) for name, type_ in signature.types.items()}
    described = (*(each for one in given.values() for each in one.parameters), *declared.parameters)
    operation = Operation(
        _camel(handler.__name__),
        declared.tag or tag,
        signature.responses,
        (*_ids(declared.path, {each.name for each in described}), *described),
        body=signature.body,
        error_statuses=declared.errors,
        only_error_statuses=declared.only_errors,
        error_spec=declared.error_spec,
        description=signature.description,
    )
    provided = {name: each.provide for name, each in given.items()}
    checks = declared.checks_query or declared.body is not None
    answer = _handler(handler, provided, declared.status, checks_query=checks)
    return Route(declared.method, declared.path, answer, declared.access, operation=operation, **declared.route)


def _ids(path: str, described: Container[str]) -> list[Parameter]:
    """The variables of a path without slugs, which the document describes itself, and without variables that are
    already described.
    """
    names = (name for name in _VARIABLE.findall(path) if not name.endswith("Slug") and name not in described)
    return [Parameter(name, "path", _PATH_ID, f"The {name.removesuffix('Id')}.") for name in names]


def _handler(
    handler: Callable[..., Awaitable[Any]], given: Mapping[str, Provide], status: int, *, checks_query: bool
) -> Handler:
    """`checks_query`: the handler reads the query string or the body itself, and raises all errors together."""

    async def answer(request: web.Request) -> web.StreamResponse:
        async with AsyncExitStack() as stack:
            values = {name: await provide(request, stack) for name, provide in given.items()}
            if not checks_query and not any(isinstance(value, ChecksQuery) for value in values.values()):
                Issues().raise_if_any("The query is not valid.")
            result = await handler(**values)
        if isinstance(result, web.StreamResponse):
            return result
        if isinstance(result, Created):
            return json_response(result.body, 201)
        return web.Response(status=204) if result is None else json_response(result, status)

    return answer


def _argument(name: str, type_: Any, path: str, arguments: Arguments) -> Argument:
    variable = _camel(name)
    if type_ is web.Request:
        return Argument(_request)
    if type_ in arguments.by_type:
        return arguments.by_type[type_]
    if f"{{{variable}}}" in path:
        return _path_argument(variable, arguments)
    if _is_struct(type_):
        return _query_argument(type_) if issubclass(type_, Query) else _body_argument(type_, arguments)
    raise TypeError(f"{path}: the service provides no value for the type of {name}: {type_}")


async def _request(request: web.Request, _stack: AsyncExitStack) -> web.Request:
    return request


def _path_argument(variable: str, arguments: Arguments) -> Argument:
    async def provide(request: web.Request, _stack: AsyncExitStack) -> Any:
        return arguments.read_path(request, variable)

    return Argument(provide)


def _body_argument(type_: type[Any], arguments: Arguments) -> Argument:
    async def provide(request: web.Request, _stack: AsyncExitStack) -> Any:
        return await arguments.read_body(request, type_)

    return Argument(provide)


def _query_argument(type_: type[Query]) -> Argument:
    async def provide(request: web.Request, stack: AsyncExitStack) -> Any:
        """Read the query. The next check of the request raises the errors, together with the errors of the page
        parameters or before the handler runs.
        """
        issues = Issues()
        value = read_query(type_, request.query, issues)
        stack.enter_context(with_known_issues(issues))
        return value

    return Argument(provide, query_parameters(type_))


def _body(types: Sequence[Any] | Any, example: Any) -> Body | None:
    found = [type_ for type_ in types if _is_struct(type_) and not issubclass(type_, Query)]
    return Body(json_content(found[0]), example=example) if found else None


def _alternatives(result: Any) -> tuple[Any, ...]:
    return get_args(result) if isinstance(result, UnionType) or get_origin(result) is Union else (result,)


def _response(result: Any, status: int, page: str) -> ResponseSpec:
    if result is type(None):
        return ResponseSpec(_DONE, status=204)
    if get_origin(result) is Created:
        result, status = *get_args(result), 201
    if get_origin(result) is PageOf:
        (item,) = get_args(result)
        result = page_of(item, page or f"{item.__name__}Page")
    return ResponseSpec((inspect.getdoc(result) or "").partition("\n\n")[0], json_content(result), status)


def _is_struct(type_: Any) -> bool:
    return isinstance(type_, type) and issubclass(type_, msgspec.Struct)


def _camel(name: str) -> str:
    first, *others = name.split("_")
    return first + "".join(map(str.capitalize, others))
