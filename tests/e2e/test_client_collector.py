"""An OpenTelemetry Collector between an SDK and Sluice: gRPC in; gRPC and HTTP out, in each compression that we take.

`scripts/collector` builds it in `.venv/collector`, or where the environment variable COLLECTOR says.
"""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

from tests.e2e.agents import client_environment, key_header, listens
from tests.e2e.product import DEPLOYMENTS, Sluice, eventually, stop
from tests.e2e.reading import logs_of, spans_of
from tests.e2e.test_client_grpc import CROWD, make
from tests.ports import free_port

pytestmark = [pytest.mark.long, pytest.mark.parametrize("deploy", DEPLOYMENTS[:1], indirect=True)]

HOME = Path(os.environ.get("COLLECTOR") or Path(sys.prefix) / "collector")
GRPC = ("none", "gzip")
HTTP = ("none", "gzip", "zstd", "zlib", "deflate")


class Collector(NamedTuple):
    """A running one: OTLP/gRPC in at `endpoint`; `log` is what it says."""

    endpoint: str
    log: Path


@contextmanager
def collector(directory: Path, exporter: Mapping[str, Any]) -> Iterator[Collector]:
    """A Collector with one exporter, by kind; ended as an operator ends it."""
    port = free_port()
    (name,) = exporter
    pipeline = {"receivers": ["otlp"], "exporters": [name]}
    config = {
        "receivers": {"otlp": {"protocols": {"grpc": {"endpoint": f"127.0.0.1:{port}"}}}},
        "exporters": exporter,
        "service": {
            "telemetry": {"metrics": {"level": "none"}},
            "pipelines": {"traces": pipeline, "logs": pipeline},
        },
    }
    file, log = directory / "collector.yaml", directory / "collector.log"
    file.write_text(json.dumps(config))  # which is YAML, too
    with log.open("wb") as out:
        process = subprocess.Popen(
            [HOME / "otelcol", f"--config=file:{file}"], stdout=out, stderr=out, cwd=directory, env=client_environment()
        )
    try:
        eventually(lambda: process.poll() is not None or listens(port), "the Collector listening")
        assert process.poll() is None, log.read_text()
        yield Collector(f"http://127.0.0.1:{port}", log)
    finally:
        stop(process)


def comes_back(sluice: Sluice, agent: Collector) -> None:
    """What the SDK sends to the agent is what explore shows."""
    held = make(OTLPSpanExporter(agent.endpoint), OTLPLogExporter(agent.endpoint))
    context = held[-1].get_span_context()
    assert context is not None
    trace_id = f"{context.trace_id:032x}"
    assert len(spans_of(sluice, trace_id, CROWD + 1)) == CROWD + 1
    assert sorted(row["body"] for row in logs_of(sluice, trace_id, CROWD)) == list(range(CROWD))
    complaints = [line for line in agent.log.read_text().splitlines() if "error" in line or "warn" in line]
    assert complaints == []


def over_grpc(sluice: Sluice, key: str, compression: str) -> dict[str, Any]:
    """An exporter."""
    address = sluice.grpc_url.removeprefix("http://")
    options = {"endpoint": address, "tls": {"insecure": True}, "headers": key_header(key), "compression": compression}
    return {"otlp_grpc": options}


@pytest.mark.parametrize("compression", GRPC)
def test_over_grpc(sluice: Sluice, tmp_path: Path, compression: str) -> None:
    with collector(tmp_path, over_grpc(sluice, sluice.key, compression)) as agent:
        comes_back(sluice, agent)


@pytest.mark.parametrize("compression", HTTP)
def test_over_http(sluice: Sluice, tmp_path: Path, compression: str) -> None:
    options = {"endpoint": sluice.base_url, "headers": key_header(sluice.key), "compression": compression}
    with collector(tmp_path, {"otlp_http": options}) as agent:
        comes_back(sluice, agent)


@pytest.mark.parametrize(
    ("key", "compression", "said"),
    [("0" * 32, "gzip", "The project key is not valid."), ("", "zstd", "grpc-encoding")],
)
def test_a_refusal_is_not_tried_again(sluice: Sluice, tmp_path: Path, key: str, compression: str, said: str) -> None:
    with collector(tmp_path, over_grpc(sluice, key or sluice.key, compression)) as agent:
        make(OTLPSpanExporter(agent.endpoint), OTLPLogExporter(agent.endpoint))
        eventually(lambda: "not retryable error" in agent.log.read_text(), "what it says of the refusal")
        assert said in agent.log.read_text()
