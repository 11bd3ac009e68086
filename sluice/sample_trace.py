"""A sample trace of a web shop with a log record, exported by the OpenTelemetry SDK over OTLP/HTTP."""

import logging
import re
import time
from collections.abc import Sequence
from http import HTTPStatus
from typing import Final, NamedTuple

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

SPANS: Final = 3
_MILLISECOND: Final = 10**6
_TIMEOUT_S: Final = 10.0
_EXPORTS: Final = 2  # spans, and a log record
_UNITS: Final = ((86_400, "days"), (3_600, "h"), (60, "min"))


class SampleResult(NamedTuple):
    """The trace that the server accepted: its id in hex, and its number of spans."""

    trace_id: str
    spans: int


def send(url: str, key: str) -> SampleResult:
    """Export to `url` with a project key. Raises StartupError if the server does not accept all of it."""
    resource = Resource.create(
        {"service.name": "shop", "service.version": "1.0.0", "deployment.environment.name": "example"}
    )
    headers = {"X-Legacy-Auth": f"Legacy legacy_key={key}"}
    export_errors = _ExportErrors()
    session = _Session()
    spans = OTLPSpanExporter(endpoint=f"{url}/v1/traces", headers=headers, timeout=_TIMEOUT_S, session=session)
    records = OTLPLogExporter(endpoint=f"{url}/v1/logs", headers=headers, timeout=_TIMEOUT_S, session=session)
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(spans))
    loggers = LoggerProvider(resource=resource, shutdown_on_exit=False)
    loggers.add_log_record_processor(BatchLogRecordProcessor(records))
    with export_errors:
        trace_id = _emit_order(tracers.get_tracer("sluice.send"), loggers)
        tracers.shutdown()
        loggers.shutdown()
    rejection = session.rejection(export_errors.texts)
    if rejection is not None:
        raise StartupError(f"{url} did not accept the trace: {rejection}")
    return SampleResult(trace_id, SPANS)


def retry_hint(retry_after: str | None) -> str:
    """A sentence that says when to retry, rounded up; `retry_after` is the header, in seconds."""
    seconds = int(retry_after) if retry_after and re.fullmatch("[0-9]{1,9}", retry_after) else 0
    if not seconds:
        return "Try again later."
    size, unit = next((each for each in _UNITS if seconds > 2 * each[0]), (1, "s"))
    return f"Try again in {-(-seconds // size)} {unit}."


class _Session(requests.Session):
    """Keeps the last response per URL: the SDK reports neither the body of an error nor the outcome of its retries."""

    def __init__(self) -> None:
        super().__init__()
        self.responses: dict[str, requests.Response] = {}
        self.hooks["response"].append(self._keep)

    def _keep(self, response: requests.Response, **_how: object) -> None:
        self.responses[str(response.request.url)] = response

    def rejection(self, export_errors: Sequence[str]) -> str | None:
        """Why the server did not accept everything, or None. `export_errors` are the messages that the SDK logged."""
        for response in self.responses.values():
            if response.status_code == HTTPStatus.TOO_MANY_REQUESTS:
                return _rate_limit_message(response)
        if len(self.responses) == _EXPORTS and all(response.ok for response in self.responses.values()):
            return None
        return export_errors[-1] if export_errors else "no response."


def _rate_limit_message(response: requests.Response) -> str:
    """The message of the gateway, which names the limit, and when to retry."""
    try:
        reason = status_pb2.Status.FromString(response.content).message
    except DecodeError:  # a 429 from another server, such as a proxy
        reason = f"{response.reason}."
    when = retry_hint(response.headers.get("Retry-After"))
    return f"429, {reason} {when} `sluice limits` shows and sets quota and rates."


class _ExportErrors(logging.Handler):
    """Collects what the SDK logs, instead of raising, when an attempt fails; the next attempt may succeed."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())

    def __enter__(self) -> None:
        logging.getLogger("opentelemetry").addHandler(self)

    def __exit__(self, *_exception: object) -> None:
        logging.getLogger("opentelemetry").removeHandler(self)


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
