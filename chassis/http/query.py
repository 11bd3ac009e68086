"""Query strings as structures: a field is a parameter, with its bounds and its description.

class ReleaseQuery(Query, frozen=True):
    project: Annotated[str | None, line(MAX_SLUG_LENGTH), Meta(description="Only those of this project.")] = None
    state: Annotated[ReleaseState | None, Meta(description="Only releases in this state.")] = None

Refuses query parameters that a route does not declare: a misspelled filter would otherwise return everything.

Only routes for bearer tokens refuse: their clients write whole requests on purpose. Identity providers, directories,
browsers, providers of webhooks and OTLP exporters append parameters of their own.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache, partial, reduce
from types import NoneType
from typing import Annotated, Any, Final, TypeVar, get_args, get_type_hints

import msgspec
from aiohttp import web
from msgspec import Meta

from chassis.errors import BadRequest
from chassis.http.access import BearerAuth, Handler, SessionAuth
from chassis.http.route import Parameter, Route
from chassis.http.validation import (
    MAX_ISSUES,
    Issues,
    bounded_int,
    bounded_text,
    must_be_one_of,
    single_value,
    with_known_issues,
)
from proto.identity import UNPRINTABLE

Q = TypeVar("Q", bound="Query")

_UNBOUNDED: Final = 8_192  # characters: no request line is longer
_LINE: Final = re.compile(f"[^{UNPRINTABLE}\ud800-\udfff]+")


class Query(msgspec.Struct, frozen=True, rename="camel"):
    """The parameters of one route. Each is optional: its default is what it is when absent."""

    def check(self, issues: Issues) -> None:
        """Record what is wrong beyond the types of the fields. A field with a fault has its default."""


def line(max_length: int) -> Meta:
    """A text that a column of names can hold: without control characters."""
    return read_as(partial(_matching, _LINE, "Must consist of printable characters."), max_length)


def form(pattern: str, message: str, max_length: int | None = None) -> Meta:
    """A text that matches the pattern as a whole; else the issue has the message. Without `max_length` the pattern
    alone decides, also about an empty text.
    """
    return read_as(partial(_matching, re.compile(pattern), message), max_length, 0 if max_length is None else 1)


def read_as(read: Callable[[str, str, Issues], Any], max_length: int | None, min_read: int = 1) -> Meta:
    """A text of which `read(text, path, issues)` makes the value: None after it has recorded an issue. `min_read`: a
    shorter text is refused before.
    """
    return Meta(min_length=1, max_length=max_length, extra={"read": read, "min_read": min_read})


def read_query(type_: type[Q], query: Mapping[str, str], issues: Issues) -> Q:
    """The structure; faults are recorded, and their fields have their defaults."""
    read = {name: _read(parameter, query, issues) for name, parameter in _parameters(type_).items()}
    value = type_(**{name: each for name, each in read.items() if each is not None})
    value.check(issues)
    return value


def query_parameters(type_: type[Query]) -> tuple[Parameter, ...]:
    """What the document says of them."""
    return tuple(_parameters(type_).values())


@cache
def _parameters(type_: type[Query]) -> dict[str, Parameter]:
    """By field."""
    hints = get_type_hints(type_, include_extras=True)
    return {field.name: _parameter(field, hints[field.name]) for field in msgspec.structs.fields(type_)}


def _parameter(field: msgspec.structs.FieldInfo, hint: Any) -> Parameter:
    """The description stands beside the schema, not in it."""
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
    """The value; None when absent, and after recording an issue."""
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
    """The handler of `route`, which does nothing for a request with undeclared parameters: that is a BadRequest, which
    names each of them and what else the handler's checks find. A handler that checks nothing does not run.
    """
    if route.operation is None or not refuses_undeclared(route):
        return route.handler
    handler, body = route.handler, route.operation.body
    declared = {parameter.name for parameter in route.operation.parameters if parameter.location == "query"}
    known = f"Known: {', '.join(sorted(declared))}." if declared else "There are none."

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
    """`error` with the faults that the checks of the handler find. Raises what comes before a 400, such as NotFound."""
    known = error.details or []
    with with_known_issues(known):
        try:
            await handler(request)
        except BadRequest as further:
            others = [issue for issue in further.details or () if issue not in known]
            further.details = [*known, *others][:MAX_ISSUES]
            return further
    return error
