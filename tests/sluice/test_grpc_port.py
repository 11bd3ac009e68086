"""The port of OTLP/gRPC as operators meet it: announced, in use, off, shared by workers, draining."""

import re
import signal
import socket
import subprocess
from pathlib import Path

import grpc
import pytest
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor, SpanExportResult
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter

from benchmarks.gateway.grpc_load import header_block
from tests.engine.process import Engine
from tests.forks import FORKED_WORKERS
from tests.ports import free_port

from .conftest import DEADLINE_S, Start, Up, clean_environment, command, refusal, sluice, wait_until

HEALTH = "/grpc.health.v1.Health/Check"
SERVING, NOT_SERVING = b"\x08\x01", b"\x08\x02"


PREFACE = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n\0\0\0\4\0\0\0\0\0"
BLOCK = header_block(HEALTH, [("grpc-encoding", "unheard")])
UNKNOWN_ENCODING = PREFACE + len(BLOCK).to_bytes(3, "big") + b"\1\5\0\0\0\1" + BLOCK


def received(connection: socket.socket) -> bytes:
    """All that comes until the stream has ended."""
    connection.settimeout(DEADLINE_S)
    data = b""
    while b"grpc-message" not in data:
        piece = connection.recv(4_096)
        assert piece
        data += piece
    return data


def export(port: int, key: str) -> SpanExportResult:
    """One span by the SDK for Python."""
    kept = InMemorySpanExporter()
    provider = TracerProvider(shutdown_on_exit=False)
    provider.add_span_processor(SimpleSpanProcessor(kept))
    provider.get_tracer("test").start_span("over gRPC").end()
    headers = {"x-legacy-auth": f"Legacy legacy_key={key}"}
    exporter = OTLPSpanExporter(f"http://127.0.0.1:{port}", insecure=True, headers=headers)
    try:
        return exporter.export(kept.get_finished_spans())
    finally:
        exporter.shutdown()


def state(port: int) -> bytes:
    """What the health service says, over a connection of its own."""
    with grpc.insecure_channel(f"127.0.0.1:{port}", [("grpc.use_local_subchannel_pool", 1)]) as channel:
        check: grpc.UnaryUnaryMultiCallable[bytes, bytes] = channel.unary_unary(HEALTH)
        return check(b"", timeout=DEADLINE_S, wait_for_ready=True)


def spans(up: Up) -> int:
    made = up.credentials()
    path = f"/orgs/{made['orgSlug']}/projects/{made['projectSlug']}/explore/spans?hours=1"
    return len(up.get(path, made["accessToken"])[1]["data"])


def test_up_announces_the_port_and_an_sdk_exports_to_it(start: Start, migrated: Path) -> None:
    up = start(SLUICE_GRPC_PORT="0")
    (port,) = map(int, re.findall(r"takes OTLP/gRPC on 127\.0\.0\.1:(\d+) and keeps its data in ", "".join(up.said)))
    assert port != 0
    assert export(port, up.credentials()["legacyKey"]) is SpanExportResult.SUCCESS
    wait_until(lambda: spans(up) == 1)
    assert up.stop() == 0
    assert f"export OTEL_EXPORTER_OTLP_ENDPOINT=http://127.0.0.1:{port} OTEL_EXPORTER_OTLP_PROTOCOL=grpc" in up.said[-1]


def test_without_a_port_nothing_says_grpc(start: Start, migrated: Path) -> None:
    up = start(SLUICE_GRPC_PORT="")
    assert up.stop() == 0
    assert "grpc" not in "".join(up.said).lower()


