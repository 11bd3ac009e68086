"""deploy/compose by Docker Compose, from a fresh checkout: `make image`, `make compose` and the upgrade as
docs/deployment.md has them, with stand-ins for the images of others.
"""

import asyncio
import json
import re
import ssl
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from typing import Any, Final

import msgspec
import pytest

from tests.deploy.docker import Docker, check_out, override
from tests.deploy.load import Load, over_grpc, over_http
from tests.e2e.product import eventually

pytestmark = [pytest.mark.long, pytest.mark.timeout(2_400)]

HTTP: Final = 4318
GRPC: Final = 4317
ENOUGH: Final = 200  # exports of a protocol
DRAWN: Final = ("Sent and stored: 3 spans, 1 log record.", "POST /orders", "SELECT carts", "POST /charges")
PAGE: Final = "http://localhost:4318/ui/"
SERVICES: Final = {"gateway-1", "gateway-2", "query", "control", "caddy", "clickhouse", "postgres", "redis"}
TABLE: Final = "SELECT lower(hex(trace_id)) FROM spans FORMAT TabSeparated"


class Published:
    """Caddy of compose.yaml, as its clients see it."""

    def __init__(self, port: int) -> None:
        self.url = f"http://127.0.0.1:{port}"

    def tls(self) -> ssl.SSLContext | None:
        return None

    def authorities(self) -> bytes | None:
        return None


class Compose:
    """A checkout, and what an operator types in it."""

    def __init__(self, docker: Docker) -> None:
        self.docker = docker
        self.checkout = docker.directory / "sluice"
        self.folder = self.checkout / "deploy/compose"
        check_out(self.checkout)
        described: dict[str, Any] = msgspec.yaml.decode((self.folder / "compose.yaml").read_bytes())
        (self.folder / "compose.override.yaml").write_text(override(described["services"], (HTTP, GRPC)))

    def make(self, *arguments: str) -> str:
        return self.docker.run("make", *arguments, cwd=self.checkout)

    def __call__(self, *arguments: str) -> str:
        return self.docker.run("docker", "compose", *arguments, cwd=self.folder)

    def states(self) -> dict[str, str]:
        """Whether each service that runs is healthy."""
        listed = [json.loads(line) for line in self("ps", "--format", "json").splitlines()]
        return {service["Service"]: service["Health"] for service in listed}

    def container(self, service: str) -> str:
        return self("ps", "--quiet", service).strip()

    def credentials(self) -> dict[str, str]:
        written = self("run", "--rm", "--no-deps", "--entrypoint", "cat", "init", "credentials.json")
        found: dict[str, str] = json.loads(written)
        return found

    def stored(self) -> Counter[bytes]:
        """How often each span is stored."""
        password = re.findall(r"^CLICKHOUSE_QUERY_PASSWORD=(.+)$", (self.folder / ".env").read_text(), re.MULTILINE)[0]
        named = {"User": "sluice_query", "Key": password, "Database": "sluice"}
        headers = [f"--header=X-ClickHouse-{name}: {value}" for name, value in named.items()]
        ask = ["wget", "--quiet", "--output-document=-", *headers, f"--post-data={TABLE}", "http://127.0.0.1:8123/"]
        return Counter(bytes.fromhex(line) for line in self("exec", "--no-TTY", "clickhouse", *ask).split())


@pytest.fixture(scope="module")
def compose() -> Iterator[Compose]:
    """A fresh checkout on a machine with Docker, and no more than the images of others."""
    with Docker() as docker:
        docker.import_bases()
        compose = Compose(docker)
        compose.make("image", "ENGINE=docker")
        docker.build_stand_ins()
        yield compose
        compose("down", "--volumes")


def test_compose_goes_from_nothing_to_a_trace(compose: Compose) -> None:
    said = compose.make("compose")
    assert [line for line in DRAWN if line not in said] == []
    assert f"{PAGE}default/default/trace/" in said
    assert compose.states() == dict.fromkeys(SERVICES, "healthy")


