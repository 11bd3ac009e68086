"""What is measured, as processes: the gateway in one or more modes, and Rotel, in front of the same endpoint."""

import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Final, NamedTuple

import psutil  # type: ignore[import-untyped]  # it has no types

from benchmarks.gateway.bodies import Kind
from benchmarks.gateway.load import Target
from benchmarks.processes import cpu_s, pid_of
from benchmarks.report import Void
from proto.otlp.policy import Signal
from tests.e2e.agents import client_environment, collector, has_collector, rotel_executable
from tests.e2e.product import Service, eventually, set_up_apart, stop
from tests.ports import free_port

ROTEL: Final = "Rotel"
_ROTEL_PLAIN: Final = "Rotel, uncompressed"  # as Sluice sends to ClickHouse
_QUIET_S: Final = 3.0  # without an insert: what is derived from the items (two seconds behind them) has arrived as well
_ARRIVAL_S: Final = 60.0
_ROOT: Final = Path(__file__).parents[2]


class Rival(NamedTuple):
    """A running gateway. `tables` are where its items arrive; empty: it drops them."""

    name: str
    target: Target
    process: psutil.Process
    tables: Mapping[Signal, str]

    def over_grpc(self, port: int) -> "Rival":
        """The same process by its other port."""
        return self._replace(name=f"{self.name}, gRPC", target=self.target._replace(port=port, grpc=True))

    def takes(self, kind: Kind) -> bool:
        """JSON comes over HTTP only."""
        return not self.target.grpc or kind.encoding != "JSON"

    def cpu_s(self) -> float:
        """CPU of the process and of its workers so far."""
        return sum(cpu_s(one.pid) for one in (self.process, *self.process.children(recursive=True)))


class Endpoint:
    """The endpoint that counts."""

    def __init__(self, port: int) -> None:
        self.port = port

    def arrived(self) -> dict[str, Any]:
        """Its counts so far."""
        with urllib.request.urlopen(f"http://127.0.0.1:{self.port}/arrived", timeout=30) as answer:
            counts: dict[str, Any] = json.loads(answer.read())
        return counts

    def rows(self, table: str) -> int:
        """Rows of one table so far."""
        return int(self.arrived()["rows"].get(table, 0))

    def wait_until_arrived(self, rows: Mapping[str, int]) -> None:
        """Wait until the tables have got so many rows in all, and nothing else comes. Raises Void."""
        deadline = time.monotonic() + _ARRIVAL_S
        while True:
            arrived = self.arrived()
            missing = {table: wanted - arrived["rows"].get(table, 0) for table, wanted in rows.items()}
            if not any(missing.values()) and arrived["idle_s"] >= _QUIET_S:
                return
            if min(missing.values()) < 0 or time.monotonic() > deadline:
                raise Void(f"accepted items that have not arrived: {missing}")
            time.sleep(0.05)


@contextmanager
def endpoint(directory: Path) -> Iterator[Endpoint]:
    """Start it and end it."""
    with subprocess.Popen(
        [sys.executable, "-m", "benchmarks.gateway.sink", str(directory / "engine")],
        stdout=subprocess.PIPE,
        cwd=_ROOT,
    ) as process:
        assert process.stdout is not None
        try:
            yield Endpoint(int(process.stdout.readline()))
        finally:
            stop(process)


@contextmanager
def rivals(directory: Path, sink: Endpoint, modes: Sequence[str], settings: Mapping[str, str]) -> Iterator[list[Rival]]:
    """The gateway in each of the modes, Rotel with its exporter's compression and without, and a Collector that drops
    what it receives, if there is one; all of them started, and ended at the end.
    """
    with ExitStack() as stack:
        yield [
            *(
                rival
                for mode in modes
                for rival in stack.enter_context(_sluice(directory / mode, sink, mode, settings))
            ),
            *stack.enter_context(_rotel(directory, sink, ROTEL, "lz4")),
            *stack.enter_context(_rotel(directory, sink, _ROTEL_PLAIN, "none")),
            *(stack.enter_context(_collector(directory)) if has_collector() else ()),
        ]


@contextmanager
def _sluice(directory: Path, sink: Endpoint, mode: str, settings: Mapping[str, str]) -> Iterator[list[Rival]]:
    """The gateway in one mode, over HTTP and over gRPC."""
    directory.mkdir()
    grpc_port = free_port()
    sluice = set_up_apart(
        directory,
        f"http://127.0.0.1:{sink.port}/{mode}",
        f"sqlite:///{directory / 'shared.db'}",
        SLUICE_DURABILITY=mode,
        SLUICE_GRPC_PORT=str(grpc_port),
        **settings,
    )
    gateway: Service = sluice.services["gateway"]
    gateway.start()
    target = Target(gateway.port, sluice.key)
    try:
        rival = Rival(
            f"Sluice {mode}",
            target,
            psutil.Process(pid_of(gateway)),
            {"traces": f"{mode}.spans", "logs": f"{mode}.logs"},
        )
        yield [rival, rival.over_grpc(grpc_port)]
        gateway.stop()
    finally:
        gateway.kill()


@contextmanager
def _rotel(directory: Path, sink: Endpoint, name: str, compression: str) -> Iterator[list[Rival]]:
    """Rotel with its exporter to ClickHouse, batches of 8 192 items or a fifth of a second; by default it sends LZ4."""
    port, grpc_port = free_port(), free_port()
    options = {
        "otlp-http-endpoint": f"127.0.0.1:{port}",
        "otlp-grpc-endpoint": f"127.0.0.1:{grpc_port}",
        "exporter": "clickhouse",
        "clickhouse-exporter-endpoint": f"http://127.0.0.1:{sink.port}",
        "clickhouse-exporter-compression": compression,
    }
    arguments = [word for name, value in options.items() for word in (f"--{name}", value)]
    log = directory / f"rotel-{compression}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            [rotel_executable(), "start", *arguments], stdout=out, stderr=out, cwd=directory, env=client_environment()
        )
    try:
        eventually(lambda: process.poll() is not None or _listens(process.pid, port), "Rotel listening")
        assert process.poll() is None, log.read_text()
        tables: Mapping[Signal, str] = {"traces": "otel.otel_traces", "logs": "otel.otel_logs"}
        rival = Rival(name, Target(port, ""), psutil.Process(process.pid), tables)
        yield [rival, rival.over_grpc(grpc_port)]
        assert process.poll() is None, log.read_text()
    finally:
        stop(process)


@contextmanager
def _collector(directory: Path) -> Iterator[list[Rival]]:
    """A Collector that stores nothing: it has an exporter to ClickHouse in another distribution only."""
    http_port = free_port()
    receiver = {"http": {"endpoint": f"127.0.0.1:{http_port}"}}
    with collector(directory, {"nop": {}}, receiver) as (agent, process):
        rival = Rival("Collector, which drops all", Target(http_port, ""), psutil.Process(process.pid), {})
        yield [rival, rival.over_grpc(int(agent.endpoint.rpartition(":")[2]))]


def _listens(pid: int, port: int) -> bool:
    return any(each.laddr.port == port for each in psutil.Process(pid).net_connections() if each.status == "LISTEN")
