"""Errors as gRPC statuses: https://opentelemetry.io/docs/specs/otlp/#failures.

The code is that of the google.rpc.Status over HTTP (`proto.otlp.responses`): one table for both protocols. Clients
retry UNAVAILABLE, and RESOURCE_EXHAUSTED if it has a RetryInfo; bad data never gets one of the codes that they retry.
"""

from typing import Final, NoReturn, TypeAlias

import grpc
from grpc import aio

from chassis.errors import ApiError
from chassis.limits.rate_limits import limit_headers
from gateway.grpc.call import GrpcCall
from proto.otlp.responses import Violation, rpc_code, status_protobuf

Context: TypeAlias = "aio.ServicerContext[bytes, bytes]"

_CODES: Final = {code.value[0]: code for code in grpc.StatusCode}


def status_code(error: ApiError) -> grpc.StatusCode:
    """The code of an error."""
    return _CODES[rpc_code(error.status)]


async def abort_with(context: Context, error: ApiError, call: GrpcCall) -> NoReturn:
    """End the call with the status of `error`. The trailing metadata has the google.rpc.Status, with RetryInfo where a
    retry may succeed and BadRequest where fields are wrong, the request id, and the state of the rate limit.
    """
    violations = [Violation(issue.path, issue.message) for issue in error.details or ()]
    status = status_protobuf(error.status, error.message, violations, retry_after_s=error.retry_after)
    metadata: tuple[tuple[str, str | bytes], ...] = (
        ("grpc-status-details-bin", status),
        ("x-request-id", call.request_id),
        *limit_headers(call).items(),
    )
    await context.abort(status_code(error), error.message, metadata)
