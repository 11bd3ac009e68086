"""Python's logging through OpenTelemetry's handler: records, what they carry, and the span that they belong to."""

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.instrumentation.logging.handler import LoggingHandler
from opentelemetry.sdk._logs import LoggerProvider, ReadableLogRecord
from opentelemetry.sdk._logs.export import (
    BatchLogRecordProcessor,
    InMemoryLogRecordExporter,
    SimpleLogRecordProcessor,
)
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider

from tests.e2e.agents import key_header
from tests.e2e.product import Sluice
from tests.e2e.reading import arrived, logs_of, rfc3339, same

RESOURCE: dict[str, Any] = {"service.version": "2.1.0", "deployment.environment.name": "prod", "process.pid": 7}
EXTRA = {
    "sku": "A-17",
    "left": 3,
    "share": 0.25,
    "whole": 2.0,
    "urgent": True,
    "bins": ["x", "y"],
    "counts": [1, 2, 2**62],
    "nested": {"deep": {"list": [1, "b", None]}, "raw": b"\x00\xff"},
    "nothing": None,
}
EXTRA_SEEN = EXTRA | {"nested": {"deep": {"list": [1, "b", None]}, "raw": {"bytesValue": "AP8="}}}


@contextmanager
def exported(name: str, exporter: OTLPLogExporter) -> Iterator[tuple[logging.Logger, InMemoryLogRecordExporter]]:
    """A logger with the handler on it, and what the SDK holds; flushed at the end."""
    kept = InMemoryLogRecordExporter()  # type: ignore[no-untyped-call]  # the SDK's
    provider = LoggerProvider(resource=Resource(RESOURCE | {"service.name": name}), shutdown_on_exit=False)
    provider.add_log_record_processor(BatchLogRecordProcessor(exporter))
    provider.add_log_record_processor(SimpleLogRecordProcessor(kept))
    handler = LoggingHandler(logger_provider=provider)
    logger = logging.getLogger(f"{name}.stock")
    logger.propagate = False
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    yield logger, kept
    logger.removeHandler(handler)
    provider.shutdown()


def record(held: ReadableLogRecord, number: int, text: str, body: Any, **own: Any) -> dict[str, Any]:
    """What explore shows of a record that the SDK held."""
    log = held.log_record
    assert log.timestamp is not None
    assert log.observed_timestamp is not None
    resource = dict(held.resource.attributes)
    scope = held.instrumentation_scope
    assert scope is not None
    attributes = own.pop("attributes", {})
    return {
        "time": rfc3339(log.timestamp),
        "timeSource": "time",
        "observedTime": rfc3339(log.observed_timestamp),
        "traceId": f"{log.trace_id:032x}" if log.trace_id else None,
        "spanId": f"{log.span_id:016x}" if log.span_id else None,
        "flags": int(log.trace_flags or 0),
        "severityNumber": number,
        "severityText": text,
        "eventName": None,
        "body": body,
        "attributes": {f"resource.{key}": value for key, value in resource.items()}
        | {"scope.name": scope.name}
        | attributes,
        "droppedAttributesCount": 0,
        "resource": {"attributes": resource, "droppedAttributesCount": 0, "schemaUrl": None, "entityRefs": []},
        "scope": {
            "name": scope.name,
            "version": None,
            "attributes": {},
            "droppedAttributesCount": 0,
            "schemaUrl": None,
        },
        "truncations": [],
        "environment": "prod",
        "release": "2.1.0",
        "serviceName": resource["service.name"],
        **own,
    }


@pytest.mark.parametrize("compression", list(Compression), ids=lambda c: c.value)
def test_log_records_come_back_as_the_handler_made_them(sluice: Sluice, compression: Compression) -> None:
    name = f"shop-{compression.value}-{time.time_ns()}"
    exporter = OTLPLogExporter(f"{sluice.base_url}/v1/logs", headers=key_header(sluice.key), compression=compression)
    tracer = TracerProvider(resource=Resource({"service.name": name}), shutdown_on_exit=False).get_tracer("t")
    with exported(name, exporter) as (logger, kept):
        logger.info("before any span")
        with tracer.start_as_current_span("restock") as outer:
            logger.debug("bins: %s, left: %d", "x, y", 3)
            logger.warning("stock is low", extra=EXTRA)
            with tracer.start_as_current_span("order") as inner:
                try:
                    int("seven")
                except ValueError:
                    logger.exception("cannot order")
                logger.critical("gave up", extra={"otel.event.name": "restock.failed"})
    free, debug, warning, error, critical = kept.get_finished_logs()

    trace_id = f"{outer.get_span_context().trace_id:032x}"
    stacktrace = str((error.log_record.attributes or {})["exception.stacktrace"])
    assert stacktrace.startswith("Traceback (most recent call last):\n")
    raised = {
        "exception.type": "ValueError",
        "exception.message": "invalid literal for int() with base 10: 'seven'",
        "exception.stacktrace": stacktrace,
    }
    expected = [
        record(debug, 5, "DEBUG", "bins: x, y, left: 3"),
        record(warning, 13, "WARN", "stock is low", attributes=EXTRA_SEEN),
        record(error, 17, "ERROR", "cannot order", attributes=raised),
        record(critical, 21, "FATAL", "gave up", eventName="restock.failed"),
    ]
    seen = logs_of(sluice, trace_id, len(expected))
    assert all(isinstance(row.pop("id"), str) for row in seen)
    same(seen, sorted(expected, key=lambda row: row["time"], reverse=True))
    assert {(row["severityText"], row["spanId"]) for row in seen} == {
        *((text, f"{outer.get_span_context().span_id:016x}") for text in ("DEBUG", "WARN")),
        *((text, f"{inner.get_span_context().span_id:016x}") for text in ("ERROR", "FATAL")),
    }
    everything = arrived(sluice, f"/logs?hours=1&filters=serviceName:{name}", len(expected) + 1)
    (alone,) = (row for row in everything if row["traceId"] is None)
    alone.pop("id")
    same(alone, record(free, 9, "INFO", "before any span"))
