"""The OpenTelemetry SDK for Python exports over gRPC unmodified, and is told what it needs to know."""

import logging
from collections.abc import Callable

import grpc
import pytest
from opentelemetry._logs import LogRecord, SeverityNumber
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk._logs import LoggerProvider
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from tests.e2e.product import DEPLOYMENTS, Sluice
from tests.e2e.reading import logs_of, rfc3339, spans_of

CROWD = 700  # spans and log records: two requests of the SDK each
COMPRESSIONS = [grpc.Compression.NoCompression, grpc.Compression.Gzip]
ONE_DEPLOYMENT = pytest.mark.parametrize("deploy", DEPLOYMENTS[:1], indirect=True)


def key_metadata(sluice: Sluice) -> dict[str, str]:
    return {"x-legacy-auth": f"Legacy legacy_key={sluice.key}"}


def dsn_metadata(sluice: Sluice) -> dict[str, str]:
    return {"authorization": f"DSN http://{sluice.key}@127.0.0.1/{sluice.project_id}"}


def make(spans: OTLPSpanExporter, logs: OTLPLogExporter) -> list[ReadableSpan]:
    """A crowd of spans under one, and a log record in each, exported; what the SDK held."""
    resource = Resource({"service.name": "shop"})
    kept = InMemorySpanExporter()
    tracers = TracerProvider(resource=resource, shutdown_on_exit=False)
    tracers.add_span_processor(BatchSpanProcessor(spans))
    tracers.add_span_processor(SimpleSpanProcessor(kept))
    loggers = LoggerProvider(resource=resource, shutdown_on_exit=False)
    loggers.add_log_record_processor(BatchLogRecordProcessor(logs))
    tracer, logger = tracers.get_tracer("crowd"), loggers.get_logger("crowd")
    with tracer.start_as_current_span("all"):
        for number in range(CROWD):
            with tracer.start_as_current_span("one", attributes={"number": number}):
                logger.emit(LogRecord(severity_number=SeverityNumber.INFO, body=number))
    tracers.shutdown()
    loggers.shutdown()
    return list(kept.get_finished_spans())


@pytest.mark.parametrize("metadata", [key_metadata, dsn_metadata], ids=["key", "dsn"])
@pytest.mark.parametrize("compression", COMPRESSIONS, ids=lambda c: c.name)
def test_everything_comes_back_as_the_sdk_held_it(
    sluice: Sluice, compression: grpc.Compression, metadata: Callable[[Sluice], dict[str, str]]
) -> None:
    headers = metadata(sluice)
    held = make(
        OTLPSpanExporter(sluice.grpc_url, headers=headers, compression=compression),
        OTLPLogExporter(sluice.grpc_url, headers=headers, compression=compression),
    )
    context = held[-1].get_span_context()
    assert context is not None
    trace_id = f"{context.trace_id:032x}"
    seen = {
        row["spanId"]: (row["name"], row["startTime"], row["endTime"]) for row in spans_of(sluice, trace_id, CROWD + 1)
    }
    expected = {}
    for span in held:
        own = span.get_span_context()
        assert own is not None
        expected[f"{own.span_id:016x}"] = (span.name, rfc3339(span.start_time or 0), rfc3339(span.end_time or 0))
    assert seen == expected
    assert sorted(row["body"] for row in logs_of(sluice, trace_id, CROWD)) == list(range(CROWD))


@ONE_DEPLOYMENT
def test_the_standard_variables_are_enough(sluice: Sluice, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", sluice.grpc_url)
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", f"x-legacy-auth=Legacy%20legacy_key%3D{sluice.key}")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_COMPRESSION", "gzip")
    held = make(OTLPSpanExporter(), OTLPLogExporter())
    context = held[-1].get_span_context()
    assert context is not None
    assert len(spans_of(sluice, f"{context.trace_id:032x}", CROWD + 1)) == CROWD + 1


@ONE_DEPLOYMENT
def test_a_wrong_key_is_refused_and_not_tried_again(sluice: Sluice, caplog: pytest.LogCaptureFixture) -> None:
    kept = InMemorySpanExporter()
    tracers = TracerProvider(shutdown_on_exit=False)
    tracers.add_span_processor(SimpleSpanProcessor(kept))
    tracers.get_tracer("one").start_span("one").end()
    exporter = OTLPSpanExporter(sluice.grpc_url, headers={"x-legacy-auth": f"Legacy legacy_key={'0' * 32}"})
    with caplog.at_level(logging.WARNING):
        assert exporter.export(kept.get_finished_spans()) is SpanExportResult.FAILURE
    exporter.shutdown()
    (said,) = [record.getMessage() for record in caplog.records if record.name.startswith("opentelemetry")]
    assert "StatusCode.UNAUTHENTICATED" in said
    assert "The project key is not valid." in said
