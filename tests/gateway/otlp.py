"""Export requests made with the public protobuf messages, and their answers read back."""

import json
import time
from collections.abc import Mapping
from types import MappingProxyType

from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceRequest, ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.logs.v1.logs_pb2 import LogRecord, ResourceLogs, ScopeLogs, SeverityNumber
from opentelemetry.proto.resource.v1.resource_pb2 import Resource
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, ScopeSpans, Span

# What the tests' clock says. ClickHouse has its own and drops what is older than the retention, so it must be near.
NOW_NS = int(time.time()) * 10**9
DAY_NS = 86_400 * 10**9
PROTOBUF = "application/x-protobuf"
JSON = "application/json"


def span(
    number: int = 1,
    *,
    name: str = "work",
    start_ns: int = NOW_NS,
    trace_id: bytes | None = None,
    more: Mapping[str, str] = MappingProxyType({}),
    exception: tuple[str, str, str] | None = None,
) -> Span:
    """A valid span whose ids are made of `number`, with `more` attributes, and an `exception` event: type, message and
    stack trace.
    """
    return Span(
        trace_id=number.to_bytes(16, "big") if trace_id is None else trace_id,
        span_id=number.to_bytes(8, "big"),
        name=name,
        start_time_unix_nano=start_ns,
        end_time_unix_nano=start_ns + 10**6,
        attributes=[text("http.route", "/cart"), *(text(key, value) for key, value in more.items())],
        events=[] if exception is None else [exception_event(*exception)],
    )


def log(
    number: int = 1,
    *,
    body: str = "hello",
    time_ns: int = NOW_NS,
    more: Mapping[str, str] = MappingProxyType({}),
) -> LogRecord:
    """A valid log record, with `more` attributes."""
    return LogRecord(
        time_unix_nano=time_ns,
        body=AnyValue(string_value=f"{body} {number}"),
        attributes=[text(key, value) for key, value in more.items()],
        severity_number=SeverityNumber.SEVERITY_NUMBER_INFO,
    )


def text(key: str, value: str) -> KeyValue:
    """A string attribute."""
    return KeyValue(key=key, value=AnyValue(string_value=value))


def exception_event(kind: str, message: str, stacktrace: str) -> Span.Event:
    """An event as SDKs record an exception."""
    return Span.Event(
        name="exception",
        time_unix_nano=NOW_NS,
        attributes=[
            text("exception.type", kind),
            text("exception.message", message),
            text("exception.stacktrace", stacktrace),
        ],
    )


def traces(*spans: Span) -> bytes:
    """An export request of one resource and scope."""
    resource = Resource(attributes=[text("service.name", "shop"), text("service.version", "1.2.3")])
    scope = ScopeSpans(spans=spans)
    return ExportTraceServiceRequest(
        resource_spans=[ResourceSpans(resource=resource, scope_spans=[scope])]
    ).SerializeToString()


def logs(*records: LogRecord) -> bytes:
    """An export request of one resource and scope."""
    resource = Resource(attributes=[text("service.name", "shop")])
    scope = ScopeLogs(log_records=records)
    return ExportLogsServiceRequest(
        resource_logs=[ResourceLogs(resource=resource, scope_logs=[scope])]
    ).SerializeToString()


def traces_json(*spans: Span) -> bytes:
    """The same request in OTLP/JSON, as a browser sends it."""
    listed = [
        {
            "traceId": one.trace_id.hex(),
            "spanId": one.span_id.hex(),
            "name": one.name,
            "startTimeUnixNano": str(one.start_time_unix_nano),
            "endTimeUnixNano": str(one.end_time_unix_nano),
            "attributes": [{"key": a.key, "value": {"stringValue": a.value.string_value}} for a in one.attributes],
        }
        for one in spans
    ]
    resource = {
        "attributes": [
            {"key": "service.name", "value": {"stringValue": "shop"}},
            {"key": "service.version", "value": {"stringValue": "1.2.3"}},
        ]
    }
    return json.dumps({"resourceSpans": [{"resource": resource, "scopeSpans": [{"spans": listed}]}]}).encode()


def read_traces(body: bytes) -> ExportTraceServiceResponse:
    """The answer to an export of traces."""
    return ExportTraceServiceResponse.FromString(body)


def read_logs(body: bytes) -> ExportLogsServiceResponse:
    """The answer to an export of logs."""
    return ExportLogsServiceResponse.FromString(body)
