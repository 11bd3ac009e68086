"""What a route takes and answers, as typed values: `chassis.http.openapi` makes the document of them.

    Operation(
        id="listSpans",
        tag=SPANS,
        parameters=(Parameter("limit", "query", Annotated[int, Meta(ge=1, le=200)], "Rows of a page.", default=50),),
        answers=(Answer("A page.", json_content(SpanPage)),),
    )

Types are those that msgspec knows (its schemas are JSON Schema 2020-12, as OpenAPI 3.1 wants them), built from the
constants that the checks use. The summary of an operation is the first line of its handler's docstring.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, Literal

import msgspec

from chassis.errors import Issue
from proto.errors import ErrorCode

ParameterLocation = Literal["path", "query", "header"]
Content = Mapping[str, Any]  # media type -> type of the body; None: bytes of a format that JSON Schema cannot describe

JSON_TYPE: Final = "application/json"


class ErrorBody(msgspec.Struct, rename="camel"):
    """Why a request was refused. `code` is for programs, `message` for people; quote `requestId` when you ask."""

    code: ErrorCode
    message: str
    request_id: str
    details: list[Issue] | msgspec.UnsetType = msgspec.UNSET


class Error(msgspec.Struct):
    """What every refusal looks like."""

    error: ErrorBody


@dataclass(frozen=True, slots=True)
class Tag:
    """An area of the interface; the document lists areas and their operations in the order of the routes."""

    name: str
    description: str


@dataclass(frozen=True, slots=True)
class Parameter:
    """One value in the path (always required), the query string or a header. `default`: what its absence means."""

    name: str
    location: ParameterLocation
    type: Any
    description: str
    required: bool = False
    default: Any = None
    example: Any = None


@dataclass(frozen=True, slots=True)
class Body:
    """A request body, which is required."""

    content: Content
    description: str = ""
    example: Any = None


@dataclass(frozen=True, slots=True)
class ResponseSpec:
    """An answer of the operation's own; without content it has no body. `headers`: its own, with what they say."""

    description: str
    content: Content = field(default_factory=dict)
    status: int = 200
    headers: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ErrorSpec:
    """How the refusals of an operation look; `prefix` begins their names among the document's components.

    `descriptions`, by status: what one means here, where that is more than it means everywhere.
    """

    prefix: str
    content: Content
    descriptions: Mapping[int, str] = field(default_factory=dict)


def json_content(type_: Any) -> Content:
    """A body of JSON."""
    return MappingProxyType({JSON_TYPE: type_})


DEFAULT_ERROR_SPEC: Final = ErrorSpec("", json_content(Error))


@dataclass(frozen=True, slots=True)
class Operation:
    """One method of one path. `id` is unique in the product: generators of clients name functions after it.

    `refused` lists statuses beyond those that the access rule and the body bring with them; an answer of the same
    status stands for the refusal.
    """

    id: str
    tag: Tag
    responses: tuple[ResponseSpec, ...]
    parameters: tuple[Parameter, ...] = ()
    body: Body | None = None
    error_statuses: tuple[int, ...] = ()
    error_spec: ErrorSpec = DEFAULT_ERROR_SPEC
