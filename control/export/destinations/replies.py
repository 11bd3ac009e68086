"""Interprets error responses of object stores: by the code of the error, or by the status if there is no code.

S3, compatible stores and Google Cloud Storage name the error in `<Code>` of the body. Azure also names it in a header,
because the answer to HEAD has no body. Sources: docs.aws.amazon.com, "Error responses"; cloud.google.com/storage/docs,
"HTTP status and error codes for XML"; learn.microsoft.com, "Blob service error codes".
"""

import re
from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from control.export.destinations.interfaces import DestinationError
from control.outbound.egress import EgressError, HttpReply

MISSING: Final = "The bucket or container does not exist."
UNCONDITIONAL: Final = (
    "The store does not support conditional puts (If-None-Match). Set conditionalPuts to false in the config (see "
    "docs/warehouse.md), or use a store that supports them."
)
CONTRADICTED: Final = (
    "The store answered that the object exists, but a HEAD request did not find it. If the next run has the same "
    "result, the store does not support conditional puts. Set conditionalPuts to false in the config."
)
_UNSUPPORTED: Final = "The store does not support a part of the request."
_REFUSED: Final = (
    "The store refused the credentials, or the credentials do not permit writing objects in the bucket or container."
)
_DENIED: Final = (
    "The credentials lack a permission. Permit writing objects and reading their metadata (s3:PutObject and "
    "s3:GetObject), and using the key that encrypts the bucket. No condition of a policy may exclude this service."
)
_UNKNOWN_KEY: Final = "The store does not know the access key, or the access key is disabled."
_SIGNATURE: Final = "The signature does not match. The secret key does not belong to the access key id or the account."
_EXPIRED_SESSION: Final = "The session token or the shared access signature has expired. Send new credentials."
_FOREIGN_SESSION: Final = (
    "The session token is missing, or does not belong to the access key. Send accessKeyId, secretAccessKey and "
    "sessionToken of one session."
)
_CLOCK: Final = (
    "The clocks of this control service and of the store differ too much. Ask the operator to set the clock."
)
_REGION: Final = "The bucket is in another region, or has another endpoint. Correct region and endpoint in the config."
_MALFORMED: Final = "The store cannot parse the signature. Correct region and access key id in the config."
_ACCOUNT: Final = "The store has disabled the account or its bucket. Ask its provider for the reason."
_NAME: Final = "The name of the bucket or container is not valid for the store."
_QUOTA: Final = "The store is full, or a quota or spending limit of the account or bucket is reached."
_LOCKED: Final = "The bucket encrypts with a key that is disabled, or that the store cannot use."
_ENDPOINT: Final = "The endpoint is not an object storage API. Correct endpoint and pathStyle."
_TOO_LONG: Final = "The key of the object is too long for the store. Shorten prefix in the config."
_TOO_LARGE: Final = "The object is larger than the store permits."
_DAMAGED: Final = "The store did not receive the object completely and unchanged."
_BUSY: Final = "The store is busy."
_FAILED: Final = "The store had an internal error."
TRANSIENT: Final = frozenset({_CLOCK, _BUSY, _FAILED, _DAMAGED, CONTRADICTED})

