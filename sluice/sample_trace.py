"""A sample trace of a web shop with a log record, exported by the OpenTelemetry SDK over OTLP/HTTP."""

import time
from typing import Final, NamedTuple

from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.trace import SpanKind, Status, StatusCode, Tracer, format_trace_id, set_span_in_context

from sluice.sample_export import Exports

SPANS: Final = 3
_MILLISECOND: Final = 10**6


class SampleResult(NamedTuple):
    """The trace that the server accepted: its id in hex, and its number of spans."""

    trace_id: str
    spans: int


def send(url: str, key: str) -> SampleResult:
    """Export to `url` with a project key. Raises StartupError if the server does not accept all of it."""
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
