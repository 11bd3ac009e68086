"""An OpenTelemetry Collector between an SDK and Sluice: gRPC in; gRPC and HTTP out, in each compression that we take.

`scripts/collector` builds it (tests/e2e/agents.py).
"""

from pathlib import Path
from typing import Any

import msgspec
import pytest
from opentelemetry.exporter.otlp.proto.grpc._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.grpc.trace_exporter import OTLPSpanExporter

from tests.e2e.agents import Collector, collector, key_header
from tests.e2e.product import DEPLOYMENTS, Sluice, eventually
from tests.e2e.reading import logs_of, spans_of
from tests.e2e.test_client_grpc import CROWD, make
from tests.e2e.test_client_page import example

pytestmark = [pytest.mark.long, pytest.mark.parametrize("deploy", DEPLOYMENTS[:1], indirect=True)]

GRPC = ("none", "gzip")
HTTP = ("none", "gzip", "zstd", "zlib", "deflate")


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
    with collector(tmp_path, over_grpc(sluice, sluice.key, compression)) as (agent, _):
        comes_back(sluice, agent)


@pytest.mark.parametrize("compression", HTTP)
def test_over_http(sluice: Sluice, tmp_path: Path, compression: str) -> None:
    options = {"endpoint": sluice.base_url, "headers": key_header(sluice.key), "compression": compression}
    with collector(tmp_path, {"otlp_http": options}) as (agent, _):
        comes_back(sluice, agent)


@pytest.mark.parametrize("kind", ["otlp_http", "otlp_grpc"])
def test_the_exporters_of_the_page(sluice: Sluice, tmp_path: Path, kind: str) -> None:
    """As docs/clients.md has them, with the key from the environment; the address is that of the test."""
    whole = msgspec.yaml.decode(example("receivers:\n"))["exporters"] | msgspec.yaml.decode(example("otlp_grpc:\n"))
    address = sluice.base_url if kind == "otlp_http" else sluice.grpc_url.removeprefix("http://")
    with collector(tmp_path, {kind: whole[kind] | {"endpoint": address}}, OTEL_PROJECT_KEY=sluice.key) as (agent, _):
        comes_back(sluice, agent)


@pytest.mark.parametrize(
    ("key", "compression", "said"),
    [("0" * 32, "gzip", "The project key is not valid."), ("", "zstd", "grpc-encoding")],
)
def test_a_refusal_is_not_tried_again(sluice: Sluice, tmp_path: Path, key: str, compression: str, said: str) -> None:
    with collector(tmp_path, over_grpc(sluice, key or sluice.key, compression)) as (agent, _):
        make(OTLPSpanExporter(agent.endpoint), OTLPLogExporter(agent.endpoint))
        eventually(lambda: "not retryable error" in agent.log.read_text(), "what it says of the refusal")
        assert said in agent.log.read_text()
