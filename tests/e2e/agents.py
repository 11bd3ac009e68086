"""Clients that are programs of their own: a Node process with the SDK for JavaScript, and Rotel and the Collector,
forwarding agents.
"""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib.metadata import distribution
from pathlib import Path
from typing import Any, NamedTuple

from tests.e2e.product import eventually, stop
from tests.ports import free_port
from tests.programs import packages, program

JAVASCRIPT = Path(__file__).parent / "javascript"
# Where `scripts/collector` builds it.
COLLECTOR = Path(os.environ.get("COLLECTOR") or Path(sys.prefix) / "collector")
CLIENT_SECONDS = 60  # a client gives up before that
OURS = ("SLUICE_", "OTEL_", "ROTEL_")


def key_header(key: str) -> dict[str, str]:
    """The header that carries a project key."""
    return {"X-Legacy-Auth": f"Legacy legacy_key={key}"}


def otel_environment(base_url: str, key: str, **more: str) -> dict[str, str]:
    """The standard variables that point an SDK at Sluice; the value of a header is percent-encoded in them."""
    return {
        "OTEL_EXPORTER_OTLP_ENDPOINT": base_url,
        "OTEL_EXPORTER_OTLP_HEADERS": f"x-legacy-auth=Legacy%20legacy_key%3D{key}",
        **more,
    }


def client_environment(**more: str) -> dict[str, str]:
    """This process's environment without what configures SDKs, agents or Sluice, and with what is given."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith(OURS)}
    return {**inherited, **more}


def node() -> str:
    """The program, beside its packages."""
    packages(JAVASCRIPT)
    return program("node")


class Node:
    """A running script."""

    def __init__(self, arguments: Sequence[str], environment: Mapping[str, str]) -> None:
        self.process = subprocess.Popen(
            [node(), *arguments],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env=client_environment(**environment),
        )

    def output(self) -> str:
        """What it printed, once it has ended well and without a word to stderr."""
        try:
            out, errors = self.process.communicate(timeout=CLIENT_SECONDS)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.communicate()
            raise
        assert (self.process.returncode, errors) == (0, "")
        return out


def export_javascript(
    encoding: str, crowd: int, *, options: Mapping[str, Any] | None = None, environment: Mapping[str, str] | None = None
) -> Node:
    """`export.mjs` under way; with `options` for its exporters, or with the variables of `environment` alone."""
    chosen = {"ENCODING": encoding, "CROWD": str(crowd)}
    if options is not None:
        chosen["EXPORTER_OPTIONS"] = json.dumps(options)
    return Node([str(JAVASCRIPT / "export.mjs")], {**chosen, **(environment or {})})


class Rotel(NamedTuple):
    """A running agent: OTLP in at `endpoint`; `log` is what it says."""

    endpoint: str
    log: Path


def rotel_executable() -> Path:
    """The program in the wheel."""
    return Path(str(distribution("rotel").locate_file("rotel/rotel-agent")))


@contextmanager
def rotel(directory: Path, options: Mapping[str, str]) -> Iterator[Rotel]:
    """Rotel with these options, listening on free loopback ports; ended as an operator ends it."""
    port = free_port()
    given = {
        "otlp-http-endpoint": f"127.0.0.1:{port}",
        "otlp-grpc-endpoint": f"127.0.0.1:{free_port()}",
        "log-format": "json",
        **options,
    }
    arguments = [word for name, value in given.items() for word in (f"--{name}", value)]
    log = directory / "rotel.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [rotel_executable(), "start", *arguments], stdout=out, stderr=out, cwd=directory, env=client_environment()
        )
    try:
        eventually(lambda: process.poll() is not None or listens(port), "Rotel listening")
        assert process.poll() is None, log.read_text()
        yield Rotel(f"http://127.0.0.1:{port}", log)
        assert process.poll() is None, log.read_text()
    finally:
        stop(process)


def forwarding(base_url: str, key: str, compression: str, protocol: str = "http") -> dict[str, str]:
    """Options that make Rotel forward to Sluice."""
    return {
        "exporter": "otlp",
        "otlp-exporter-protocol": protocol,
        "otlp-exporter-endpoint": base_url,
        "otlp-exporter-custom-headers": f"x-legacy-auth=Legacy legacy_key={key}",
        "otlp-exporter-compression": compression,
    }


class Collector(NamedTuple):
    """A running Collector: OTLP/gRPC in at `endpoint`; `log` is what it says."""

    endpoint: str
    log: Path


def has_collector() -> bool:
    """Whether `scripts/collector` has built it."""
    return (COLLECTOR / "otelcol").exists()


@contextmanager
def collector(
    directory: Path, exporter: Mapping[str, Any], receiver: Mapping[str, Any] | None = None, **environment: str
) -> Iterator[tuple[Collector, "subprocess.Popen[bytes]"]]:
    """A Collector with one exporter, by kind, and its process; ended as an operator ends it. `receiver`: protocols
    besides gRPC; `environment`: what the configuration takes from there.
    """
    port = free_port()
    (name,) = exporter
    pipeline = {"receivers": ["otlp"], "exporters": [name]}
    protocols = {"grpc": {"endpoint": f"127.0.0.1:{port}", "max_recv_msg_size_mib": 64}, **(receiver or {})}
    config = {
        "receivers": {"otlp": {"protocols": protocols}},
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
            [COLLECTOR / "otelcol", f"--config=file:{file}"],
            stdout=out,
            stderr=out,
            cwd=directory,
            env=client_environment(**environment),
        )
    try:
        eventually(lambda: process.poll() is not None or listens(port), "the Collector listening")
        assert process.poll() is None, log.read_text()
        yield Collector(f"http://127.0.0.1:{port}", log), process
    finally:
        stop(process)


def listens(port: int) -> bool:
    """Whether a connection to the port succeeds."""
    try:
        socket.create_connection(("127.0.0.1", port), timeout=1).close()
    except OSError:
        return False
    return True
