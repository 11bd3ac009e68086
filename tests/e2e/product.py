"""The product as its users meet it: the command in processes of their own, on free ports and empty data directories.

`running` is `sluice up`; `running_apart` is gateway, query and control over a ClickHouse server.
"""

import json
import os
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any, NamedTuple, TypeVar

from tests.forks import Command
from tests.ports import free_port

T = TypeVar("T")
Process = subprocess.Popen[bytes] | Command

START_SECONDS = 60
VISIBLE_SECONDS = 20
STOP_SECONDS = 30
APART = ("gateway", "query", "control")
DEPLOYMENTS = ("embedded-sqlite", "embedded-postgresql", "apart-postgresql", "apart-sqlite")  # where everything is


class Answer(NamedTuple):
    """A whole HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


@dataclass
class Service:
    """A command that serves, and the process that does so at the moment. Port, data and log outlive the process."""

    command: str
    data: Path
    log: Path
    environment: Mapping[str, str] = field(default_factory=dict)
    options: Sequence[str] = ()
    port: int = 0  # any, which it then keeps
    begun: Callable[[int], None] | None = None  # is told of its process at once
    process: Process | None = None

    def __post_init__(self) -> None:
        self.port = self.port or free_port()
        self.may_be_forked = self.begun is None

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def begin(self) -> None:
        """Start it and do not wait."""
        with self.log.open("ab") as out:
            arguments = ("--data", str(self.data), "--port", str(self.port), *self.options)
            environment = clean_environment(self.environment)
            if self.may_be_forked and "PYTEST_VERSION" in os.environ and "LD_PRELOAD" not in environment:
                self.process = Command([self.command, *arguments], environment, stdout=out, stderr=out)
                self.may_be_forked = False  # started again it has another seed of hashes, as it would elsewhere
            else:  # benchmarks measure whole starts; what is preloaded, or counted as it starts, wants one
                self.may_be_forked = self.begun is None  # the next one has another seed than this one
                whole = [sys.executable, "-m", "sluice", self.command, *arguments]
                self.process = subprocess.Popen(whole, stdout=out, stderr=out, env=environment)
        if self.begun is not None:
            self.begun(self.process.pid)

    def start(self) -> None:
        """Start it and wait until it is ready."""
        self.begin()
        self.wait_until_ready()

    def wait_until_ready(self) -> None:
        """Wait for `/readyz`; one that ends instead says why."""
        self._wait_until(is_ready)

    def wait_until_alive(self) -> None:
        """The same for `/livez`."""
        self._wait_until(is_alive)

    def _wait_until(self, so: Callable[[str], bool]) -> None:
        try:
            eventually(lambda: self.ended() or so(self.url), f"{self.command} {so.__name__}", START_SECONDS)
            if self.ended():
                raise AssertionError(f"{self.command} ended:\n{self.log.read_text()}")
        except BaseException:
            self.kill()
            raise

    def ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def stop(self) -> None:
        """End it as an operator does; it ends well."""
        if self.process is not None:
            process, self.process = self.process, None
            code = stop(process)
            if code != 0:  # no assert: outside test files they are gone under -O
                raise AssertionError(f"{self.command} ended with {code}:\n{self.log.read_text()}")

    def kill(self) -> None:
        """End it without a word, its workers with it."""
        process, self.process = self.process, None
        if process is not None and process.poll() is None:
            workers = _children(process.pid)
            process.kill()
            for worker in workers:
                try:
                    os.kill(worker, signal.SIGKILL)
                except ProcessLookupError:
                    pass  # it ended by itself
            process.wait()


@dataclass
class Sluice:
    """A running deployment, and what its set-up wrote down. `base_url` is where exporters send."""

    services: dict[str, Service]
    data: Path
    org: str
    project: str
    project_id: str
    key: str
    token: str

    @property
    def base_url(self) -> str:
        return self.gateway_url

    @property
    def gateway_url(self) -> str:
        return self._of("gateway").url

    @property
    def grpc_url(self) -> str:
        """Where exporters send over gRPC, if the settings have a port for it."""
        return f"http://127.0.0.1:{self.writer.environment['SLUICE_GRPC_PORT']}"

    @property
    def query_url(self) -> str:
        return self._of("query").url

    @property
    def control_url(self) -> str:
        return self._of("control").url

    def get(self, path: str, token: str | None = None) -> Answer:
        """GET with the access token."""
        return call("GET", self.url_of(path) + path, headers={"Authorization": f"Bearer {token or self.token}"})

    def export(self, signal_name: str, body: bytes, **headers: str) -> Answer:
        """POST an OTLP request with the project key."""
        given = {"X-Legacy-Auth": f"Legacy legacy_key={self.key}", "Content-Type": "application/x-protobuf"}
        given.update({name.replace("_", "-"): value for name, value in headers.items()})
        return call("POST", f"{self.gateway_url}/v1/{signal_name}", body, given)

    def explore(self, path: str) -> Any:
        """The JSON of an explore endpoint of the first project; None for what is not there (yet)."""
        answer = self.get(f"/orgs/{self.org}/projects/{self.project}/explore{path}")
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise AssertionError(f"{path}: {answer.status} {answer.body!r}")
        return answer.json()

    def url_of(self, path: str) -> str:
        """Where a proxy in front of the services would send the path."""
        if path.startswith("/v1/"):
            return self.gateway_url
        return self.query_url if "/explore/" in path else self.control_url

    def stop(self) -> None:
        """End every process; each ends well."""
        for service in self.services.values():
            service.stop()

    def kill(self) -> None:
        """End every process without a word."""
        for service in self.services.values():
            service.kill()

    def start(self) -> None:
        """Start what does not run, all at once."""
        away = [service for service in self.services.values() if service.process is None]
        for service in away:
            service.begin()
        for service in away:
            service.wait_until_ready()

    @property
    def writer(self) -> Service:
        """The process that takes exports."""
        return self._of("gateway")

    def _of(self, name: str) -> Service:
        return self.services.get(name) or self.services["up"]


def call(method: str, url: str, body: bytes | None = None, headers: dict[str, str] | None = None) -> Answer:
    """One request; an error status is an answer like another."""
    request = urllib.request.Request(url, data=body, headers=headers or {}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=30) as response:
            return Answer(response.status, dict(response.headers), response.read())
    except urllib.error.HTTPError as error:
        with error:
            return Answer(error.code, dict(error.headers), error.read())


def eventually(probe: Callable[[], T], what: str, seconds: float = VISIBLE_SECONDS) -> T:
    """What `probe` gives as soon as it is truthy."""
    deadline = time.monotonic() + seconds
    while True:
        value = probe()
        if value:
            return value
        if time.monotonic() > deadline:
            raise AssertionError(f"not within {seconds} s: {what}; last seen {value!r}")
        time.sleep(0.02)


def clean_environment(settings: Mapping[str, str]) -> dict[str, str]:
    """This process's environment with nothing that names Sluice but `settings`. Without them OTLP/gRPC is off: many
    gateways run at once, and its port is none that each chooses for itself.
    """
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    return {**inherited, "SLUICE_GRPC_PORT": "", **settings}


def is_ready(base_url: str) -> bool:
    """Whether `/readyz` says so."""
    return _is_well(f"{base_url}/readyz")


def is_alive(base_url: str) -> bool:
    """Whether `/livez` says so."""
    return _is_well(f"{base_url}/livez")


def _is_well(url: str) -> bool:
    try:
        return call("GET", url).status == 200
    except OSError:
        return False


def stop(process: Process) -> int:
    """End it as an operator does; the exit code."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        return process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise


