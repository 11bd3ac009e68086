"""The OpenTelemetry SDK for Python exports to Sluice unmodified."""

import time
from typing import Any

import pytest
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor
from opentelemetry.trace import SpanKind, StatusCode

from tests.e2e.product import Sluice, eventually
from tests.e2e.reading import settled

COMPRESSIONS = [Compression.NoCompression, Compression.Gzip, Compression.Deflate]


def resource(name: str) -> Resource:
    return Resource.create(
        {"service.name": name, "service.version": "1.4.2", "deployment.environment.name": "staging", "process.pid": 41}
    )


def headers(sluice: Sluice) -> dict[str, str]:
    return {"X-Legacy-Auth": f"Legacy legacy_key={sluice.key}"}


@pytest.mark.parametrize("compression", COMPRESSIONS, ids=lambda c: c.value)
def test_traces_come_back_as_they_were_made(sluice: Sluice, compression: Compression) -> None:
    provider = TracerProvider(resource=resource(f"shop-{compression.value}"))
    exporter = OTLPSpanExporter(f"{sluice.base_url}/v1/traces", headers=headers(sluice), compression=compression)
    provider.add_span_processor(BatchSpanProcessor(exporter))
    tracer = provider.get_tracer("checkout", "0.3")
    with tracer.start_as_current_span("POST /orders", kind=SpanKind.SERVER) as root:
        root.set_attributes(
            {"http.request.method": "POST", "http.response.status_code": 500, "cart.total": 19.5, "vip": True}
        )
        root.set_attribute("items", ["a", "b"])
        with tracer.start_as_current_span("charge") as child:
            child.record_exception(ValueError("card declined"))
            child.set_status(StatusCode.ERROR, "declined")
    provider.shutdown()
    settled(sluice)
    trace_id = f"{root.get_span_context().trace_id:032x}"

    page = eventually(lambda: spans_of(sluice, trace_id, 2), "both spans")

    child_span, root_span = page["data"]
    assert (root_span["name"], root_span["kind"], root_span["parentSpanId"]) == ("POST /orders", "SERVER", None)
    assert (root_span["serviceName"], root_span["release"], root_span["environment"]) == (
        f"shop-{compression.value}",
        "1.4.2",
        "staging",
    )
    attributes = root_span["attributes"]
    assert attributes["http.response.status_code"] == 500
    assert attributes["cart.total"] == 19.5
    assert attributes["vip"] is True
    assert attributes["items"] == ["a", "b"]
    assert attributes["resource.process.pid"] == 41
    assert attributes["scope.name"] == "checkout"
    assert attributes["scope.version"] == "0.3"
    assert (child_span["statusCode"], child_span["statusMessage"]) == ("ERROR", "declined")
    assert child_span["parentSpanId"] == root_span["spanId"]
    waterfall = sluice.explore(f"/traces/{trace_id}/waterfall")
    assert [(row["name"], row["depth"], row["orphan"]) for row in waterfall["rows"]] == [
        ("POST /orders", 0, False),
        ("charge", 1, False),
    ]
    record = sluice.explore(f"/traces/{trace_id}/spans/{child_span['spanId']}")
    assert [event["name"] for event in record["events"]] == ["exception"]
    assert record["events"][0]["attributes"]["exception.message"] == "card declined"


@pytest.mark.parametrize("compression", COMPRESSIONS, ids=lambda c: c.value)
def test_logs_come_back_with_their_trace(sluice: Sluice, compression: Compression) -> None:
    service = f"logger-{compression.value}"
    tracer = TracerProvider(resource=resource(service)).get_tracer("t")
    provider = LoggerProvider(resource=resource(service))
    exporter = OTLPLogExporter(f"{sluice.base_url}/v1/logs", headers=headers(sluice), compression=compression)
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    logger = provider.get_logger("stock", "0.9")
    with tracer.start_as_current_span("work") as span:
        logger.emit(
            LogRecord(
                timestamp=time.time_ns(),
                severity_text="WARN",
                severity_number=SeverityNumber.WARN,
                body="stock is low: 3",
                attributes={"sku": "A-17", "left": 3},
                event_name="stock.low",
            )
        )
    provider.shutdown()
    settled(sluice)
    trace_id = f"{span.get_span_context().trace_id:032x}"

    page = eventually(lambda: logs_of(sluice, trace_id), "the log record")

    (record,) = page["data"]
    assert record["body"] == "stock is low: 3"
    assert record["severityText"] == "WARN"
    assert record["severityNumber"] == 13
    assert record["eventName"] == "stock.low"
    assert record["scope"]["name"] == "stock"
    assert record["spanId"] == f"{span.get_span_context().span_id:016x}"
    assert record["attributes"]["sku"] == "A-17"
    assert record["attributes"]["left"] == 3
    assert record["serviceName"] == service


def spans_of(sluice: Sluice, trace_id: str, count: int) -> Any:
    page = sluice.explore(f"/spans?traceId={trace_id}")
    return page if len(page["data"]) == count else None


def logs_of(sluice: Sluice, trace_id: str) -> Any:
    page = sluice.explore(f"/traces/{trace_id}/logs")
    return page if page and page["data"] else None
