"""The OTLP endpoints over HTTP. One request after admission (`gateway` has all steps):

    ExportHandlers.export_traces, export_logs    the flat list of steps for both signals
    request_media                                the encoding of the body; 415 for others
    ExportSteps.ingest                           what `gateway.export` does for every protocol
    OtlpResponses.success, error                 renders the response, and counts refusals

`export_routes` declares the routes, for the server and for `/openapi.json`.
"""

import time
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Final, NoReturn

import msgspec
from aiohttp import web
from msgspec import Meta

from chassis.auth.project_credential import MAX_KEY_LENGTH, MAX_PROJECT_ID_LENGTH
from chassis.errors import ApiError, UnsupportedMediaType, envelope
from chassis.http.access import project_key, public
from chassis.http.body import is_utf_8, read_body
from chassis.http.preparse import PreParseFilter
from chassis.http.route import Body, ErrorBody, ErrorSpec, Operation, Parameter, ResponseSpec, Route, Tag
from gateway.admission.budgets import MemoryReservation
from gateway.decompression import ENCODINGS, IDENTITY, content_encoding
from gateway.export import METRICS_HINT, ExportSteps, count_refused
from gateway.metrics import OutcomeCounters
from gateway.settings import GatewaySettings
from proto.errors import ErrorCode
from proto.otlp.policy import DecodedPayload, Signal
from proto.otlp.responses import CONTENT_TYPES, Media, Violation, export_response, status_json, status_protobuf

TRACES: Final = "/v1/traces"
LOGS: Final = "/v1/logs"
METRICS: Final = "/v1/metrics"
JSON: Final = CONTENT_TYPES["json"]
PROTOBUF: Final = CONTENT_TYPES["protobuf"]
INGESTION: Final = Tag("ingestion", "OTLP/HTTP ingestion of spans and log records, in protobuf or JSON.")

_Reasons = Annotated[
    str, Meta(description="A text: each reason for rejections with the number of rejected items, then the warnings.")
]
_Encoded = Annotated[dict[str, Any], Meta(description="An OTLP export request in its JSON encoding.")]


class RejectedSpans(msgspec.Struct, rename="camel"):
    """The number of rejected spans, and why. Do not retry them: they would be rejected again. If the number is 0, the
    message is a warning."""

    rejected_spans: Annotated[int, Meta(ge=0)]
    error_message: _Reasons


class ExportedTraces(msgspec.Struct, rename="camel"):
    """The result of an export. Empty if every span was accepted and there is no warning."""

    partial_success: RejectedSpans | msgspec.UnsetType = msgspec.UNSET


class RejectedLogs(msgspec.Struct, rename="camel"):
    """The number of rejected log records, and why. Do not retry them: they would be rejected again. If the number is 0,
    the message is a warning."""

    rejected_log_records: Annotated[int, Meta(ge=0)]
    error_message: _Reasons


class ExportedLogs(msgspec.Struct, rename="camel"):
    """The result of an export. Empty if every log record was accepted and there is no warning."""

    partial_success: RejectedLogs | msgspec.UnsetType = msgspec.UNSET


class OtlpError(msgspec.Struct):
    """A google.rpc.Status, with the `error` object that all error responses of Sluice have."""

    code: Annotated[int, Meta(description="A google.rpc.Code.")]
    message: str
    error: ErrorBody
    details: list[dict[str, Any]] | msgspec.UnsetType = msgspec.UNSET


