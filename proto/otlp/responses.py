"""OTLP response bodies: export responses and `google.rpc.Status`, in protobuf and in JSON.

https://opentelemetry.io/docs/specs/otlp/#otlphttp-response. Counts in JSON are numbers.
"""

from collections.abc import Mapping, Sequence
from typing import Final, Literal, NamedTuple

import msgspec

from proto.otlp.policy import RequestWarning, Signal
from proto.otlp.protobuf_writer import bytes_field, varint_field

Media = Literal["protobuf", "json"]

CONTENT_TYPES: Final[Mapping[Media, str]] = {"protobuf": "application/x-protobuf", "json": "application/json"}

MAX_MESSAGE: Final = 1024  # characters, so that a response is much smaller than the 4 MiB that clients read

_BAD_REQUEST: Final = "type.googleapis.com/google.rpc.BadRequest"
_RETRY_INFO: Final = "type.googleapis.com/google.rpc.RetryInfo"
_ITEMS: Final[Mapping[Signal, tuple[str, str]]] = {
    "traces": ("rejectedSpans", "spans"),
    "logs": ("rejectedLogRecords", "log records"),
}
_WARNINGS: Final[Mapping[RequestWarning, str]] = {
    RequestWarning.SNAKE_CASE: "Members in snake_case were read; write lowerCamelCase",
    RequestWarning.ENUM_NAMES: "Names of enum values were read; write numbers",
    RequestWarning.REPEATED_LIST: "A list was given twice, and the two lists were joined; write each member once",
    RequestWarning.REPEATED_MEMBER: (
        "A member was given twice and only its last value was read; write each member once"
    ),
    RequestWarning.RETIRED_NAMES: (
        "Members of OTLP before 1.0 (instrumentationLibrary..., logs, name) were not read; update the exporter"
    ),
    RequestWarning.SPANS_SENT_AS_LOGS: "Spans were not stored; send them to /v1/traces (gRPC: TraceService)",
    RequestWarning.LOGS_SENT_AS_SPANS: "Log records were not stored; send them to /v1/logs (gRPC: LogsService)",
    RequestWarning.UNSUPPORTED_SIGNAL: "Metrics or profiles were not stored; turn off their exporter",
}
# The codes of google/rpc/code.proto by HTTP status.
_CODES: Final[Mapping[int, int]] = {
    400: 3,  # INVALID_ARGUMENT
    401: 16,  # UNAUTHENTICATED
    403: 7,  # PERMISSION_DENIED
    404: 5,  # NOT_FOUND
    405: 12,  # UNIMPLEMENTED
    408: 4,  # DEADLINE_EXCEEDED
    409: 10,  # ABORTED
    413: 3,  # INVALID_ARGUMENT: a retry would not help
    415: 3,
    429: 8,  # RESOURCE_EXHAUSTED
    500: 13,  # INTERNAL
    501: 12,
    503: 14,  # UNAVAILABLE
    504: 4,
}
_UNKNOWN: Final = 2


class Violation(NamedTuple):
    """An invalid field of a request: google.rpc.BadRequest.FieldViolation."""

    field: str
    description: str


def export_response(
    signal: Signal,
    media: Media,
    rejected: Mapping[str, int],
    first_fault: str = "",
    warnings: Sequence[RequestWarning] = (),
) -> bytes:
    """The body of a 200 response. `rejected` counts items by reason. Without rejected items and warnings,
    `partial_success` is unset. `first_fault` is the place of the first invalid field of a JSON request.
    """
    count = sum(rejected.values())
    if count == 0 and not warnings:
        return b"{}" if media == "json" else b""
    message = partial_success_message(signal, rejected, first_fault, warnings)
    if media == "json":
        field, _ = _ITEMS[signal]
        return msgspec.json.encode({"partialSuccess": {field: count, "errorMessage": message}})
    rejected_items = varint_field(1, count) if count else b""
    return bytes_field(1, rejected_items + bytes_field(2, message.encode()))


def partial_success_message(
    signal: Signal, rejected: Mapping[str, int], first_fault: str, warnings: Sequence[RequestWarning]
) -> str:
    """The rejected items, then the warnings. Only `Warning: ...` if no item was rejected."""
    warning = f"Warning: {'. '.join(_WARNINGS[kind] for kind in warnings)}." if warnings else ""
    if not sum(rejected.values()):
        return warning
    rejection = rejection_message(signal, rejected, first_fault)
    return f"{_short(rejection, MAX_MESSAGE - len(warning) - 2)}. {warning}" if warning else rejection


def rejection_message(signal: Signal, rejected: Mapping[str, int], first_fault: str = "") -> str:
    """A text such as `3 spans rejected: invalid_trace_id 2, invalid_field 1 (first error: resourceSpans[0]...kind:
    ...)`, with the most frequent reason first.
    """
    reasons = sorted(rejected.items(), key=lambda entry: (-entry[1], entry[0]))
    _, items = _ITEMS[signal]
    counts = ", ".join(f"{reason} {count}" for reason, count in reasons if count)
    return _short(
        f"{sum(rejected.values())} {items} rejected: {counts}"
        + (f" (first error: {first_fault})" if first_fault else "")
    )


def rpc_code(status: int) -> int:
    """The google.rpc code for an HTTP status."""
    return _CODES.get(status, _UNKNOWN)


def status_protobuf(
    status: int, message: str, violations: Sequence[Violation] = (), *, retry_after_s: int | None = None
) -> bytes:
    """google.rpc.Status, with a google.rpc.BadRequest in its details if there are `violations`, and a
    google.rpc.RetryInfo if `retry_after_s` is given.
    """
    out = varint_field(1, rpc_code(status)) + bytes_field(2, _short(message).encode())
    if violations:
        fields = (
            bytes_field(1, bytes_field(1, field.encode()) + bytes_field(2, _short(description).encode()))
            for field, description in violations
        )
        detail = bytes_field(1, _BAD_REQUEST.encode()) + bytes_field(2, b"".join(fields))
        out += bytes_field(3, detail)
    if retry_after_s is not None:
        delay = varint_field(1, retry_after_s)
        out += bytes_field(3, bytes_field(1, _RETRY_INFO.encode()) + bytes_field(2, bytes_field(1, delay)))
    return out


def status_json(
    status: int, message: str, violations: Sequence[Violation] = (), error: Mapping[str, object] | None = None
) -> bytes:
    """google.rpc.Status in JSON. `error`, the inner object of the error envelope, is added as the member `error`."""
    body: dict[str, object] = {"code": rpc_code(status), "message": _short(message)}
    if violations:
        fields = [{"field": field, "description": _short(description)} for field, description in violations]
        body["details"] = [{"@type": _BAD_REQUEST, "fieldViolations": fields}]
    if error is not None:
        body["error"] = error
    return msgspec.json.encode(body)


def _short(text: str, limit: int = MAX_MESSAGE) -> str:
    return text if len(text) <= limit else text[: limit - 1] + "…"
