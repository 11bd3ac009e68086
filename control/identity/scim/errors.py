"""Errors of SCIM: the object of RFC 7644 3.12, with the `error` that all our error responses have.

A handler raises a ScimError, or any ApiError.
"""

from typing import Any, Final

import msgspec
from aiohttp import web

from chassis.errors import ApiError, envelope
from control.identity.scim.media_type import SCIM_TYPE
from proto.errors import ErrorCode

ERROR_SCHEMA: Final = "urn:ietf:params:scim:api:messages:2.0:Error"


class ScimError(ApiError):
    """A refused SCIM request. `scim_type`: the keyword of RFC 7644 3.12 or RFC 9865 2, None where there is none."""

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


class VersionMismatch(ScimError):
    """412: the resource has another version than If-Match names."""

    def __init__(self) -> None:
        super().__init__(
            "The resource has another version than If-Match names: read it again.", None, ErrorCode.PRECONDITION_FAILED
        )


def render_error(_request: web.Request, error: ApiError, request_id: str) -> web.Response:
    """The response to a request that was refused; the same for every reason of a 404."""
    body: dict[str, Any] = {"schemas": [ERROR_SCHEMA], "status": str(error.status), "detail": error.message}
    scim_type = getattr(error, "scim_type", None)
    if scim_type is not None:
        body["scimType"] = scim_type
    return web.Response(
        body=msgspec.json.encode(body | envelope(error, request_id)),
        status=error.status,
        headers={"Content-Type": SCIM_TYPE},
    )
