"""The images: built twice they are the same, they hold what the locks name and no more than they must, and they serve a
trace, from a root that is read alone.
"""

import itertools
import json
import os
import re
import stat
import subprocess
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final, NamedTuple

import grpc
import pytest
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import (
    ExportTraceServiceRequest,
    ExportTraceServiceResponse,
)

from sluice import __version__
from tests.deploy.containers import ROOT, USER, Container, Store
from tests.deploy.proxies import TOOLS, Caddy
from tests.e2e.product import Sluice, call, eventually
from tests.engine.process import Engine
from tests.gateway.otlp import PROTOBUF, span, traces
from tests.ports import free_port
from tests.postgresql import PostgreSQL
from tests.redis_server import RedisServer

pytestmark = pytest.mark.long

TARGETS: Final = {"sluice": "image", "sluice-embedded": "run"}  # with the lock of each
LEAN_BYTES: Final = 450_000_000
EXPORT: Final = "/opentelemetry.proto.collector.trace.v1.TraceService/Export"
_numbers = itertools.count(1)


class Image(NamedTuple):
    """One that was built, and its files."""

    id: str
    again: str
    config: Mapping[str, Any]
    layer_bytes: int
    root: Path


@pytest.fixture(scope="session")
def images(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Image]]:
    """Each target, built twice."""
    store = Store(tmp_path_factory.mktemp("images"))
    try:
        store.copy_sources()
        store.import_bases()
        yield {target: _built(store, target) for target in TARGETS}
    finally:
        store.close()


def _built(store: Store, target: str) -> Image:
    one, again = (store.build(target, f"test{number}") for number in (1, 2))
    return Image(one, again, store.config(one), store.layer_bytes(one), store.mount(one))


@pytest.fixture(params=TARGETS)
def image(request: pytest.FixtureRequest, images: Mapping[str, Image]) -> Image:
    """Each of them."""
    return images[request.param]


def test_the_same_sources_make_the_same_image(image: Image) -> None:
    assert image.again == image.id


def test_the_image_without_an_engine_is_small(images: Mapping[str, Image]) -> None:
    assert images["sluice"].layer_bytes <= LEAN_BYTES


def test_the_configuration_is_what_an_operator_counts_on(image: Image) -> None:
    config = image.config["config"]
    assert config["User"] == f"{USER}:{USER}"
    assert config["Entrypoint"] == ["sluice"]
    assert config["Volumes"] == {"/var/lib/sluice": {}}
    assert config["StopSignal"] == "SIGTERM"
    assert config["Healthcheck"]["Test"] == ["CMD", "sluice-health"]
    assert set(config["ExposedPorts"]) == {f"{port}/tcp" for port in (4317, 4318, 4319, 4320)}
    assert config["Labels"]["org.opencontainers.image.version"] == __version__
    assert not config.get("Hostname")
    assert not image.config.get("container")


def test_nothing_is_in_it_that_only_a_build_needs(image: Image) -> None:
    tools = {"cc", "gcc", "g++", "c++", "as", "ld", "make", "cython", "pip", "pip3", "curl", "wget"}
    folders = ("usr/bin", "usr/local/bin", "bin", "usr/sbin", "opt/sluice/bin")
    found = {path.name for folder in folders for path in (image.root / folder).glob("*")}
    assert found & tools == set()
    assert list(image.root.glob("root/.cache/*")) == []
    assert not (image.root / "src").exists()
    assert not (image.root / "build").exists()
    assert list((image.root / "opt/sluice").rglob("kernel/*.cpp")) == []


def test_what_runs_cannot_change_what_runs(image: Image) -> None:
    for path in (image.root / "opt/sluice").rglob("*"):
        found = path.lstat()
        assert (found.st_uid, found.st_gid) == (0, 0), path
        if not stat.S_ISLNK(found.st_mode):
            assert not found.st_mode & 0o6022, path
    data = (image.root / "var/lib/sluice").stat()
    assert (data.st_uid, data.st_gid, stat.S_IMODE(data.st_mode)) == (USER, USER, 0o700)


def pins(lock: str) -> dict[str, str]:
    text = (ROOT / f"requirements/{lock}.lock").read_text("utf-8")
    return dict(re.findall(r"^([a-z0-9.-]+)==([^ ]+) ", text, re.MULTILINE))


@pytest.mark.parametrize("target", TARGETS)
def test_the_list_of_parts_is_that_of_the_lock(target: str, images: Mapping[str, Image]) -> None:
    sbom = json.loads((images[target].root / "opt/sluice/share/sluice/sbom.cdx.json").read_bytes())
    assert (sbom["bomFormat"], sbom["metadata"]["component"]["name"]) == ("CycloneDX", "sluice")
    found = {normal(component["name"]): component["version"] for component in sbom["components"]}
    assert found == pins(TARGETS[target])
    assert all(component["purl"].startswith("pkg:pypi/") for component in sbom["components"])
    names = {normal(path.name.split("-")[0]) for path in _distributions(images[target])}
    assert names == found.keys() | {"sluice"}


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def _distributions(image: Image) -> list[Path]:
    return list((image.root / "opt/sluice").glob("lib/python3*/site-packages/*.dist-info"))


