"""The product as its users meet it: `sluice up` as a process of its own, on a free port and an empty data directory."""

import json
import os
import signal
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")

START_SECONDS = 60
VISIBLE_SECONDS = 20
STOP_SECONDS = 30


class Answer(NamedTuple):
    """A whole HTTP answer."""

    status: int
    headers: dict[str, str]
    body: bytes

    def json(self) -> Any:
        return json.loads(self.body)


class Sluice(NamedTuple):
    """A running `sluice up` and what its first start wrote down."""

    base_url: str
    data: Path
    process: subprocess.Popen[bytes]
    org: str
    project: str
    project_id: str
    key: str
    token: str

    def get(self, path: str, token: str | None = None) -> Answer:
        """GET with the access token."""
        return call("GET", self.base_url + path, headers={"Authorization": f"Bearer {token or self.token}"})

    def export(self, signal_name: str, body: bytes, **headers: str) -> Answer:
        """POST an OTLP request with the project key."""
        given = {"X-Legacy-Auth": f"Legacy legacy_key={self.key}", "Content-Type": "application/x-protobuf"}
        given.update({name.replace("_", "-"): value for name, value in headers.items()})
        return call("POST", f"{self.base_url}/v1/{signal_name}", body, given)

    def explore(self, path: str) -> Any:
        """The JSON of an explore endpoint of the first project; None for what is not there (yet)."""
        answer = self.get(f"/orgs/{self.org}/projects/{self.project}/explore{path}")
        if answer.status == 404:
            return None
        if answer.status != 200:
            raise AssertionError(f"{path}: {answer.status} {answer.body!r}")
        return answer.json()


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


def free_port() -> int:
    """A port that nothing listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def start(data: Path, port: int, log: Path) -> subprocess.Popen[bytes]:
    """`sluice up` with nothing of this process's environment that names Sluice."""
    environment = {name: value for name, value in os.environ.items() if not name.startswith("SLUICE_")}
    with log.open("ab") as out:
        return subprocess.Popen(
            [sys.executable, "-m", "sluice", "up", "--data", str(data), "--port", str(port)],
            stdout=out,
            stderr=out,
            env=environment,
        )


def is_ready(base_url: str) -> bool:
    """Whether `/readyz` says so."""
    try:
        return call("GET", f"{base_url}/readyz").status == 200
    except OSError:
        return False


def stop(process: subprocess.Popen[bytes]) -> int:
    """End it as an operator does; the exit code."""
    if process.poll() is None:
        process.send_signal(signal.SIGTERM)
    try:
        return process.wait(STOP_SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait()
        raise


def running(data: Path, log: Path) -> Sluice:
    """Start it and read what it wrote down."""
    port = free_port()
    process = start(data, port, log)
    base_url = f"http://127.0.0.1:{port}"
    try:
        eventually(lambda: process.poll() is not None or is_ready(base_url), "readiness", START_SECONDS)
        if process.poll() is not None:
            raise AssertionError(f"it ended with {process.returncode}:\n{log.read_text()}")
    except BaseException:
        stop(process)
        raise
    bootstrap = json.loads((data / "bootstrap.json").read_text())
    return Sluice(
        base_url=base_url,
        data=data,
        process=process,
        org=bootstrap["orgSlug"],
        project=bootstrap["projectSlug"],
        project_id=bootstrap["projectId"],
        key=bootstrap["legacyKey"],
        token=bootstrap["accessToken"],
    )
