"""What the handlers of SCIM share: guard, addresses, how a request is read and a resource is answered."""

import re
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any, Final

from aiohttp import web
from sqlalchemy.ext.asyncio import AsyncConnection

from chassis.auth.model import DirectoryIdentity
from chassis.errors import NotFound
from chassis.http.access import directory_identity
from chassis.http.web import request_id
from control.audit.record import Actor
from control.http.context import HandlerContext
from control.identity.scim.messages import ScimUrls, read_scim_bytes, scim_response
from control.identity.scim.protocol.listing import decode_object
from control.identity.scim.protocol.provisioning import DirectoryCall
from control.identity.scim.protocol.resources import etag
from control.identity.scim.tokens import DirectoryGuard

_ID: Final = re.compile(r"sc[ug]_[0-9a-z]{26}")
LoadResource = Callable[[AsyncConnection, web.Request, DirectoryIdentity], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class ScimEndpoint:
    """The dependencies of the handlers."""

    context: HandlerContext
    guard: DirectoryGuard
    urls: ScimUrls

    async def read_object(self, request: web.Request) -> dict[str, Any]:
        """The JSON object of the body. Raises UnsupportedMediaType, PayloadTooLarge, ServiceUnavailable, ScimError."""
        return decode_object(await read_scim_bytes(request, self.context))

    async def require_existing(self, request: web.Request, load: LoadResource) -> None:
        """Before the body is read. `load` reads the resource of the path, and raises NotFound."""
        async with self.context.database.read() as connection:
            await load(connection, request, directory_identity(request))


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
