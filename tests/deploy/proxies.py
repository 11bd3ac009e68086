"""Caddy, Envoy and nginx as deploy/proxy configures them, in front of servers of a test: addresses and paths are
replaced, no more. `make test` has nginx, `make test-long` the others as well (`scripts/deploy-tools`).
"""

import os
import re
import ssl
import subprocess
import sys
import urllib.request
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Final, Self

import msgspec

from tests.certificates import self_signed
from tests.e2e.product import eventually
from tests.ports import free_port
from tests.programs import program

ROOT: Final = Path(__file__).parents[2]
FOLDER: Final = ROOT / "deploy/proxy"
TOOLS: Final = Path(os.environ.get("DEPLOY_TOOLS") or Path(sys.prefix) / "deploy-tools")
# What the configurations name: pool, and its ports on loopback as they are written there.
POOLS: Final[Mapping[str, Sequence[str]]] = {
    "gateway": ("127.0.0.1:4318", "127.0.0.2:4318"),
    "grpc": ("127.0.0.1:4317", "127.0.0.2:4317"),
    "query": ("127.0.0.1:4319",),
    "control": ("127.0.0.1:4320",),
}
CLUSTERS: Final = {
    "gateway": "gateways",
    "grpc": "gateways_grpc",
    "query": "queries",
    "control": "controls",
}  # of Envoy
STOP_S: Final = 60.0


def tool(name: str) -> str:
    """A program of scripts/deploy-tools."""
    found = TOOLS / "bin" / name
    if not found.exists():
        raise AssertionError(f"{found} is missing; `make test-long` and scripts/deploy-tools make it")
    return str(found)


class Proxy(ABC):
    """A proxy on a free port. `pools`: the addresses of each pool; those that are missing lead nowhere."""

    limits_bodies = True

    def __init__(self, directory: Path, pools: Mapping[str, Sequence[str]]) -> None:
        self._directory = directory
        nowhere = f"127.0.0.1:{free_port()}"
        self._pools = {name: pools.get(name) or [nowhere] for name in POOLS}
        self._log = directory / "proxy.log"
        self._process: subprocess.Popen[bytes] | None = None
        self.port = free_port()

    @property
    @abstractmethod
    def url(self) -> str:
        """Where it listens."""

    @abstractmethod
    def _command(self) -> tuple[list[str], dict[str, str]]:
        """What starts it, and its settings in the environment."""

    def tls(self) -> ssl.SSLContext | None:
        """What a client trusts; None for one without TLS."""
        return None

    def authorities(self) -> bytes | None:
        """The same as PEM."""
        return None

    def __enter__(self) -> Self:
        command, environment = self._command()
        with self._log.open("ab") as out:
            self._process = subprocess.Popen(command, stdout=out, stderr=out, env=os.environ | environment)
        try:
            eventually(lambda: self._ended() or self._answers(), "the proxy answers", STOP_S)
            if self._ended():
                raise AssertionError(self._log.read_text())
        except BaseException:
            self.__exit__()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.terminate()
            self._process.wait(STOP_S)

    def _ended(self) -> bool:
        return self._process is None or self._process.poll() is not None

    def _answers(self) -> bool:
        """404 of `/livez`, which is the proxy's own."""
        try:
            urllib.request.urlopen(f"{self.url}/livez", timeout=5, context=self.tls())
        except urllib.error.HTTPError as error:
            return error.code == 404
        except OSError:
            return False
        raise AssertionError("/livez is not for the public")


class Nginx(Proxy):
    """With a certificate, as a single process in the foreground."""

    def __init__(self, directory: Path, pools: Mapping[str, Sequence[str]], *, idle: str = "5s") -> None:
        super().__init__(directory, pools)
        self._pem = self_signed(directory)
        self._idle = idle

    @property
    def url(self) -> str:
        return f"https://localhost:{self.port}"

    def tls(self) -> ssl.SSLContext:
        return ssl.create_default_context(cafile=self._pem)

    def authorities(self) -> bytes:
        return self._pem.read_bytes()

    def _command(self) -> tuple[list[str], dict[str, str]]:
        configuration = self._directory / "nginx.conf"
        configuration.write_text(self._rendered((FOLDER / "nginx.conf").read_text("utf-8")))
        paths = ["-p", str(self._directory), "-c", str(configuration), "-e", str(self._log)]
        return [program("nginx"), *paths, "-g", "daemon off;"], {}

    def _rendered(self, text: str) -> str:
        for name, written in POOLS.items():
            servers = "".join(f"server {address} max_fails=1 fail_timeout=2s;\n" for address in self._pools[name])
            lines = rf"(?: *server (?:{'|'.join(written)}) max_fails=1 fail_timeout=2s;\n)+"
            text, found = re.subn(lines, servers, text)
            if found != 1:
                raise AssertionError(f"{name} is not in nginx.conf")
        text = text.replace("listen 443", f"listen 127.0.0.1:{self.port}")
        text = re.sub(r"/etc/nginx/tls/\w+\.pem", str(self._pem), text)
        text = text.replace("keepalive_timeout 5s", f"keepalive_timeout {self._idle}")
        text = re.sub(r"/(var/log|run)/(nginx/)?", f"{self._directory}/", text)
        own = "".join(
            f"{kind}_temp_path {self._directory / kind};\n"
            for kind in ("client_body", "proxy", "fastcgi", "uwsgi", "scgi")
        )
        user = "user root;\n" if os.geteuid() == 0 else ""  # its workers get at the directories of a test
        return user + text.replace("http {\n", f"http {{\n{own}", 1)


class Caddy(Proxy):
    """Without TLS."""

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _command(self) -> tuple[list[str], dict[str, str]]:
        environment = {
            "PROXY_SITE": self.url,
            "PROXY_GATEWAYS": " ".join(self._pools["gateway"]),
            "PROXY_GATEWAYS_GRPC": " ".join(self._pools["grpc"]),
            "PROXY_QUERIES": " ".join(self._pools["query"]),
            "PROXY_CONTROLS": " ".join(self._pools["control"]),
            "PROXY_BIND": "127.0.0.1",
            "CADDY_ADMIN": f"127.0.0.1:{free_port()}",
            "XDG_DATA_HOME": str(self._directory),
            "XDG_CONFIG_HOME": str(self._directory),
        }
        return [tool("caddy"), "run", "--adapter", "caddyfile", "--config", str(FOLDER / "Caddyfile")], environment


class Envoy(Proxy):
    """Without TLS, apart from other processes of Envoy (their hot restart). The services behind it limit bodies."""

    limits_bodies = False

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def _command(self) -> tuple[list[str], dict[str, str]]:
        configuration = self._directory / "envoy.json"
        configuration.write_bytes(msgspec.json.encode(self._rendered((FOLDER / "envoy.yaml").read_bytes())))
        return [tool("envoy"), "--config-path", str(configuration), "--disable-hot-restart"], {}

    def _rendered(self, text: bytes) -> dict[str, Any]:
        document: dict[str, Any] = msgspec.yaml.decode(text)
        (listener,) = document["static_resources"]["listeners"]
        listener["address"]["socket_address"]["port_value"] = self.port
        clusters = {cluster["name"]: cluster for cluster in document["static_resources"]["clusters"]}
        for name, pool in self._pools.items():
            hosts = [address.rpartition(":") for address in pool]
            (group,) = clusters[CLUSTERS[name]]["load_assignment"]["endpoints"]
            group["lb_endpoints"] = [
                {"endpoint": {"address": {"socket_address": {"address": host, "port_value": int(port)}}}}
                for host, _, port in hosts
            ]
        return document