UNAVAILABLE: Final = (
    "Retry the request later. Its items may have been stored nevertheless. Possible causes: the gateway is overloaded, "
    "the journal is full or cannot be written, or the key is not cached and the database is unavailable. In mode "
    "`store`, ClickHouse may also be unavailable, or did not store the items before the deadline."
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


_MEDIA: Final[Mapping[str, Media]] = {content_type: media for media, content_type in CONTENT_TYPES.items()}


def request_media(request: web.Request) -> Media:
    """The encoding of the body, by its Content-Type. Raises UnsupportedMediaType for a type that OTLP does not define
    and for a charset other than UTF-8. Other parameters are ignored.
    """
    media = _media(request)
    if media is None:
        raise UnsupportedMediaType("Content-Type must be application/x-protobuf or application/json.")
    if not is_utf_8(request.headers.get("Content-Type", "")):
        raise UnsupportedMediaType("Send UTF-8: omit `charset` in Content-Type or set it to utf-8.")
    return media


def _media(request: web.Request) -> Media | None:
    content_type = request.headers.get("Content-Type", "")
    return _MEDIA.get(content_type) or _MEDIA.get(content_type.partition(";")[0].strip().lower())


class OtlpResponses:
    """Renders the responses of the OTLP paths, and counts refusals."""

    def __init__(
        self,
        outcomes: OutcomeCounters,
        on_refused: Callable[[web.Request, ApiError], None] = lambda _request, _error: None,
    ) -> None:
        """`on_refused` is called for every refused export."""
        self._outcomes = outcomes
        self._on_refused = on_refused

    def success(self, media: Media, decoded: DecodedPayload, seconds: float) -> web.Response:
        """200: an empty export response, or one with the number of rejected items, the reasons and the warnings.
        `seconds`: time since the head of the request. The caller counts the request.
        """
        self._outcomes.observe_latency(decoded.signal, seconds)
        body = export_response(decoded.signal, media, decoded.rejected, decoded.first_fault, decoded.warnings)
        return _response(200, CONTENT_TYPES[media], body)

    def error(self, request: web.Request, error: ApiError, request_id: str) -> web.Response:
        """Any other status; counts the refusal."""
        if request.method == "POST":
            signal: Signal = "logs" if request.path.endswith("/logs") else "traces"
            wire_bytes = request.content.total_bytes  # received bytes: Content-Length may be wrong
            count_refused(self._outcomes, request, signal, error, wire_bytes)
            self._on_refused(request, error)
        return self.status(request, error, request_id)

    def status(self, request: web.Request, error: ApiError, request_id: str) -> web.Response:
        """A google.rpc.Status, not counted; for JSON requests it also has the `error` object of the envelope."""
        violations = [Violation(issue.path, issue.message) for issue in error.details or ()]
        if _media(request) == "protobuf":
            body = status_protobuf(error.status, error.message, violations)
            return _response(error.status, CONTENT_TYPES["protobuf"], body)
        inner = envelope(error, request_id)["error"]
        body = status_json(error.status, error.message, violations, inner)
        return _response(error.status, CONTENT_TYPES["json"], body)


def _response(status: int, content_type: str, body: bytes) -> web.Response:
    return web.Response(status=status, body=body, headers={"Content-Type": content_type})


async def reject_metrics(_request: web.Request) -> NoReturn:
    """404 with a hint: exporters send metrics here unless they are configured otherwise."""
    raise ApiError(ErrorCode.NOT_FOUND, METRICS_HINT)


class ExportHandlers:
    """`POST /v1/traces` and `/v1/logs`. All dependencies are passed in; it holds no state of its own."""

    def __init__(
        self,
        settings: GatewaySettings,
        *,
        body_timeout_s: float,
        body_min_rate: int,
        responses: OtlpResponses,
        steps: ExportSteps,
    ) -> None:
        self._max_wire_bytes = settings.max_wire_bytes
        self._body_timeout_s = body_timeout_s
        self._body_min_rate = body_min_rate
        self._responses = responses
        self._steps = steps

    async def export_traces(self, request: web.Request) -> web.Response:
        """Ingest spans.

        Each item is accepted, or rejected with a reason. A 200 means that the accepted items are on disk; they are
        stored in ClickHouse, once, about half a second later, or when ClickHouse is available again. The setting
        `SLUICE_DURABILITY` can change the meaning of a 200: the accepted items are in ClickHouse already (`store`), or
        in the memory of the gateway (`memory`).
        """
        return await self._export("traces", request)

    async def export_logs(self, request: web.Request) -> web.Response:
        """Ingest log records.

        Each item is accepted, or rejected with a reason. A 200 means that the accepted items are on disk; they are
        stored in ClickHouse, once, about half a second later, or when ClickHouse is available again. The setting
        `SLUICE_DURABILITY` can change the meaning of a 200: the accepted items are in ClickHouse already (`store`), or
        in the memory of the gateway (`memory`).
        """
        return await self._export("logs", request)

    async def _export(self, signal: Signal, request: web.Request) -> web.Response:
        """Handle one export request. The docstring of the package `gateway` lists these steps in order, with the
        statuses that each can refuse with.
        """
        started = time.perf_counter()
        await self._steps.admit(request)
        with self._steps.reserve_memory(request) as memory:
            media, encoding = request_media(request), content_encoding(request.headers.getall("Content-Encoding", []))
            decoded = await self._steps.ingest(
                request, signal, media, encoding, await self._read_body(request, media, encoding, memory), memory
            )
            return self._responses.success(media, decoded, time.perf_counter() - started)

    async def _read_body(self, request: web.Request, media: Media, encoding: str, memory: MemoryReservation) -> bytes:
        """The body as received; its memory is reserved before it arrives."""
        declared = min(request.content_length or 0, self._max_wire_bytes)
        memory.set(declared)
        wire_cap = self._max_wire_bytes
        if encoding == IDENTITY:
            wire_cap = min(wire_cap, self._steps.decoder.limits[media].max_bytes)
        wire = await read_body(
            request,
            wire_cap,
            self._body_timeout_s,
            on_growth=lambda size: memory.set(max(size, declared)),
            min_rate=self._body_min_rate,
        )
        memory.set(len(wire))
        return wire


def export_routes(handlers: ExportHandlers, responses: OtlpResponses, pre_parse_filter: PreParseFilter) -> list[Route]:
    """The routes of OTLP, with their access rules."""
    routes = [
        Route(
            "POST",
            path,
            handler,
            project_key(),
            render_error=responses.error,
            operation=operation,
            pre_parse_filter=pre_parse_filter,
        )
        for path, handler, operation in (
            (TRACES, handlers.export_traces, EXPORT_TRACES),
            (LOGS, handlers.export_logs, EXPORT_LOGS),
        )
    ]
    # Not part of the API, but exporters send here unless configured otherwise. The key is not checked.
    routes.append(Route("POST", METRICS, reject_metrics, public(), render_error=responses.status))
    return routes
