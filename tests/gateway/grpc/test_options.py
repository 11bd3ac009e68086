"""What the core is told, and a gateway without a port."""

import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from chassis.errors import StartupError
from chassis.runtime.settings import ChassisSettings
from gateway.grpc.connections import CoreSocket, peer_address, server_options
from gateway.grpc.service import GrpcCall, message_encoding
from gateway.settings import GatewaySettings
from tests.gateway.otlp import log, logs, span, traces

ROOT = Path(__file__).parents[3]


def test_limits_of_the_settings_are_those_of_the_core() -> None:
    chassis = ChassisSettings(keepalive_timeout_s=12.5, header_timeout_s=3.0)
    options = server_options(chassis, GatewaySettings(max_wire_bytes=1_000))
    assert {name.removeprefix("grpc."): value for name, value in options} == {
        "per_message_decompression": 0,
        "compression_enabled_algorithms_bitset": 0b101,
        "max_receive_message_length": 1_000,
        "max_metadata_size": 16_384,
        "absolute_max_metadata_size": 16_384,
        "max_concurrent_streams": 100,
        "server.max_pending_requests": 4_096,
        "server.max_pending_requests_hard_limit": 4_096,
        "http2.lookahead_bytes": 32_768,
        "http2.bdp_probe": 0,
        "experimental.tcp_read_chunk_size": 16_384,
        "experimental.tcp_max_read_chunk_size": 16_384,
        "server_handshake_timeout_ms": 3_000,
        "http2.settings_timeout": 3_000,
        "max_connection_idle_ms": 12_500,
        "keepalive_time_ms": 60_000,
        "keepalive_timeout_ms": 20_000,
        "keepalive_permit_without_calls": 1,
        "http2.min_ping_interval_without_data_ms": 10_000,
        "http2.max_ping_strikes": 2,
    }


@pytest.mark.parametrize(
    ("peer", "address"),
    [
        ("unix-abstract:sluice-grpc/0123456789abcdef/127.0.0.1", "127.0.0.1"),
        ("unix-abstract:sluice-grpc/0123456789abcdef/2001:db8::7", "2001:db8::7"),
        ("unix-abstract:sluice-grpc/0123456789abcdef/fe80::1%25eth0", "fe80::1%eth0"),
        ("unix-abstract:another", ""),
        ("ipv4:127.0.0.1:50000", ""),
        ("unix:/run/x", ""),
        ("", ""),
    ],
)
def test_the_address_of_a_peer(peer: str, address: str) -> None:
    assert peer_address(peer) == address


def test_metadata_is_read_without_regard_to_case_and_binary_metadata_is_ignored() -> None:
    call = GrpcCall(
        "unix-abstract:sluice-grpc/0/10.0.0.1",
        [("x-request-id", "mine"), ("x-forwarded-for", "1.2.3.4"), ("x-bin", b"\xff")],
    )
    assert (call.remote, call.request_id, call.headers.getall("X-Forwarded-For"), "x-bin" in call.headers) == (
        "10.0.0.1",
        "mine",
        ["1.2.3.4"],
        False,
    )


@pytest.mark.parametrize(
    "message", [b"", traces(), traces(span()), logs(log())], ids=["empty", "resource", "span", "log"]
)
def test_no_export_request_is_taken_for_gzip(message: bytes) -> None:
    assert message_encoding(message) == "identity"


CODE = """
import asyncio, sys
from pathlib import Path
from chassis.db.database import Database
from chassis.runtime.settings import ChassisSettings
from chassis.runtime.telemetry import Telemetry
from gateway.app import service
from gateway.settings import GatewaySettings

for port in (None, 4317):
    stores = {"database": Database("sqlite:///x.db"), "project_keys": object()}
    service(ChassisSettings(grpc_port=port), GatewaySettings(), None, Telemetry("t"), **stores)
    print("grpc" in sys.modules)
"""


def test_without_a_port_grpc_is_not_imported() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False, cwd=ROOT)
    assert (done.stdout.split(), done.stderr) == (["False", "True"], "")


def test_without_a_writable_directory_one_sentence_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "none"))
    with pytest.raises(StartupError, match="OTLP/gRPC needs a writable temporary directory"):
        CoreSocket()
