"""Common parts of SCIM requests and responses: media type, errors, addresses.

Bodies are `application/scim+json` (RFC 7644 3.1), or `application/json`, which some directories send. A handler raises
a ScimError, or any ApiError. The response is the object of RFC 7644 3.12, with the `error` of all Sluice error
responses.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import quote

import msgspec
from aiohttp import web

from chassis.errors import ApiError, envelope
from chassis.http.body import read_body, require_media_type
from chassis.http.route import ErrorSpec
from control.http.context import HandlerContext
from proto.errors import ErrorCode

SCIM_TYPE: Final = "application/scim+json"
PATCH_SCHEMA: Final = "urn:ietf:params:scim:api:messages:2.0:PatchOp"
ERROR_SCHEMA: Final = "urn:ietf:params:scim:api:messages:2.0:Error"
DEFAULT_COUNT: Final = 100
MAX_COUNT: Final = 500  # resources per page
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


class ScimError(ApiError):
    """A refused SCIM request. `scim_type`: the keyword of RFC 7644 3.12 or RFC 9865 2, None if there is none."""

    def __init__(self, detail: str, scim_type: str | None = None, code: ErrorCode = ErrorCode.BAD_REQUEST) -> None:
        super().__init__(code, detail)
        self.scim_type = scim_type


class InvalidValue(ScimError):
    """400: a value does not fit its attribute."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, "invalidValue")


class NotUnique(ScimError):
    """409: another resource has the value."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, "uniqueness", ErrorCode.CONFLICT)


class Refused(ScimError):
    """409: the state of the organization does not permit the change."""

    def __init__(self, detail: str) -> None:
        super().__init__(detail, None, ErrorCode.CONFLICT)


def decode_object(raw: bytes) -> dict[str, Any]:
    """The JSON object in the bytes. Raises ScimError: `invalidSyntax`."""
    try:
        decoded = msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        raise ScimError("The body must be a JSON object.", "invalidSyntax") from None
    if not isinstance(decoded, dict):
        raise ScimError("The body must be a JSON object.", "invalidSyntax")
    return decoded


class ScimErrorBody(msgspec.Struct, rename="camel"):
    """The reason of a refusal: the object of RFC 7644 3.12, with the `error` of all other endpoints."""

    schemas: list[str]
    status: str
    detail: str
    error: dict[str, Any]
    scim_type: str | msgspec.UnsetType = msgspec.UNSET


ERROR_SPEC: Final = ErrorSpec("Scim", {SCIM_TYPE: ScimErrorBody})


def render_error(_request: web.Request, error: ApiError, request_id: str) -> web.Response:
    """The response to a refused request. It is the same for every reason of a 404."""
    body: dict[str, Any] = {"schemas": [ERROR_SCHEMA], "status": str(error.status), "detail": error.message}
    scim_type = getattr(error, "scim_type", None)
    if scim_type is not None:
        body["scimType"] = scim_type
    return web.Response(
        body=msgspec.json.encode(body | envelope(error, request_id)),
        status=error.status,
        headers={"Content-Type": SCIM_TYPE},
    )


@dataclass(frozen=True, slots=True)
class ScimUrls:
    """Addresses of resources, for `meta.location` and `$ref`. `public_url`: the public URL of the API."""

    public_url: str

    def base(self, org_slug: str) -> str:
        """The organization's SCIM endpoint."""
        return f"{self.public_url}/scim/v2/{quote(org_slug)}"

    def user(self, org_slug: str, user_id: str) -> str:
        """The address of a user."""
        return f"{self.base(org_slug)}/Users/{user_id}"

    def group(self, org_slug: str, group_id: str) -> str:
        """The address of a group."""
        return f"{self.base(org_slug)}/Groups/{group_id}"
