"""Bodies of SCIM: `application/scim+json` (RFC 7644 3.1), or `application/json`, which some directories send."""

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from aiohttp import web

from chassis.http.body import read_body, require_media_type
from control.http.context import HandlerContext

SCIM_TYPE: Final = "application/scim+json"
_ACCEPTED: Final = (SCIM_TYPE, "application/json")


async def read_scim_bytes(request: web.Request, context: HandlerContext) -> bytes:
    """The bytes of the body. Raises UnsupportedMediaType, PayloadTooLarge, ServiceUnavailable."""
    require_media_type(request, _ACCEPTED)
    return await read_body(request, context.max_body_bytes, context.body_timeout_s)


def scim_response(body: Any, status: int = 200, headers: Mapping[str, str] | None = None) -> web.Response:
    """`body` as `application/scim+json`."""
    response = web.Response(body=msgspec.json.encode(body), status=status, headers=headers)
    response.headers["Content-Type"] = SCIM_TYPE
    return response
