"""Rotel, a forwarding agent, between an SDK and Sluice: what the SDK held arrives, once."""

from pathlib import Path
from typing import Any

import pytest
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import Link, SpanKind, StatusCode

from tests.e2e.agents import forwarding, rotel
from tests.e2e.product import Sluice
from tests.e2e.reading import logs_of, rfc3339, same, spans_of

CROWD = 600
KNOWN_LOCAL = 0x100  # all of the flags that the SDK for Python sends
RESOURCE = {"service.name": "shop", "service.version": "3.0", "process.command_args": ["shop", "--fast"]}
ATTRIBUTES: dict[str, Any] = {
    "text": "grün \U0001f680",
    "empty": "",
    "yes": True,
    "count": 2**62,
    "negative": -1,
    "tenth": 0.1,
    "whole": 2.0,
    "texts": ["a", ""],
    "counts": [1, -(2**63)],
    "shares": [0.5, 2.0],
    "answers": [True, False],
}


def make_spans(endpoint: str) -> list[ReadableSpan]:
    """An order of two spans, and a crowd under it, exported to `endpoint`; what the SDK held."""
    kept = InMemorySpanExporter()
    provider = TracerProvider(resource=Resource(RESOURCE), shutdown_on_exit=False)
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(f"{endpoint}/v1/traces")))
    provider.add_span_processor(SimpleSpanProcessor(kept))
    tracer = provider.get_tracer("checkout", "0.3", "https://shop.example/schema/scope", {"scoped": 1})
    with tracer.start_as_current_span("POST /orders", kind=SpanKind.SERVER, attributes=ATTRIBUTES) as root:
        links = [Link(root.get_span_context(), {"reason": "retry"})]
        with tracer.start_as_current_span("charge", kind=SpanKind.CLIENT, links=links) as charge:
            charge.record_exception(ValueError("card declined"))
            charge.set_status(StatusCode.ERROR, "declined")
        for number in range(CROWD):
            tracer.start_span("one", attributes={"number": number}).end()
    provider.shutdown()
    return list(kept.get_finished_spans())


def make_logs(endpoint: str, trace_id: int) -> None:
    """A crowd of log records of the trace, exported to `endpoint`."""
    provider = LoggerProvider(resource=Resource(RESOURCE), shutdown_on_exit=False)
    provider.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter(f"{endpoint}/v1/logs")))
    logger = provider.get_logger("stock", "0.9")
    for number in range(CROWD):
        logger.emit(
            LogRecord(
                trace_id=trace_id,
                severity_number=SeverityNumber.INFO,
                severity_text="INFO",
                body={"number": number},
                attributes=ATTRIBUTES,
            )
        )
    provider.shutdown()


def essence(span: ReadableSpan) -> dict[str, Any]:
    """Of a span's record, what an agent could lose or change."""
    context, parent = span.get_span_context(), span.parent
    assert context is not None
    assert span.start_time is not None
    assert span.end_time is not None
    return {
        "spanId": f"{context.span_id:016x}",
        "parentSpanId": f"{parent.span_id:016x}" if parent else None,
        "name": span.name,
        "kind": span.kind.name,
        "startTime": rfc3339(span.start_time),
        "endTime": rfc3339(span.end_time),
        "statusCode": span.status.status_code.name,
        "statusMessage": span.status.description,
        "flags": KNOWN_LOCAL,
        "attributes": {f"resource.{key}": value for key, value in RESOURCE.items()}
        | {"scope.name": "checkout", "scope.version": "0.3", "scope.scoped": 1}
        | dict(span.attributes or {}),
        "events": [
            {
                "time": rfc3339(event.timestamp),
                "name": event.name,
                "attributes": dict(event.attributes or {}),
                "droppedAttributesCount": 0,
            }
            for event in span.events
        ],
        "links": [
            {
                "traceId": f"{link.context.trace_id:032x}",
                "spanId": f"{link.context.span_id:016x}",
                "traceState": None,
                "attributes": dict(link.attributes or {}),
                "droppedAttributesCount": 0,
                "flags": KNOWN_LOCAL,
            }
            for link in span.links
        ],
    }


@pytest.mark.parametrize("protocol", ["http", "grpc"])
@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_what_the_agent_forwards_is_what_the_sdk_held(
    sluice: Sluice, tmp_path: Path, compression: str, protocol: str
) -> None:
    url = {"http": sluice.base_url, "grpc": sluice.grpc_url}[protocol]
    with rotel(tmp_path, forwarding(url, sluice.key, compression, protocol)) as agent:
        held = make_spans(agent.endpoint)
        root = held[-1].get_span_context()
        assert root is not None
        make_logs(agent.endpoint, root.trace_id)
        trace_id = f"{root.trace_id:032x}"
        seen = spans_of(sluice, trace_id, len(held))
        logs = logs_of(sluice, trace_id, CROWD)
        assert "ERROR" not in agent.log.read_text()
        assert "WARN" not in agent.log.read_text()

    times = {row["spanId"]: (row["name"], row["startTime"], row["endTime"]) for row in seen}
    expected = [essence(span) for span in held]
    assert times == {each["spanId"]: (each["name"], each["startTime"], each["endTime"]) for each in expected}
    for each in expected[:1] + expected[-1:]:
        record = sluice.explore(f"/traces/{trace_id}/spans/{each['spanId']}")
        same({key: record[key] for key in each}, each)
    assert sorted(row["body"]["number"] for row in logs) == list(range(CROWD))
    merged = {f"resource.{key}": value for key, value in RESOURCE.items()} | ATTRIBUTES
    same(logs[0]["attributes"], merged | {"scope.name": "stock", "scope.version": "0.9"})
