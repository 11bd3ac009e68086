"""Responses of the OTLP paths, in the media type of the request and with exactly its Content-Type; each is counted
once.
"""

from collections.abc import Callable, Mapping
from typing import Final

from aiohttp import web

from chassis.errors import ApiError, UnsupportedMediaType, envelope
from chassis.http.body import is_utf_8
from gateway.export.refusals import count_refused, drop_traceback
from gateway.outcomes import OutcomeCounters
from proto.otlp.policy import DecodedPayload, Signal
from proto.otlp.responses import CONTENT_TYPES, Media, Violation, export_response, status_json, status_protobuf

_MEDIA: Final[Mapping[str, Media]] = {content_type: media for media, content_type in CONTENT_TYPES.items()}


def request_media(request: web.Request) -> Media:
    """The encoding of the body, by its Content-Type. Raises UnsupportedMediaType if it is not OTLP's, and for a charset
    other than UTF-8; other parameters are ignored.
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
        drop_traceback(error)
        if request.method == "POST":
            signal: Signal = "logs" if request.path.endswith("/logs") else "traces"
            wire_bytes = request.content.total_bytes  # received ones: a Content-Length may be false
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
