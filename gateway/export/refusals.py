"""Refused exports: the error of the decoder, and how a refusal is counted."""

from typing import Final

from chassis.errors import ApiError, Issue
from chassis.http.access import PROJECT
from chassis.limits.client_request import ClientRequest
from gateway.admission.concurrency import OVERLOADED, Overloaded
from gateway.outcomes import NO_PROJECT, OutcomeCounters
from gateway.request_context import ITEMS
from proto.errors import ErrorCode
from proto.otlp.policy import DecodeError, RequestRejection, Signal

_BAD_REQUEST_REASONS: Final = frozenset((RequestRejection.MALFORMED, RequestRejection.TOO_DEEP))
METRICS_HINT: Final = (
    "Metrics are not supported. Set OTEL_METRICS_EXPORTER=none, or remove this exporter from the metrics pipelines "
    "of your Collector."
)


class DecodeRejected(ApiError):
    """The decoder refuses the request: 400 if it is malformed, 413 if it exceeds a limit."""

    def __init__(self, error: DecodeError, details: list[Issue] | None = None) -> None:
        """`details`: one issue per wrong field, if any."""
        code = ErrorCode.BAD_REQUEST if error.reason in _BAD_REQUEST_REASONS else ErrorCode.PAYLOAD_TOO_LARGE
        super().__init__(code, error.message, details=details, close=code is ErrorCode.PAYLOAD_TOO_LARGE)
        self.reason = error.reason


def drop_traceback(error: ApiError) -> None:
    """Drop the frames that an error passed: they hold the body and its columns until the next garbage collection."""
    error.__traceback__ = error.__cause__ = error.__context__ = None


def count_refused(
    outcomes: OutcomeCounters, request: ClientRequest, signal: Signal, error: ApiError, wire_bytes: int
) -> None:
    """Count a request that ends with `error`. `wire_bytes`: received of its body."""
    reason = OVERLOADED if isinstance(error, Overloaded) else error.code.value
    if isinstance(error, DecodeRejected):
        reason = error.reason.value
    project = request.get(PROJECT)
    project_id = project.project_id if project is not None else NO_PROJECT
    outcomes.refused(signal, reason, project_id, wire_bytes, request.get(ITEMS) or 0)