def test_in_up_a_port_in_use_is_a_warning_that_names_it(start: Start, migrated: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        up = start(SLUICE_GRPC_PORT=str(port))
        assert up.get("/readyz")[0] == 200
    assert "grpc" not in "".join(up.said).lower()
    log = up.log.read_text(encoding="utf-8")
    detail = f"Port {port} on 127.0.0.1 is in use. Stop the other program or choose another port with --grpc-port."
    assert f'"detail": "{detail}"' in log
    assert log.count('"OTLP/gRPC is off: its port cannot be bound"') == 1
    assert up.stop() == 0


def test_in_gateway_a_port_in_use_is_one_sentence(tmp_path: Path, migrated: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        done = sluice(
            *("gateway", "--data", tmp_path / "data", "--port", "0", "--grpc-port", str(port)),
            SLUICE_CLICKHOUSE_URL="http://127.0.0.1:1/telemetry",
        )
    assert refusal(done, 1) == (
        f"Port {port} on 127.0.0.1 is in use. Stop the other program or choose another port with --grpc-port."
    )


def test_the_port_of_a_running_gateway_is_in_use(start: Start, tmp_path: Path, migrated: Path) -> None:
    """Though gRPC shares its port with workers (SO_REUSEPORT)."""
    port = free_port()
    start(SLUICE_GRPC_PORT=str(port))
    done = sluice(
        *("gateway", "--data", tmp_path / "other", "--port", "0", "--grpc-port", str(port)),
        SLUICE_CLICKHOUSE_URL="http://127.0.0.1:1/telemetry",
    )
    assert refusal(done, 1).startswith(f"Port {port} on 127.0.0.1 is in use. ")


@pytest.mark.parametrize("value", ["-1", "65536", "grpc"])
def test_no_port_is_an_error(tmp_path: Path, value: str) -> None:
    done = sluice("up", "--data", tmp_path / "data", "--port", "0", SLUICE_GRPC_PORT=value)
    assert refusal(done, 2) == "Invalid setting: SLUICE_GRPC_PORT: must be empty or a whole number, 0 to 65535."


def test_query_and_control_have_no_such_port(start: Start, migrated: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        control = start("control", SLUICE_GRPC_PORT=str(taken.getsockname()[1]))
        assert control.get("/livez")[0] == 200


def test_health_is_not_serving_before_the_port_closes(start: Start, migrated: Path) -> None:
    port = free_port()
    up = start(SLUICE_GRPC_PORT=str(port), SLUICE_DRAIN_DELAY_S="3")
    assert state(port) == SERVING
    up.process.send_signal(signal.SIGTERM)
    wait_until(lambda: state(port) == NOT_SERVING)
    assert export(port, up.credentials()["legacyKey"]) is SpanExportResult.SUCCESS
    assert up.stop() == 0
    with pytest.raises(OSError):
        socket.create_connection(("127.0.0.1", port), timeout=1).close()


def test_workers_share_the_port(start: Start, engine: Engine, tmp_path: Path) -> None:
    """Connections are spread over the workers, and each takes exports."""
    port = free_port()
    settings = {"SLUICE_CLICKHOUSE_URL": f"{engine.url}/grpc_workers", "SLUICE_GRPC_PORT": str(port), **FORKED_WORKERS}
    up = start("up", "--workers", "2", **settings)
    key = up.credentials()["legacyKey"]
    sent = 0

    def both() -> bool:
        nonlocal sent
        assert export(port, key) is SpanExportResult.SUCCESS
        sent += 1
        text = subprocess.run(
            ["curl", "-sf", f"{up.url}/metrics"], capture_output=True, text=True, check=True, timeout=DEADLINE_S
        ).stdout
        counted = re.findall(r'sluice_grpc_calls_total\{worker="(\d)",code="OK".*\} (\d+)', text)
        assert sum(int(count) for _, count in counted) == sent
        return len(counted) == 2

    wait_until(both)
    wait_until(lambda: spans(up) == sent)
    assert up.stop() == 0


def test_a_gateway_starts_with_grpc_on_from_its_command_line(start: Start, migrated: Path) -> None:
    port = free_port()
    up = start("up", "--grpc-port", str(port))
    assert state(port) == SERVING
    assert up.stop() == 0


def test_what_clients_send_makes_the_core_write_nothing(migrated: Path, tmp_path: Path) -> None:
    """In a process of its own, not a fork of one that has imported gRPC already, as the others here are."""
    port, http_port = free_port(), free_port()
    arguments = ("up", "--data", tmp_path / "data", "--port", str(http_port), "--grpc-port", str(port))
    with subprocess.Popen(
        command(*arguments), env=clean_environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            assert state(port) == SERVING
            with socket.create_connection(("127.0.0.1", port)) as connection:
                connection.sendall(UNKNOWN_ENCODING)
                assert b"Error parsing 'grpc-encoding' metadata" in received(connection)
        finally:
            process.send_signal(signal.SIGTERM)
        _, errors = process.communicate(timeout=DEADLINE_S)
    assert process.returncode == 0
    assert [line for line in errors.splitlines() if not line.startswith("{")] == []
