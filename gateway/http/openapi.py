"""OpenAPI operations of the OTLP paths, for `/openapi.json` and `/docs`. OTLP defines the protobuf bodies."""

from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from chassis.auth.project_credential import MAX_KEY_LENGTH, MAX_PROJECT_ID_LENGTH
from chassis.http.route import Body, ErrorBody, ErrorSpec, Operation, Parameter, ResponseSpec, Tag
from gateway.decompression import ENCODINGS, IDENTITY
from proto.otlp.responses import CONTENT_TYPES

JSON: Final = CONTENT_TYPES["json"]
PROTOBUF: Final = CONTENT_TYPES["protobuf"]
INGESTION: Final = Tag("ingestion", "OTLP/HTTP ingestion of spans and log records, in protobuf or JSON.")

_Reasons = Annotated[str, Meta(description="The reasons for the rejections and their counts, and warnings, as text.")]
_Encoded = Annotated[dict[str, Any], Meta(description="An OTLP export request in its JSON encoding.")]


class RejectedSpans(msgspec.Struct, rename="camel"):
    """Spans that were rejected; a retry would be rejected again. 0 with a message is a warning."""

    rejected_spans: Annotated[int, Meta(ge=0)]
    error_message: _Reasons


class ExportedTraces(msgspec.Struct, rename="camel"):
    """Empty when every span was accepted, and there is no warning."""

    partial_success: RejectedSpans | msgspec.UnsetType = msgspec.UNSET


class RejectedLogs(msgspec.Struct, rename="camel"):
    """Log records that were rejected; a retry would be rejected again. 0 with a message is a warning."""

    rejected_log_records: Annotated[int, Meta(ge=0)]
    error_message: _Reasons


class ExportedLogs(msgspec.Struct, rename="camel"):
    """Empty when every log record was accepted, and there is no warning."""

    partial_success: RejectedLogs | msgspec.UnsetType = msgspec.UNSET


class OtlpError(msgspec.Struct):
    """A google.rpc.Status, together with the `error` of every other error response."""

    code: Annotated[int, Meta(description="A google.rpc.Code.")]
    message: str
    error: ErrorBody
    details: list[dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET


UNAVAILABLE: Final = (
    "Retry the request later; its items may be stored nevertheless. The gateway is overloaded, the journal is full or "
    "cannot be written, or the key is not cached and the database is unavailable. In mode `store` also: ClickHouse is "
    "unavailable, or did not store the items before the deadline."
)
OTLP_ERRORS: Final = ErrorSpec("Otlp", {JSON: OtlpError, PROTOBUF: None}, {503: UNAVAILABLE})
_PARAMETERS: Final = (
    Parameter(
        "legacy_key",
        "query",
        Annotated[str, Meta(max_length=MAX_KEY_LENGTH)],
        "The project key, for clients that cannot set headers.",
    ),
    Parameter(
        "project_id",
        "query",
        Annotated[str, Meta(min_length=1, max_length=MAX_PROJECT_ID_LENGTH)],
        "The id of the project that the key must belong to.",
    ),
    Parameter(
        "Content-Encoding",
        "header",
        Annotated[str, Meta(extra_json_schema={"enum": [IDENTITY, *ENCODINGS]})],
        "The compression of the body.",
    ),
)


def _export_operation(id_: str, response: type[msgspec.Struct]) -> Operation:
    success = ResponseSpec(
        "Accepted, except for the items that `partialSuccess` counts.", {JSON: response, PROTOBUF: None}
    )
    body = Body({PROTOBUF: None, JSON: _Encoded}, "The response has the media type of the request.")
    return Operation(id_, INGESTION, (success,), _PARAMETERS, body, error_spec=OTLP_ERRORS)


EXPORT_TRACES: Final = _export_operation("exportTraces", ExportedTraces)
EXPORT_LOGS: Final = _export_operation("exportLogs", ExportedLogs)