class Running(NamedTuple):
    """Where a deployment of containers takes exports, and what its set-up wrote down."""

    sluice: Sluice
    grpc: str

    def export(self, protocol: str) -> str:
        """A span over HTTP or gRPC; its trace."""
        trace_id = os.urandom(16)
        body = traces(span(trace_id=trace_id))
        if protocol == "http":
            key = f"Legacy legacy_key={self.sluice.key}"
            headers = {"X-Legacy-Auth": key, "Content-Type": PROTOBUF}
            answer = call("POST", f"{self.sluice.gateway_url}/v1/traces", body, headers)
            assert (answer.status, answer.body) == (200, b"")
        else:
            self._call(ExportTraceServiceRequest.FromString(body))
        return trace_id.hex()

    def _call(self, request: ExportTraceServiceRequest) -> None:
        with grpc.insecure_channel(self.grpc) as channel:
            export: grpc.UnaryUnaryMultiCallable[ExportTraceServiceRequest, ExportTraceServiceResponse]
            export = channel.unary_unary(
                EXPORT,
                request_serializer=ExportTraceServiceRequest.SerializeToString,
                response_deserializer=ExportTraceServiceResponse.FromString,
            )
            answer = export(request, metadata=(("x-legacy-auth", f"Legacy legacy_key={self.sluice.key}"),), timeout=30)
        assert answer == ExportTraceServiceResponse()


PROTOCOLS: Final = ("http", "grpc")


def environment(image: Image, settings: Mapping[str, str]) -> dict[str, str]:
    """That of the image, with settings of a container."""
    return {**dict(line.split("=", 1) for line in image.config["config"]["Env"]), **settings}


def read_back(sluice: Sluice, trace_id: str) -> Any:
    return eventually(lambda: sluice.explore(f"/traces/{trace_id}/waterfall"), "the trace is stored", 60)


@pytest.fixture
def embedded(images: Mapping[str, Image], tmp_path: Path) -> Iterator[Running]:
    """`sluice up` in the image that has the engine."""
    image, port, grpc_port = images["sluice-embedded"], free_port(), free_port()
    settings = {"SLUICE_HOST": "127.0.0.1", "SLUICE_PORT": str(port), "SLUICE_GRPC_PORT": str(grpc_port)}
    command = [*image.config["config"]["Entrypoint"], *image.config["config"]["Cmd"]]
    container = Container("up", image.root, tmp_path, tmp_path / "data", command, environment(image, settings))
    container.start()
    try:
        container.wait_until_healthy()
        url = f"http://127.0.0.1:{port}"
        eventually(lambda: call("GET", f"{url}/readyz").status == 200, "it is ready", 60)
        yield Running(reached(url, tmp_path / "data/bootstrap.json"), f"127.0.0.1:{grpc_port}")
    finally:
        code = container.stop()
    assert code == 0, container.log.read_text()


class Reached(Sluice):
    """A deployment behind one address, whoever runs it."""

    url = ""

    @property
    def gateway_url(self) -> str:
        return self.url

    @property
    def query_url(self) -> str:
        return self.url

    @property
    def control_url(self) -> str:
        return self.url


def reached(url: str, credentials: Path) -> Sluice:
    written = json.loads(credentials.read_text())
    sluice = Reached(
        services={},
        data=credentials.parent,
        org=written["orgSlug"],
        project=written["projectSlug"],
        project_id=written["projectId"],
        key=written["legacyKey"],
        token=written["accessToken"],
    )
    sluice.url = url
    return sluice


@pytest.mark.parametrize("protocol", PROTOCOLS)
def test_sluice_up_serves_a_trace(embedded: Running, protocol: str) -> None:
    trace_id = embedded.export(protocol)
    assert read_back(embedded.sluice, trace_id)["spanCount"] == 1


def compose_services(tmp_path: Path) -> dict[str, Any]:
    """compose.yaml, as Docker Compose understands it."""
    values = tmp_path / "values.env"
    example = (ROOT / "deploy/compose/.env.example").read_text("utf-8")
    values.write_text(re.sub(r"^(\w+)=$", r"\1=x", example, flags=re.MULTILINE))
    command = [str(TOOLS / "bin/docker-compose"), "--env-file", str(values), "--profile", "send"]
    command += ["--file", str(ROOT / "deploy/compose/compose.yaml"), "config", "--format", "json"]
    services: dict[str, Any] = json.loads(subprocess.run(command, capture_output=True, check=True).stdout)["services"]
    return services


