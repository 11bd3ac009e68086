"""The bodies that a client reads, parsed by the libraries that clients use."""

import json

import pytest
from google.rpc.error_details_pb2 import BadRequest  # type: ignore[import-untyped]  # generated, without types
from google.rpc.status_pb2 import Status  # type: ignore[import-untyped]
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

from proto.otlp.policy import Signal
from proto.otlp.responses import MAX_MESSAGE, Violation, export_response, rpc_code, status_json, status_protobuf


@pytest.mark.parametrize("signal", ["traces", "logs"])
def test_full_success_is_empty(signal: Signal) -> None:
    assert export_response(signal, "protobuf", {}) == b""
    assert export_response(signal, "json", {}) == b"{}"


def test_partial_success_in_protobuf() -> None:
    rejected = {"invalid_trace_id": 2, "start_time_too_old": 300}
    traces = ExportTraceServiceResponse.FromString(export_response("traces", "protobuf", rejected))
    assert traces.partial_success.rejected_spans == 302
    assert traces.partial_success.error_message == "302 spans rejected: start_time_too_old 300, invalid_trace_id 2"
    logs = ExportLogsServiceResponse.FromString(export_response("logs", "protobuf", {"time_too_old": 1}))
    assert logs.partial_success.rejected_log_records == 1
    assert logs.partial_success.error_message == "1 log records rejected: time_too_old 1"


def test_partial_success_in_json() -> None:
    assert json.loads(export_response("traces", "json", {"invalid_span_id": 2})) == {
        "partialSuccess": {"rejectedSpans": 2, "errorMessage": "2 spans rejected: invalid_span_id 2"}
    }
    assert json.loads(export_response("logs", "json", {"time_too_old": 1})) == {
        "partialSuccess": {"rejectedLogRecords": 1, "errorMessage": "1 log records rejected: time_too_old 1"}
    }


def test_partial_success_says_where_the_first_fault_is() -> None:
    path = "resourceSpans[0].scopeSpans[0].spans[7].kind"
    answer = json.loads(export_response("traces", "json", {"invalid_field": 2}, f"{path}: got `str`"))
    message = answer["partialSuccess"]["errorMessage"]
    assert message == f"2 spans rejected: invalid_field 2 (first error: {path}: got `str`)"


def test_status_in_protobuf() -> None:
    violations = [Violation("resourceSpans[0]", "not an object"), Violation("x", "y" * 2000)]
    status = Status.FromString(status_protobuf(400, "größe", violations))
    assert (status.code, status.message) == (3, "größe")
    (detail,) = status.details
    bad_request = BadRequest()
    assert detail.Unpack(bad_request)
    assert [(one.field, len(one.description)) for one in bad_request.field_violations] == [
        ("resourceSpans[0]", 13),
        ("x", MAX_MESSAGE),
    ]
    assert Status.FromString(status_protobuf(503, "later")) == Status(code=14, message="later")


def test_status_in_json_is_the_envelope_too() -> None:
    error = {"code": "bad_request", "message": "m", "requestId": "r"}
    assert json.loads(status_json(400, "m", [Violation("a", "b")], error)) == {
        "code": 3,
        "message": "m",
        "details": [
            {
                "@type": "type.googleapis.com/google.rpc.BadRequest",
                "fieldViolations": [{"field": "a", "description": "b"}],
            }
        ],
        "error": error,
    }
    assert json.loads(status_json(429, "slow down")) == {"code": 8, "message": "slow down"}


def test_messages_are_short() -> None:
    assert len(Status.FromString(status_protobuf(400, "x" * 5000)).message) == MAX_MESSAGE
    assert len(json.loads(status_json(400, "x" * 5000))["message"]) == MAX_MESSAGE


@pytest.mark.parametrize(
    ("status", "code"),
    [(400, 3), (401, 16), (403, 7), (404, 5), (405, 12), (413, 3), (415, 3), (429, 8), (500, 13), (503, 14), (418, 2)],
)
def test_codes(status: int, code: int) -> None:
    assert rpc_code(status) == code
