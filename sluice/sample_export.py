"""Exports the samples of `sluice send` with the OpenTelemetry SDK's own exporters over OTLP/HTTP, and finds out whether
the server accepted them. Has the sample trace of a web shop, with a log record.
"""

import logging
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from http import HTTPStatus
from typing import Final, NamedTuple, Self

import requests
from google.protobuf.message import DecodeError
from google.rpc import status_pb2  # type: ignore[import-untyped]
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer, format_trace_id, set_span_in_context

from chassis.errors import StartupError

_TIMEOUT_S: Final = 10.0
_QUEUE: Final = 32_768  # spans or log records of one service
_UNITS: Final = ((86_400, "days"), (3_600, "h"), (60, "min"))


class Exports:
    """Providers of the SDK that export to one server with one project key."""

    def __init__(self, url: str, key: str) -> None:
        self._url = url
        self._headers = {"X-Legacy-Auth": f"Legacy legacy_key={key}"}
        self._providers: list[tuple[TracerProvider, LoggerProvider]] = []
        self._sessions: list[_Session] = []

    @classmethod
    @contextmanager
    def to(cls, url: str, key: str) -> Iterator[Self]:
        """Exports all items at the end of the block. Raises StartupError if the server did not accept all of them."""
        exports = cls(url, key)
        with _ExportErrors() as errors:
            try:
                yield exports
            finally:
                for provider in (provider for pair in exports._providers for provider in pair):
                    provider.shutdown()
        for session in exports._sessions:
            rejection = session.rejection(errors.texts)
            if rejection is not None:
                raise StartupError(f"{url} did not accept the export: {rejection}")

    def providers(self, resource: Mapping[str, str]) -> tuple[TracerProvider, LoggerProvider]:
        """The providers of a service with these resource attributes."""
        described = Resource.create(dict(resource))
        tracers = TracerProvider(resource=described, shutdown_on_exit=False)
        spans = OTLPSpanExporter(
            endpoint=f"{self._url}/v1/traces", headers=self._headers, timeout=_TIMEOUT_S, session=self._session()
        )
        tracers.add_span_processor(BatchSpanProcessor(spans, max_queue_size=_QUEUE))
        loggers = LoggerProvider(resource=described, shutdown_on_exit=False)
        records = OTLPLogExporter(
            endpoint=f"{self._url}/v1/logs", headers=self._headers, timeout=_TIMEOUT_S, session=self._session()
        )
        loggers.add_log_record_processor(BatchLogRecordProcessor(records, max_queue_size=_QUEUE))
        self._providers.append((tracers, loggers))
        return tracers, loggers

    def _session(self) -> "_Session":
        session = _Session()
        self._sessions.append(session)
        return session


def retry_hint(retry_after: str | None) -> str:
    """A sentence that says when to retry, rounded up; `retry_after` is the header, in seconds."""
    seconds = int(retry_after) if retry_after and re.fullmatch("[0-9]{1,9}", retry_after) else 0
    if not seconds:
        return "Try again later."
    size, unit = next((each for each in _UNITS if seconds > 2 * each[0]), (1, "s"))
    return f"Try again in {-(-seconds // size)} {unit}."


class _Session(requests.Session):
    """Keeps the last response: the SDK reports neither the body of an error nor the outcome of its retries."""

    def __init__(self) -> None:
        super().__init__()
        self._response: requests.Response | None = None
        self._asked = False
        self.hooks["response"].append(self._keep)

    def send(self, request: requests.PreparedRequest, **how: object) -> requests.Response:
        """Send one request, and remember the response."""
        self._asked = True
        return super().send(request, **how)

    def _keep(self, response: requests.Response, **_how: object) -> None:
        self._response = response

    def rejection(self, export_errors: Sequence[str]) -> str | None:
        """Why the server did not accept all items; None if it did. `export_errors` are the messages that the SDK
        logged."""
        response = self._response
        if response is not None and response.status_code == HTTPStatus.TOO_MANY_REQUESTS:
            return _rate_limit_message(response)
        if not self._asked or (response is not None and response.ok):
            return None
        return export_errors[-1] if export_errors else "no response."


def _rate_limit_message(response: requests.Response) -> str:
    """The message of the gateway (which names the limit), and when to retry."""
    try:
        reason = status_pb2.Status.FromString(response.content).message
    except DecodeError:  # a 429 from another server, such as a proxy
        reason = f"{response.reason}."
    when = retry_hint(response.headers.get("Retry-After"))
    return f"429, {reason} {when} `sluice limits` shows and sets quota and rates."


class _ExportErrors(logging.Handler):
    """Collects messages of the SDK, which logs a failed attempt instead of raising; the next attempt may succeed."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    def __enter__(self) -> Self:
        logging.getLogger("opentelemetry").addHandler(self)
        return self

    def __exit__(self, *_exception: object) -> None:
        logging.getLogger("opentelemetry").removeHandler(self)


SPANS: Final = 3
_MILLISECOND: Final = 10**6


class SampleResult(NamedTuple):
    """The trace that the server accepted: its id in hex, and its number of spans."""

    trace_id: str
    spans: int


def send(url: str, key: str) -> SampleResult:
    """Export to `url` with a project key. Raises StartupError if the server does not accept all items."""
    with Exports.to(url, key) as exports:
        tracers, loggers = exports.providers(
            {"service.name": "shop", "service.version": "1.0.0", "deployment.environment.name": "example"}
        )
        trace_id = _emit_order(tracers.get_tracer("sluice.send"), loggers)
    return SampleResult(trace_id, SPANS)


def _emit_order(tracer: Tracer, loggers: LoggerProvider) -> str:
    """Emit an order of 180 ms that ends now: a query, then a payment that fails and is logged. Returns the trace id."""
    end = time.time_ns()
    start = end - 180 * _MILLISECOND
    root = tracer.start_span(
        "POST /orders",
        kind=SpanKind.SERVER,
        start_time=start,
        attributes={"http.request.method": "POST", "http.route": "/orders", "http.response.status_code": 502},
    )
    inside = set_span_in_context(root)
    query = tracer.start_span(
        "SELECT carts",
        context=inside,
        kind=SpanKind.CLIENT,
        start_time=start + 8 * _MILLISECOND,
        attributes={"db.system.name": "postgresql", "db.operation.name": "SELECT", "db.response.returned_rows": 3},
    )
    query.end(start + 40 * _MILLISECOND)
    payment = tracer.start_span(
        "POST /charges", context=inside, kind=SpanKind.CLIENT, start_time=start + 45 * _MILLISECOND
    )
    failed_at = end - 6 * _MILLISECOND
    payment.record_exception(TimeoutError("the payment service did not answer within 125 ms"), timestamp=failed_at)
    payment.set_status(Status(StatusCode.ERROR, "timeout"))
    loggers.get_logger("sluice.send").emit(
        LogRecord(
            timestamp=failed_at,
            context=set_span_in_context(payment),
            severity_number=SeverityNumber.ERROR,
            severity_text="ERROR",
            body="charging the card failed",
            attributes={"order.id": 1042, "retry": False},
        )
    )
    payment.end(failed_at)
    root.set_status(Status(StatusCode.ERROR))
    root.end(end)
    return format_trace_id(root.get_span_context().trace_id)
