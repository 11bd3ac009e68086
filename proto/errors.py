"""The error codes of all services, and the HTTP status of each."""

from collections.abc import Mapping
from enum import StrEnum
from types import MappingProxyType
from typing import Final


class ErrorCode(StrEnum):
    """The reason why a request was refused: `error.code` of the envelope. Clients depend on codes, so codes are never
    renamed.
    """

    BAD_REQUEST = "bad_request"
    UNAUTHORIZED = "unauthorized"
    MFA_REQUIRED = "mfa_required"
    FORBIDDEN = "forbidden"
    NOT_FOUND = "not_found"
    METHOD_NOT_ALLOWED = "method_not_allowed"
    CONFLICT = "conflict"
    PRECONDITION_FAILED = "precondition_failed"
    PAYLOAD_TOO_LARGE = "payload_too_large"
    UNSUPPORTED_MEDIA_TYPE = "unsupported_media_type"
    RATE_LIMITED = "rate_limited"
    QUOTA_EXCEEDED = "quota_exceeded"
    INTERNAL_ERROR = "internal_error"
    NOT_IMPLEMENTED = "not_implemented"
    SERVICE_UNAVAILABLE = "service_unavailable"


STATUS: Final[Mapping[ErrorCode, int]] = MappingProxyType(
    {
        ErrorCode.BAD_REQUEST: 400,
        ErrorCode.UNAUTHORIZED: 401,
        ErrorCode.MFA_REQUIRED: 401,
        ErrorCode.FORBIDDEN: 403,
        ErrorCode.NOT_FOUND: 404,
        ErrorCode.METHOD_NOT_ALLOWED: 405,
        ErrorCode.CONFLICT: 409,
        ErrorCode.PRECONDITION_FAILED: 412,
        ErrorCode.PAYLOAD_TOO_LARGE: 413,
        ErrorCode.UNSUPPORTED_MEDIA_TYPE: 415,
        ErrorCode.RATE_LIMITED: 429,
        ErrorCode.QUOTA_EXCEEDED: 429,
        ErrorCode.INTERNAL_ERROR: 500,
        ErrorCode.NOT_IMPLEMENTED: 501,
        ErrorCode.SERVICE_UNAVAILABLE: 503,
    }
)
