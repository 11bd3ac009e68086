"""What the handlers of SCIM share: guard, addresses, how a request is read and a resource is answered."""

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import wraps
from typing import Any, Final

import msgspec
from aiohttp import web

from chassis.auth.model import DirectoryIdentity
from chassis.errors import NotFound
from chassis.http.access import directory, directory_identity
from chassis.http.operation import Body, Content, ErrorSpec, Operation, Parameter, ResponseSpec, Tag
from chassis.http.web import Handler, Route, request_id
from chassis.limits.limiter import LimitClass
from control.audit.record import Actor
from control.http.context import HandlerContext
from control.scim.errors import render_error
from control.scim.guard import DirectoryGuard
from control.scim.listing import DEFAULT_COUNT, MAX_COUNT, decode_object
from control.scim.media_type import SCIM_TYPE, read_scim_bytes, scim_response
from control.scim.provisioning import DirectoryCall
from control.scim.request_slots import RequestSlots
from control.scim.resources import ScimUrls, etag

BASE: Final = "/scim/v2/{orgSlug}"
TAG: Final = Tag(
    "scim",
    "Provisioning by an organization's directory: SCIM 2.0 (RFC 7643, RFC 7644). The schemas are under `/Schemas`.",
)


class ScimErrorBody(msgspec.Struct, rename="camel"):
    """Why a request was refused: the object of RFC 7644 3.12, with the `error` of all other endpoints."""

    schemas: list[str]
    status: str
    detail: str
    error: dict[str, Any]
    scim_type: str | msgspec.UnsetType = msgspec.UNSET


ERROR_SPEC: Final = ErrorSpec("Scim", {SCIM_TYPE: ScimErrorBody})
RESOURCE: Final[Content] = {SCIM_TYPE: dict[str, Any]}
ID: Final = Parameter("id", "path", str, "The resource.")
PROJECTION_PARAMETERS: Final = (
    Parameter("attributes", "query", str, "The attributes to return, by name, separated by commas."),
    Parameter("excludedAttributes", "query", str, "The attributes not to return."),
)
LIST_PARAMETERS: Final = (
    Parameter("filter", "query", str, "RFC 7644 3.4.2.2.", example='userName eq "ada@example.com"'),
    Parameter("sortBy", "query", str, "The attribute to order by; by default the order of creation."),
    Parameter("sortOrder", "query", str, "`ascending` or `descending`.", default="ascending"),
    Parameter("startIndex", "query", int, "The first resource of the page, counted from 1.", default=1),
    Parameter("count", "query", int, f"Resources of a page, at most {MAX_COUNT}.", default=DEFAULT_COUNT),
    Parameter(
        "cursor",
        "query",
        str,
        "`nextCursor` of the previous page (RFC 9865); empty: the first page. Without `startIndex`.",
    ),
    *PROJECTION_PARAMETERS,
)
IF_MATCH: Final = Parameter("If-Match", "header", str, "The version to change, as `meta.version` has it.")
IF_NONE_MATCH: Final = Parameter("If-None-Match", "header", str, "A version that the client has: 304 if it is current.")
ETAG: Final = {"ETag": "The version, as `meta.version` has it."}
BODY: Final = Body(RESOURCE)

_ID: Final = re.compile(r"sc[ug]_[0-9a-z]{26}")


@dataclass(frozen=True, slots=True)
class ScimEndpoint:
    """The dependencies of the handlers."""

    context: HandlerContext
    guard: DirectoryGuard
    urls: ScimUrls
    slots: RequestSlots = field(default_factory=RequestSlots)

    def route(self, method: str, path: str, handler: Handler, operation: Operation | None = None) -> Route:
        """A route below the organization's SCIM endpoint."""

        @wraps(handler)
        async def take_slot(request: web.Request) -> web.StreamResponse:
            async with self.slots.taken(directory_identity(request).org_id):
                return await handler(request)

        return Route(
            method,
            BASE + path,
            take_slot,
            directory(self.guard),
            limit=LimitClass.SCIM,
            render_error=render_error,
            operation=operation,
        )

    async def read_object(self, request: web.Request) -> dict[str, Any]:
        """The JSON object of the body. Raises UnsupportedMediaType, PayloadTooLarge, ServiceUnavailable, ScimError."""
        return decode_object(await read_scim_bytes(request, self.context))


def operation(
    id_: str,
    description: str,
    *,
    status: int = 200,
    parameters: tuple[Parameter, ...] = (),
    body: Body | None = None,
    error_statuses: tuple[int, ...] = (),
    more: tuple[ResponseSpec, ...] = (),
) -> Operation:
    """The description of a SCIM operation."""
    content: Content = {} if status == web.HTTPNoContent.status_code else RESOURCE
    return Operation(
        id_,
        TAG,
        (ResponseSpec(description, content, status), *more),
        parameters,
        body=body,
        error_statuses=error_statuses,
        error_spec=ERROR_SPEC,
    )


def call_of(request: web.Request, identity: DirectoryIdentity) -> DirectoryCall:
    """The directory that provisions, as the actor of the audit log, and the time of the request."""
    actor = Actor(identity.org_id, token_id=identity.token_id)
    return DirectoryCall(actor, identity.org_slug, request_id(request), datetime.now(UTC))


def resource_id(request: web.Request) -> str:
    """The id in the path. Raises NotFound for a malformed one, which a database column might not accept."""
    text = request.match_info["id"]
    if _ID.fullmatch(text) is None:
        raise NotFound
    return text


def resource_response(resource: Mapping[str, Any], version: int, location: str, status: int = 200) -> web.Response:
    """A response with one resource."""
    headers = {"ETag": etag(version), "Location": location}
    return scim_response(resource, status, headers)


def not_modified(version: int) -> web.Response:
    """304, for a client that has this version."""
    return web.Response(status=304, headers={"ETag": etag(version)})