def running(data: Path, log: Path, **settings: str) -> Sluice:
    """`sluice up`, started, with what its first start wrote down."""
    return started(Service("up", data, log, settings), data)


def started(service: Service, data: Path) -> Sluice:
    """The same of a service that its caller has made."""
    service.start()
    return _read({"up": service}, data, data / "bootstrap.json")


def running_apart(directory: Path, clickhouse_url: str, database_url: str, **settings: str) -> Sluice:
    """Gateway, query and control, set up by `migrate` and `init`, each with a data directory of its own."""
    sluice = set_up_apart(directory, clickhouse_url, database_url, **settings)
    try:
        sluice.start()
    except BaseException:
        sluice.kill()
        raise
    return sluice


def set_up_apart(directory: Path, clickhouse_url: str, database_url: str, **settings: str) -> Sluice:
    """The same, not started."""
    environment = {
        "SLUICE_CLICKHOUSE_URL": clickhouse_url,
        "SLUICE_DATABASE_URL": database_url,
        "SLUICE_QUERY_CURSOR_KEY": "the same on every machine",
        "SLUICE_CONTROL_CURSOR_KEY": "the same on every machine",
        **settings,
    }
    services = {name: Service(name, directory / name, directory / f"{name}.log", environment) for name in APART}
    operator, credentials = directory / "operator", directory / "credentials.json"
    run("migrate", "--data", str(operator), environment=environment)
    run("init", "--data", str(operator), "--json", "--out", str(credentials), environment=environment)
    return _read(services, directory, credentials)


def run(*arguments: str, environment: Mapping[str, str]) -> str:
    """A command that ends well; what it said. In a benchmark it is that of the tree in the working directory."""
    process: Process
    with TemporaryFile("w+", encoding="utf-8") as out, TemporaryFile("w+", encoding="utf-8") as errors:
        if "PYTEST_VERSION" in os.environ:
            process = Command(arguments, clean_environment(environment), stdout=out, stderr=errors)
        else:
            whole = [sys.executable, "-m", "sluice", *arguments]
            process = subprocess.Popen(whole, stdout=out, stderr=errors, env=clean_environment(environment))
        code = process.wait(START_SECONDS)
        for file in (out, errors):
            file.seek(0)
        if code != 0:
            raise AssertionError(errors.read())
        return out.read()


def _read(services: dict[str, Service], data: Path, file: Path) -> Sluice:
    written = json.loads(file.read_text())
    return Sluice(
        services=services,
        data=data,
        org=written["orgSlug"],
        project=written["projectSlug"],
        project_id=written["projectId"],
        key=written["legacyKey"],
        token=written["accessToken"],
    )


def _children(process: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{process}/task/{process}/children").read_text().split()]
