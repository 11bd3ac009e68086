"""Parameters, bodies and responses of a route as typed values, from which `chassis.http.openapi` builds the document.

    Operation(
        id="listSpans",
        tag=SPANS,
        parameters=(Parameter("limit", "query", Annotated[int, Meta(ge=1, le=200)], "Rows of a page.", default=50),),
        responses=(ResponseSpec("A page.", json_content(SpanPage)),),
    )

Types are msgspec types (their schemas are JSON Schema 2020-12, which OpenAPI 3.1 requires), built from the constants
that validation uses. The summary of an operation is the first line of its `description`, or its handler's docstring.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec

from chassis.errors import Issue
from proto.errors import ErrorCode

ParameterLocation = Literal["path", "query", "header"]
Content = Mapping[str, Any]  # media type -> type of the body; None: bytes in a format that JSON Schema cannot describe

JSON_TYPE: Final = "application/json"


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
