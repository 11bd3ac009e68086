"""A request that is accepted and was not read as it was sent: 200, nothing rejected, and a message that says so."""

import json
from typing import Any, Final

from chassis.clickhouse import ClickHouse
from gateway.inserts.pending_requests import redecode
from gateway.settings import GatewaySettings
from proto.otlp.policy import RequestWarning
from proto.otlp.responses import export_response
from tests.gateway.conftest import RecordingStore, Rows, StartGateway
from tests.gateway.otlp import JSON, NOW_NS, log, logs, read_logs, read_traces, span, traces

SNAKE: Final = "Members in snake_case were read; write lowerCamelCase"
ENUMS: Final = "Names of enum values were read; write numbers"
SPANS: Final = "Spans were not stored; send them to /v1/traces (gRPC: TraceService)"
LOGS: Final = "Log records were not stored; send them to /v1/logs (gRPC: LogsService)"


def snake_case_request(**fields: Any) -> bytes:
    item = {"trace_id": f"{7:032x}", "span_id": f"{7:016x}", "name": "work", "start_time_unix_nano": str(NOW_NS)}
    return json.dumps({"resource_spans": [{"scope_spans": [{"spans": [item | fields]}]}]}).encode()


async def test_snake_case_and_names_of_enums_are_stored_with_a_warning(
    start_gateway: StartGateway, clickhouse: ClickHouse, rows: Rows
) -> None:
    gateway = await start_gateway(clickhouse)
    body = snake_case_request(kind="SPAN_KIND_SERVER", status={"code": "STATUS_CODE_ERROR"})
    answer = await gateway.post("/v1/traces", body, {"Content-Type": JSON})
    assert (answer.status, answer.json) == (
        200,
        {"partialSuccess": {"rejectedSpans": 0, "errorMessage": f"Warning: {SNAKE}. {ENUMS}."}},
    )
    assert await rows("SELECT hex(span_id), name, kind, status_code FROM spans") == [(f"{7:016X}", "work", 2, 2)]
    again = redecode("traces", "json", "identity", body, 1, GatewaySettings().policy(30), NOW_NS)
    assert (again.accepted, dict(again.rejected)) == (1, {})
    for kind in ("snake_case", "enum_names"):
        assert gateway.metric("request_warnings_total", signal="traces", kind=kind) == 1


async def test_what_is_sent_to_the_path_of_the_other_signal_is_named_and_neither_stored_nor_refused(
    start_gateway: StartGateway,
) -> None:
    store = RecordingStore()
    gateway = await start_gateway(store)
    for path, body, rejected, message in (
        ("/v1/logs", b'{"resourceSpans": [{"scopeSpans": [{"spans": [{}]}]}]}', "rejectedLogRecords", SPANS),
        ("/v1/traces", b'{"resourceLogs": [{"scopeLogs": [{"logRecords": [{}]}]}]}', "rejectedSpans", LOGS),
    ):
        answer = await gateway.post(path, body, {"Content-Type": JSON})
        told = {"partialSuccess": {rejected: 0, "errorMessage": f"Warning: {message}."}}
        assert (answer.status, answer.json) == (200, told)
    spans = await gateway.post("/v1/logs", traces(span(1), span(2)))
    partial = read_logs(spans.body).partial_success
    assert (spans.status, partial.rejected_log_records, partial.error_message) == (200, 0, f"Warning: {SPANS}.")
    in_a_trace = log()
    in_a_trace.trace_id, in_a_trace.span_id = b"t" * 16, b"s" * 8
    records = await gateway.post("/v1/traces", logs(log(), in_a_trace))
    traced = read_traces(records.body).partial_success
    assert (records.status, traced.rejected_spans, traced.error_message) == (200, 0, f"Warning: {LOGS}.")
    assert not {"spans", "logs"} & set(store.tables())
    assert gateway.metric("request_warnings_total", signal="logs", kind="spans_sent_as_logs") == 2
    assert gateway.metric("items_total", outcome="accepted") == 0


async def test_one_message_has_what_is_rejected_and_the_warnings(start_gateway: StartGateway) -> None:
    gateway = await start_gateway(RecordingStore())
    answer = await gateway.post("/v1/traces", snake_case_request(kind="SERVER"), {"Content-Type": JSON})
    fault = "not a name or number of SpanKind, for example SPAN_KIND_SERVER"
    first = f"(first error: resourceSpans[0].scopeSpans[0].spans[0].kind: {fault})"
    message = f"1 spans rejected: invalid_field 1 {first}. Warning: {SNAKE}."
    assert answer.json == {"partialSuccess": {"rejectedSpans": 1, "errorMessage": message}}


def test_a_message_of_all_warnings_is_short_and_is_not_cut_by_a_long_fault() -> None:
    kinds = tuple(RequestWarning)
    alone = json.loads(export_response("traces", "json", {}, "", kinds))["partialSuccess"]
    assert alone["rejectedSpans"] == 0
    assert len(alone["errorMessage"]) < 600
    both = json.loads(export_response("traces", "json", {"invalid_field": 1}, "x" * 5_000, kinds))["partialSuccess"]
    assert both["rejectedSpans"] == 1
    assert both["errorMessage"].endswith(f"…. {alone['errorMessage']}")
    assert len(both["errorMessage"]) == 1_024
