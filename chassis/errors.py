"""Errors of requests: one family of exceptions, with one JSON form in responses.

A handler raises one of these errors, and `chassis.http.web` renders it. `code` says whose fault the error is, and
`retry_after` says when the same request may succeed. Messages name the field or the limit. They never contain secrets,
exception texts or data of another tenant.
"""

import random
from collections.abc import Mapping, Sequence
from typing import Any, Final

import msgspec

from proto.errors import STATUS, ErrorCode

JSON_TYPE: Final = "application/json"
MAX_RETRY_SECONDS: Final = 5  # exporters drop a batch when Retry-After exceeds their own deadline (10 s)


class Issue(msgspec.Struct, frozen=True):
    """One invalid field of a request. `path` is its JSON path or the name of the query parameter, and `code` is a
    machine-readable reason.
    """

    path: str
    message: str
    code: str


class StartupError(Exception):
    """A service cannot start. The message is one sentence for the operator. The process exits with `exit_code`."""

    def __init__(self, message: str, *, exit_code: int = 1) -> None:
        super().__init__(message)
        self.exit_code = exit_code


class ApiError(Exception):
    """A refused request. `close` closes the connection after the response, without reading the rest of the body."""

    def __init__(
        self,
        code: ErrorCode,
        message: str,
        *,
        details: Sequence[Issue] | None = None,
        retry_after: int | None = None,
        headers: Mapping[str, str] | None = None,
        close: bool = False,
    ) -> None:
        super().__init__(message)
        self.code = code
        self.message = message
        self.details = list(details) if details else None
        self.challenge: Mapping[str, Any] | None = None  # sent instead of `details`
        self.retry_after = retry_after
        self.headers = dict(headers) if headers else {}
        self.close = close

    @property
    def status(self) -> int:
        """The HTTP status of `code`."""
        return STATUS[self.code]


class BadRequest(ApiError):
    """400: the request is invalid. A retry cannot succeed."""

    def __init__(self, message: str, details: Sequence[Issue] | None = None, *, close: bool = False) -> None:
        super().__init__(ErrorCode.BAD_REQUEST, message, details=details, close=close)


class Unauthorized(ApiError):
    """401: no valid credential. Unknown, expired and revoked credentials get the same response."""

    def __init__(
        self,
        message: str = "Authentication is required.",
        *,
        headers: Mapping[str, str] | None = None,
        close: bool = False,
    ) -> None:
        all_headers = {"WWW-Authenticate": "Bearer", **(headers or {})}
        super().__init__(ErrorCode.UNAUTHORIZED, message, headers=all_headers, close=close)


class CredentialExpired(Unauthorized):
    """401: a credential that Sluice issued and that is no longer valid. The response is the same as for `Unauthorized`,
    but the request does not count as a failed authentication.
    """


class MfaRequired(ApiError):
    """401: the session or the password is valid, but the user has not passed the second factor yet."""

    def __init__(self, message: str = "A second factor is required. Send its code to /auth/totp/verify.") -> None:
        super().__init__(ErrorCode.MFA_REQUIRED, message, headers={"WWW-Authenticate": "Bearer"})


class Forbidden(ApiError):
    """403: the credential is valid but does not permit the operation."""

    def __init__(self, message: str = "This credential does not permit the operation.", *, close: bool = False) -> None:
        super().__init__(ErrorCode.FORBIDDEN, message, close=close)


class NotFound(ApiError):
    """404: the resource does not exist or the credential may not see it. Both get the same response, byte for byte."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.NOT_FOUND, "Not found.")


class MethodNotAllowed(ApiError):
    """405: the path does not have this method. The header `Allow` lists the methods that it has."""

    def __init__(self, allowed: Sequence[str]) -> None:
        names = ", ".join(sorted(allowed))
        super().__init__(
            ErrorCode.METHOD_NOT_ALLOWED, f"The method is not allowed. Use {names}.", headers={"Allow": names}
        )


class Conflict(ApiError):
    """409: the state of the resource does not permit the operation."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.CONFLICT, message)


class PayloadTooLarge(ApiError):
    """413: the body exceeds a size limit, which the message names. The rest of it is not read."""

    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.PAYLOAD_TOO_LARGE, message, close=True)


class UnsupportedMediaType(ApiError):
    """415: a content type or content encoding that this path does not accept."""

    def __init__(self, message: str, *, close: bool = False) -> None:
        super().__init__(ErrorCode.UNSUPPORTED_MEDIA_TYPE, message, close=close)


class RateLimited(ApiError):
    """429: a rate limit is exceeded. `retry_after`: whole seconds until the next request is permitted. `challenge`: a
    task, such as a proof of work, that permits the request if the client solves it.
    """

    def __init__(
        self, message: str, retry_after: int, *, challenge: Mapping[str, Any] | None = None, close: bool = False
    ) -> None:
        super().__init__(ErrorCode.RATE_LIMITED, message, retry_after=retry_after, close=close)
        self.challenge = challenge


class Unimplemented(ApiError):
    """501: a feature of HTTP that is not implemented."""

    def __init__(self, message: str, *, close: bool = False) -> None:
        super().__init__(ErrorCode.NOT_IMPLEMENTED, message, close=close)


class ServiceUnavailable(ApiError):
    """503: overload or an unavailable dependency. The same request may succeed after `retry_after` seconds.

    The default of `retry_after` is a random value from 1 to 5 s, so that clients that were refused at the same time do
    not retry at the same time.
    """

    def __init__(
        self,
        message: str,
        retry_after: int | None = None,
        *,
        details: Sequence[Issue] | None = None,
        close: bool = False,
    ) -> None:
        seconds = retry_after if retry_after is not None else random.randint(1, MAX_RETRY_SECONDS)  # noqa: S311 (jitter)
        super().__init__(ErrorCode.SERVICE_UNAVAILABLE, message, details=details, retry_after=seconds, close=close)


class InternalError(ApiError):
    """500: a fault of Sluice. The response has no details. The log has them under the request id."""

    def __init__(self) -> None:
        super().__init__(ErrorCode.INTERNAL_ERROR, "An internal error occurred.")


def envelope(error: ApiError, request_id: str) -> dict[str, Any]:
    """The body of every error response: `{"error": {"code", "message", "details"?, "requestId"}}`."""
    body: dict[str, Any] = {"code": error.code.value, "message": error.message}
    if error.details is not None:
        body["details"] = error.details
    elif error.challenge is not None:
        body["details"] = error.challenge
    body["requestId"] = request_id
    return {"error": body}
