"""Exports over gRPC: what is accepted, what arrives, and that both protocols are one path."""

import grpc
import pytest

from chassis.clickhouse import ClickHouse
from chassis.runtime.settings import ChassisSettings
from gateway.grpc import server
from tests.gateway.conftest import RecordingStore, Rows, StartGateway
from tests.gateway.grpc.conftest import HEALTH, LOGS, METRICS, TRACES, Client, Connect
from tests.gateway.otlp import log, logs, read_logs, read_traces, span, traces

OK = grpc.StatusCode.OK
BODIES = {TRACES: traces(span()), LOGS: logs(log())}
COMPRESSIONS = (None, grpc.Compression.NoCompression, grpc.Compression.Gzip)


@pytest.fixture
async def client(connect: Connect) -> Client:
    return await connect(RecordingStore())


async def test_full_success_is_an_empty_response_and_the_key_is_taken_from_either_metadata(client: Client) -> None:
    project = client.gateway.projects[1]
    dsn = (("authorization", f"DSN http://{project.key}@host/{project.id}"),)
    for path, body in BODIES.items():
        for compression in COMPRESSIONS:
            for metadata in (client.key(1), dsn):
                for message in (body, b""):
                    ended = await client.call(path, message, metadata, compression=compression)
                    assert (ended.code, ended.response) == (OK, b"")


async def test_what_is_accepted_is_stored(connect: Connect, clickhouse: ClickHouse, rows: Rows) -> None:
    client = await connect(clickhouse)
    many = [span(number, name=f"span {number}") for number in range(1, 200)]
    for compression in COMPRESSIONS:
        assert (await client.call(TRACES, traces(*many), compression=compression)).code is OK
        assert (await client.call(LOGS, logs(log(7)), compression=compression)).code is OK
    found = await rows("SELECT name, count() FROM spans GROUP BY name, trace_id ORDER BY trace_id")
    assert found == [(one.name, 3) for one in many]
    assert await rows("SELECT count() FROM logs") == [(3,)]


async def test_a_partial_success_has_the_number_of_rejected_items_and_the_reasons(client: Client) -> None:
    bad = span(2, trace_id=b"short")
    ended = await client.call(TRACES, traces(span(1), bad, span(3)))
    assert ended.code is OK
    partial = read_traces(ended.response).partial_success
    assert (partial.rejected_spans, partial.error_message) == (1, "1 spans rejected: invalid_trace_id 1")
    ended = await client.call(LOGS, logs(log(time_ns=1), log()))
    assert read_logs(ended.response).partial_success.rejected_log_records == 1


async def test_what_is_sent_to_the_service_of_the_other_signal_is_named_and_nothing_is_rejected(client: Client) -> None:
    ended = await client.call(LOGS, traces(span()))
    partial = read_logs(ended.response).partial_success
    message = "Warning: Spans were not stored; send them to /v1/traces (gRPC: TraceService)."
    assert (ended.code, partial.rejected_log_records, partial.error_message) == (OK, 0, message)
    ended = await client.call(TRACES, logs(log()))
    traced = read_traces(ended.response).partial_success
    message = "Warning: Log records were not stored; send them to /v1/logs (gRPC: LogsService)."
    assert (ended.code, traced.rejected_spans, traced.error_message) == (OK, 0, message)


async def test_both_protocols_count_the_same(connect: Connect, start_gateway: StartGateway) -> None:
    """Requests and items; of a refused request over gRPC no byte is received."""
    samples = []
    body = traces(span(1), span(2, trace_id=b"short"))
    client = await connect(RecordingStore())
    http = await start_gateway(RecordingStore())
    for gateway, send in (
        (client.gateway, lambda message, **more: client.call(TRACES, message, **more)),
        (http, lambda message, **more: http.post("/v1/traces", message, more.get("http"))),
    ):
        await send(body)
        await send(b"\xff")
        await send(body, **({"metadata": ()} if gateway is client.gateway else {"http": {"X-Legacy-Auth": "none"}}))
        await gateway.all_stored()
        samples.append(
            {
                (sample.name, tuple(sorted(sample.labels.items()))): sample.value
                for family in gateway.telemetry.registry.collect()
                for sample in family.samples
                if sample.name.startswith("sluice_gateway_")
                and sample.name.endswith(("requests_total", "items_total", "unanswered_items"))
            }
        )
    assert samples[0] == samples[1]
    assert sum(samples[0].values()) > 0


async def test_other_methods_are_unimplemented(client: Client) -> None:
    not_found = "Method not found!"
    for path, message in (
        (METRICS, "Metrics are not supported. Set OTEL_METRICS_EXPORTER=none"),
        ("/opentelemetry.proto.collector.profiles.v1development.ProfilesService/Export", not_found),
        ("/grpc.reflection.v1.ServerReflection/ServerReflectionInfo", not_found),
        ("/grpc.health.v1.Health/List", not_found),
    ):
        ended = await client.call(path, b"", ())
        assert (ended.code, ended.message[: len(message)]) == (grpc.StatusCode.UNIMPLEMENTED, message)


async def test_the_health_service_says_what_readyz_says(connect: Connect) -> None:
    client = await connect(RecordingStore())
    assert (await client.call(HEALTH, b"", ())).response == server.SERVING == b"\x08\x01"
    assert (await client.gateway.request("GET", "/readyz")).status == 200


async def test_an_access_line_and_a_count_for_each_call(client: Client) -> None:
    await client.call(TRACES, traces(span()))
    await client.call(TRACES, traces(span()), ())
    registry = client.gateway.telemetry.registry
    for code, status in (("OK", "200"), ("UNAUTHENTICATED", "401")):
        assert registry.get_sample_value("sluice_grpc_calls_total", {"method": TRACES, "code": code}) == 1
        labels = {"route": TRACES, "method": "POST", "status": status}
        assert registry.get_sample_value("sluice_http_requests_total", labels) == 1


def test_the_port_is_4317_unless_it_is_set() -> None:
    assert ChassisSettings.load({}).grpc_port == 4317
    assert ChassisSettings.load({"SLUICE_GRPC_PORT": ""}).grpc_port is None
    assert ChassisSettings.load({"SLUICE_GRPC_PORT": "5317"}).grpc_address == "127.0.0.1:5317"