def test_the_page_answers(compose: Compose) -> None:
    asked = f"import urllib.request; print(urllib.request.urlopen('{PAGE}').read().decode())"
    assert "/ui/assets/" in compose.docker.inside(sys.executable, "-c", asked)
    assert compose("exec", "control", "sluice", "open", "--print").startswith(f"{PAGE}#code=")


def test_what_runs_stays_when_it_is_started_again(compose: Compose) -> None:
    before = {service: compose.container(service) for service in SERVICES}
    said = compose.docker.run("env", "IMAGE=sluice:latest", "./start", cwd=compose.folder)
    assert DRAWN[0] in said
    assert {service: compose.container(service) for service in SERVICES} == before


def _upgrade(compose: Compose, loads: list[Load]) -> None:
    """gateway-1, by the commands of the documentation, to another image of the same name."""
    eventually(lambda: all(len(load.acknowledged) >= ENOUGH for load in loads), "exports go by", 60)
    old, newer = compose.container("gateway-1"), compose.docker.directory / "newer"
    newer.mkdir()
    (newer / "Dockerfile").write_text("FROM sluice:latest\nLABEL newer=yes\n")
    compose.docker("build", "--tag", "sluice:latest", str(newer))
    compose("run", "--rm", "migrate")
    compose("up", "--detach", "--wait", "--no-deps", "gateway-1")
    assert compose.container("gateway-1") != old
    goal = [len(load.acknowledged) + ENOUGH for load in loads]
    eventually(lambda: all(len(load.acknowledged) >= n for load, n in zip(loads, goal, strict=True)), "more", 60)


async def test_a_gateway_is_upgraded_and_no_export_is_refused(compose: Compose) -> None:
    key = (await asyncio.to_thread(compose.credentials))["legacyKey"]
    http, grpc = Load(patient=False), Load(patient=False)
    over = threading.Event()

    def upgrade() -> None:
        try:
            _upgrade(compose, [http, grpc])
        finally:
            over.set()

    def wait() -> None:
        over.wait()

    async with asyncio.TaskGroup() as group:
        group.create_task(http.run(over_http(Published(compose.docker.forward(HTTP)), key), upgrade))
        group.create_task(grpc.run(over_grpc(Published(compose.docker.forward(GRPC)), key), wait))
    assert (Counter(http.failures), Counter(grpc.failures)) == (Counter(), Counter())
    sent = Counter([*http.acknowledged, *grpc.acknowledged])

    def stored() -> Counter[bytes]:
        return Counter({trace_id: number for trace_id, number in compose.stored().items() if trace_id in sent})

    await asyncio.to_thread(eventually, lambda: stored() >= sent, "all is stored", 60)
    assert await asyncio.to_thread(stored) == sent


def test_a_host_name_has_a_certificate(compose: Compose) -> None:
    """Of an authority that Caddy makes for `localhost`."""
    files = "compose.yaml:compose.tls.yaml:compose.override.yaml"
    with (compose.folder / ".env").open("a") as env:
        env.write(f"COMPOSE_FILE={files}\nPROXY_SITE=localhost\nSLUICE_PUBLIC_URL=https://localhost\n")
    compose("up", "--detach", "--wait")
    assert compose.states() == dict.fromkeys(SERVICES, "healthy")
    root = compose.docker.directory / "root.crt"
    root.write_text(compose("exec", "--no-TTY", "caddy", "cat", "/data/caddy/pki/authorities/local/root.crt"))
    asked = (
        "import ssl, urllib.request; trusted = ssl.create_default_context(cafile={!r});"
        "print(urllib.request.urlopen('https://localhost/ui/', context=trusted).read().decode())"
    )
    assert "/ui/assets/" in compose.docker.inside(sys.executable, "-c", asked.format(str(root)))
    assert compose("exec", "control", "sluice", "open", "--print").startswith("https://localhost/ui/#code=")
