"""Images built by buildah and run by runc: a root that is read alone, user 10001, no capability, as in compose.yaml.
The network is the machine's. Needs root. `make test-long` has what it takes (`scripts/image-bases`).
"""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from tests.e2e.product import eventually

ROOT: Final = Path(__file__).parents[2]
BASES: Final = Path(os.environ.get("IMAGE_BASES") or Path(sys.prefix) / "image-bases")
USER: Final = 10001
EPOCH: Final = "1764000000"  # of all builds of a test
BUILD_S: Final = 1_200.0
STOP_S: Final = 90.0
_SCRATCH: Final = "/tmp"  # noqa: S108 - of the container
_MOUNTS: Final[Sequence[Mapping[str, Any]]] = (
    {"destination": "/proc", "type": "proc", "source": "proc"},
    {"destination": "/dev", "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "mode=755", "size=65536k"]},
    {"destination": _SCRATCH, "type": "tmpfs", "source": "tmpfs", "options": ["nosuid", "nodev", "mode=1777"]},
)


def _run(command: Sequence[str], environment: Mapping[str, str] | None = None) -> str:
    everything = {**os.environ, **(environment or {})}
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=BUILD_S, env=everything)
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout.strip()


@dataclass(frozen=True)
class Store:
    """buildah's images and containers, below a directory of their own, with a copy of the sources: nobody changes them
    between two builds.
    """

    directory: Path

    @property
    def buildah(self) -> list[str]:
        return ["buildah", "--root", str(self.directory / "root"), "--runroot", str(self.directory / "run")]

    def __call__(self, *arguments: str) -> str:
        return _run([*self.buildah, *arguments])

    @property
    def sources(self) -> Path:
        return self.directory / "sources"

    def copy_sources(self) -> None:
        """What images are made of, and more."""
        left_out = shutil.ignore_patterns(".*", "node_modules", "__pycache__", "*.so", "build", "data", "dist")
        shutil.copytree(ROOT, self.sources, ignore=left_out, symlinks=True)

    def import_bases(self) -> None:
        """Bases of Debian's packages, as localhost/run and localhost/build."""
        if not (BASES / ".made").exists():
            raise AssertionError(f"{BASES} is missing; `make test-long` and scripts/image-bases make it")
        for name in ("run", "build"):
            containerfile = self.directory / f"{name}.Containerfile"
            containerfile.write_text(f"FROM scratch\nADD {name}.tar /\n")
            options = ("--isolation", "chroot", "--timestamp", EPOCH, "--file", str(containerfile))
            self("build", *options, "--tag", f"localhost/{name}", str(BASES))

    def build(self, target: str, tag: str) -> str:
        """By scripts/image; the image's id."""
        environment = {
            "ENGINE": " ".join(self.buildah),
            "BASE": "localhost/run",
            "BUILD_BASE": "localhost/build",
            "BUILDAH_ISOLATION": "chroot",
            "SOURCE_DATE_EPOCH": EPOCH,
            "TAG": tag,
        }
        return _run([str(self.sources / "scripts/image"), target], environment).split()[-1]

    def config(self, image: str) -> dict[str, Any]:
        """The configuration of an image, in Docker's format."""
        found: dict[str, Any] = json.loads(self("inspect", "--type", "image", image))["Docker"]
        return found

    def layer_bytes(self, image: str) -> int:
        """The size of its layers, uncompressed."""
        manifest = json.loads(json.loads(self("inspect", "--type", "image", image))["Manifest"])
        return sum(int(layer["size"]) for layer in manifest["layers"])

    def mount(self, image: str) -> Path:
        """The files of an image."""
        return Path(self("mount", self("from", "--pull-never", image)))

    def close(self) -> None:
        """Remove everything; what is mounted could not be removed otherwise."""
        self("umount", "--all")
        self("rm", "--all")
        self("rmi", "--all", "--force")


@dataclass
class Container:
    """A command in an image that is mounted at `root`. `volume`: what is at /var/lib/sluice."""

    name: str
    root: Path
    directory: Path
    volume: Path
    args: Sequence[str]
    env: Mapping[str, str]
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def log(self) -> Path:
        return self.directory / f"{self.name}.log"

    def start(self) -> None:
        """Start it and do not wait."""
        bundle = self.directory / "bundles" / self.name
        bundle.mkdir(parents=True)
        if not self.volume.exists():
            self.volume.mkdir(mode=0o700)
            os.chown(self.volume, USER, USER)
        (bundle / "config.json").write_text(json.dumps(self._config()))
        with self.log.open("ab") as out:
            command = [*self._runc, "run", "--bundle", str(bundle), self.name]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out)

    def run(self) -> str:
        """Run it to its end, which is a good one; what it said."""
        self.start()
        if self._process is None or self._process.wait(STOP_S):
            raise AssertionError(self.log.read_text())
        return self.log.read_text()

    def healthy(self) -> bool:
        """Whether the image's health check says so. One that ended says why."""
        if self._process is None or self._process.poll() is not None:
            raise AssertionError(self.log.read_text())
        command = [*self._runc, "exec", self.name, "sluice-health"]
        return subprocess.run(command, capture_output=True, check=False).returncode == 0

    def wait_until_healthy(self) -> None:
        eventually(self.healthy, f"{self.name} is healthy", 60)

    def stop(self) -> int:
        """SIGTERM, as of STOPSIGNAL; the exit code."""
        if self._process is None:
            return 0
        if self._process.poll() is None:
            subprocess.run([*self._runc, "kill", self.name, "TERM"], check=True)
        try:
            return self._process.wait(STOP_S)
        finally:
            if self._process.poll() is None:
                subprocess.run([*self._runc, "kill", self.name, str(signal.SIGKILL.value)], check=False)
                self._process.wait(STOP_S)

    @property
    def _runc(self) -> list[str]:
        return ["runc", "--root", str(self.directory / "runc")]

    def _config(self) -> dict[str, Any]:
        volume = {
            "destination": "/var/lib/sluice",
            "type": "bind",
            "source": str(self.volume),
            "options": ["bind", "rw", "nosuid", "nodev"],
        }
        return {
            "ociVersion": "1.0.2",
            "process": {
                "user": {"uid": USER, "gid": USER},
                "args": list(self.args),
                "env": [f"{name}={value}" for name, value in self.env.items()],
                "cwd": "/var/lib/sluice",
                "noNewPrivileges": True,
                "capabilities": {},
            },
            "root": {"path": str(self.root), "readonly": True},
            "mounts": [*_MOUNTS, volume],
            "linux": {"namespaces": [{"type": kind} for kind in ("mount", "pid", "ipc", "uts")]},
        }