class Compose:
    """The services of compose.yaml that are Sluice's, from the image, each with its command and settings. The servers
    are those of the tests, and all share the addresses of this machine.
    """

    def __init__(self, image: Image, directory: Path, stores: Mapping[str, str]) -> None:
        self._image = image
        self._directory = directory
        self._stores = stores
        self._services = compose_services(directory)
        self._running: list[Container] = []
        self.ports = {name: free_port() for name in ("gateway", "grpc", "query", "control")}

    def container(self, name: str, *more: str) -> Container:
        service = self._services[name]
        assert (service["read_only"], service["cap_drop"]) == (True, ["ALL"])
        assert service["security_opt"] == ["no-new-privileges:true"]
        given = {key: value.replace("$$", "$") for key, value in (service.get("environment") or {}).items()}
        given |= {key: url for key, url in self._stores.items() if key in given}
        given |= {"SLUICE_HOST": "127.0.0.2" if name == "gateway-2" else "127.0.0.1"}
        given |= {"SLUICE_TRUSTED_PROXIES": "127.0.0.1"}
        role = name.partition("-")[0]
        if role in self.ports:
            given |= {"SLUICE_PORT": str(self.ports[role]), "SLUICE_DRAIN_DELAY_S": "0"}
        if role == "gateway":
            given |= {"SLUICE_GRPC_PORT": str(self.ports["grpc"])}
        command = [*(service.get("entrypoint") or self._image.config["config"]["Entrypoint"])]
        command += [*(service.get("command") or ()), *more]
        (volume,) = service.get("volumes") or [{"source": name}]
        path = self._directory / volume["source"]
        return Container(name, self._image.root, self._directory, path, command, environment(self._image, given))

    def start(self, *names: str) -> None:
        for name in names:
            container = self.container(name)
            container.start()
            self._running.append(container)
        for container in self._running:
            container.wait_until_healthy()

    def stop(self) -> dict[str, int]:
        """Exit codes."""
        return {container.name: container.stop() for container in self._running}


@pytest.fixture
def composed(
    images: Mapping[str, Image], engine: Engine, postgresql: PostgreSQL, redis_server: RedisServer, tmp_path: Path
) -> Iterator[tuple[Compose, Running]]:
    """Migrated, initialized, running behind Caddy."""
    stores = {
        "SLUICE_CLICKHOUSE_URL": f"{engine.url}/composed_{next(_numbers)}",
        "SLUICE_DATABASE_URL": postgresql.new_database(),
        "SLUICE_REDIS_URL": redis_server.url,
    }
    compose = Compose(images["sluice"], tmp_path, stores)
    compose.container("migrate").run()
    compose.container("init").run()
    try:
        compose.start("gateway-1", "gateway-2", "query", "control")
        ports = compose.ports
        pools = {
            "gateway": [f"127.0.0.1:{ports['gateway']}", f"127.0.0.2:{ports['gateway']}"],
            "grpc": [f"127.0.0.1:{ports['grpc']}", f"127.0.0.2:{ports['grpc']}"],
            "query": [f"127.0.0.1:{ports['query']}"],
            "control": [f"127.0.0.1:{ports['control']}"],
        }
        with Caddy(tmp_path, pools) as caddy:
            sluice = reached(caddy.url, tmp_path / "operator/credentials.json")
            yield compose, Running(sluice, caddy.url.removeprefix("http://"))
    finally:
        codes = compose.stop()
    assert set(codes.values()) == {0}, codes


def test_the_services_of_compose_serve_a_trace_behind_caddy(composed: tuple[Compose, Running]) -> None:
    compose, running = composed
    address = running.sluice.base_url
    said = compose.container("send", "--url", address, "--query-url", address).run()
    assert said.startswith("Sent and stored: 3 spans, 1 log record.")
    found = [read_back(running.sluice, running.export(protocol))["spanCount"] for protocol in PROTOCOLS]
    assert found == [1] * len(PROTOCOLS)
    projects = running.sluice.get(f"/orgs/{running.sluice.org}/projects").json()["data"]
    assert [project["slug"] for project in projects] == [running.sluice.project]


def test_the_image_without_an_engine_says_what_it_lacks(images: Mapping[str, Image], tmp_path: Path) -> None:
    image = images["sluice"]
    container = Container("lean", image.root, tmp_path, tmp_path / "data", ["sluice", "up"], environment(image, {}))
    with pytest.raises(AssertionError, match=r"`sluice up` needs a package that is not installed \(chdb\)"):
        container.run()


def test_sinks_have_their_writer_in_both_images(image: Image, tmp_path: Path) -> None:
    code = "import pyarrow.compute, pyarrow.parquet, control.app, gateway.app, query.app, proto.otlp.kernel"
    command = ["python", "-c", code]
    assert Container("imports", image.root, tmp_path, tmp_path / "data", command, environment(image, {})).run() == ""