_CODES: Final[Mapping[str, str]] = MappingProxyType(
    {
        code: detail
        for detail, codes in {
            UNCONDITIONAL: "NotImplemented NoSuchKey",
            MISSING: "NoSuchBucket ContainerNotFound ContainerBeingDeleted ContainerDisabled ResourceNotFound",
            _DENIED: "AccessDenied AccessForbidden Forbidden UnauthorizedAccess AuthorizationFailure"
            " AuthorizationPermissionMismatch AuthorizationResourceTypeMismatch AuthorizationServiceMismatch"
            " AuthorizationSourceIPMismatch AuthorizationProtocolMismatch InsufficientAccountPermissions"
            " KeyBasedAuthenticationNotPermitted",
            _UNKNOWN_KEY: "InvalidAccessKeyId InvalidClientTokenId InvalidSecurity AuthenticationRequired"
            " XMinioInvalidIAMCredentials",
            _SIGNATURE: "SignatureDoesNotMatch InvalidSignature AuthenticationFailed",
            _EXPIRED_SESSION: "ExpiredToken ExpiredTokenException TokenRefreshRequired RequestExpired",
            _FOREIGN_SESSION: "InvalidToken InvalidSecurityToken MissingSecurityToken",
            _CLOCK: "RequestTimeTooSkewed",
            _REGION: "PermanentRedirect TemporaryRedirect Redirect IllegalLocationConstraintException"
            " InvalidRegionError InvalidLocationConstraint",
            _MALFORMED: "AuthorizationHeaderMalformed InvalidAuthenticationInfo CredMalformed"
            " AuthorizationParametersError AuthorizationQueryParametersError",
            _ACCOUNT: "AccountProblem AllAccessDisabled AccountIsDisabled NotSignedUp OptInRequired UserSuspended"
            " UserProjectMissing UserProjectAccessDenied InvalidPayer BillingDisabled",
            _NAME: "InvalidBucketName InvalidResourceName",
            _QUOTA: "QuotaExceeded XMinioAdminBucketQuotaExceeded XMinioStorageFull InsufficientStorage"
            " InsufficientCapacity StorageQuotaExceeded",
            _LOCKED: "KMS.DisabledException KMS.NotFoundException KMS.InvalidStateException"
            " KMS.KMSInvalidStateException KMSKeyDisabled KMSKeyNotFound CustomEncryptionUnavailable",
            _ENDPOINT: "MethodNotAllowed",
            _TOO_LONG: "KeyTooLong KeyTooLongError",
            _TOO_LARGE: "EntityTooLarge RequestBodyTooLarge",
            _DAMAGED: "BadDigest IncompleteBody XAmzContentSHA256Mismatch XAmzContentChecksumMismatch Md5Mismatch"
            " RequestTimeout",
            _BUSY: "SlowDown SlowDownRead SlowDownWrite Busy ServerBusy Throttling ThrottlingException TooManyRequests"
            " RequestLimitExceeded ServiceUnavailable OperationAborted ConditionalRequestConflict",
            _FAILED: "InternalError InternalServerError OperationTimedOut",
        }.items()
        for code in codes.split()
    }
)
_STATUSES: Final[Mapping[int, str]] = MappingProxyType(
    {
        **dict.fromkeys((301, 302, 307, 308), _REGION),
        **dict.fromkeys((401, 403), _REFUSED),
        **dict.fromkeys((408, 425, 429, 503), _BUSY),
        404: MISSING,
        405: _ENDPOINT,
        501: UNCONDITIONAL,
        507: _QUOTA,
    }
)
# Texts in the body, for codes that have several causes.
_DETAILS: Final = (
    (re.compile(rb"signature not valid in the specified time frame", re.IGNORECASE), _EXPIRED_SESSION),
    (re.compile(rb"request has expired", re.IGNORECASE), _EXPIRED_SESSION),
    (re.compile(rb"(?:date header .{0,60}(?:old|incorrect)|time .{0,30}skewed)", re.IGNORECASE), _CLOCK),
    (re.compile(rb"\bcap exceeded\b", re.IGNORECASE), _QUOTA),
    (re.compile(rb"failed to authenticate the request", re.IGNORECASE), _SIGNATURE),  # Azurite: AuthorizationFailure
)
_AMBIGUOUS: Final = frozenset({"AccessDenied", "AuthenticationFailed", "AuthorizationFailure"})
_CODE: Final = re.compile(rb"<Code>\s*([A-Za-z0-9.]{1,60})\s*</Code>")
_REGION_NAME: Final = re.compile(r"[a-z0-9]+(?:-[a-z0-9]+)*")
_REGION_ELEMENT: Final = re.compile(rb"<Region>\s*([a-z0-9-]{1,40})\s*</Region>")
_CONDITION: Final = re.compile(rb"if-none-match", re.IGNORECASE)


def error_code(reply: HttpReply) -> str:
    """The code of the error. Empty if there is none."""
    named = reply.headers.get("x-ms-error-code", "").encode(errors="replace")
    found = _CODE.search(b"<Code>" + named + b"</Code>") or _CODE.search(reply.body)
    return "" if found is None else found[1].decode()


def failed(reply: HttpReply, *, region: str = "", has_condition: bool = False) -> DestinationError:
    """The error for an answer that is neither success nor an existing key. `region`: the region in the config.
    `has_condition`: the request has a condition that the config can switch off.
    """
    code = error_code(reply)
    detail = _CODES.get(code) or _by_status(reply, code)
    if code in _AMBIGUOUS:
        detail = next((cause for pattern, cause in _DETAILS if pattern.search(reply.body)), detail)
    if reply.status < 500 and _CONDITION.search(reply.body):
        detail = UNCONDITIONAL
    if detail == UNCONDITIONAL and not has_condition:
        detail = _UNSUPPORTED
    named = _region(reply)
    if named not in ("", region) and detail in (_REGION, _MALFORMED):
        detail = f"The bucket is in the region {named}. Set region to {named} in the config."
    return DestinationError(detail, permanent=detail not in TRANSIENT)


def _by_status(reply: HttpReply, code: str) -> str:
    detail = _STATUSES.get(reply.status)
    if detail is not None:
        return detail
    if reply.status >= 500:
        return _FAILED
    return f"The store refused the object with status {reply.status}{f' ({code})' if code else ''}."


def _region(reply: HttpReply) -> str:
    """The region of the bucket, if the store names it."""
    element = _REGION_ELEMENT.search(reply.body)
    named = reply.headers.get("x-amz-bucket-region", "") or (element[1].decode() if element else "")
    return named if len(named) <= 40 and _REGION_NAME.fullmatch(named) else ""


def not_reached(error: EgressError) -> DestinationError:
    """The error if there was no answer. It is not known whether the object is stored."""
    return DestinationError(f"The store could not be reached. {error.detail}", permanent=error.permanent)
