"""A machine of Debian whose process 1 is systemd, for the units: a container of systemd-nspawn over a throw-away root.
Needs root and systemd-container. `make test-long` has what it takes (`scripts/image-bases`).
"""

import ctypes
import fcntl
import os
import re
import shlex
import signal
import socket
import struct
import subprocess
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Final

from tests.deploy.containers import BASES, ROOT, Store
from tests.e2e.product import eventually

SOURCES: Final = "/usr/src/sluice"
COMMAND_S: Final = 900.0
BOOT_S: Final = 60.0
STOP_S: Final = 180.0  # above TimeoutStopSec of every unit
REBOOTS: Final = 133  # how systemd-nspawn ends when its machine wants to start again
_CGROUPS: Final = Path("/sys/fs/cgroup")
_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
_POWER_OFF: Final = signal.SIGRTMIN + 4  # what systemd takes for a button
_CLONE_NEWNET: Final = 0x40000000
_SIOCSIFFLAGS: Final = 0x8914
_IFF_UP: Final = 1


@contextmanager
def own_network() -> Iterator[None]:
    """This thread, and what it starts, in a network of its own that has nothing but loopback: the ports of the units
    are free there, and the helpers of tests reach them.
    """
    before = os.open("/proc/thread-self/ns/net", os.O_RDONLY)
    try:
        _system(_libc.unshare(_CLONE_NEWNET))
        try:
            with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as any_socket:
                fcntl.ioctl(any_socket, _SIOCSIFFLAGS, struct.pack("16sH14x", b"lo", _IFF_UP))
            yield
        finally:
            _system(_libc.setns(before, _CLONE_NEWNET))
    finally:
        os.close(before)


_libc: Final = ctypes.CDLL(None, use_errno=True)


def _system(result: int) -> None:
    if result != 0:
        raise OSError(ctypes.get_errno(), os.strerror(ctypes.get_errno()))


def documented(beginning: str) -> str:
    """The commands of docs/deployment.md that begin so, to the end of their block."""
    text = (ROOT / "docs/deployment.md").read_text("utf-8")
    blocks = [textwrap.dedent(block) for block in re.findall(r"(?<=\n\n)(?:    .*\n)+", text)]
    (found,) = [block for block in blocks if block.startswith(beginning)]
    return found


@dataclass
class Machine:
    """Its files are below `directory`. It runs after `boot`."""

    directory: Path
    _process: subprocess.Popen[bytes] | None = field(default=None, init=False)

    @property
    def root(self) -> Path:
        return self.directory / "root"

    @property
    def log(self) -> Path:
        """What systemd-nspawn says."""
        return self.directory / "machine.log"

    def unpack(self) -> None:
        """Debian's packages, and the sources."""
        if not (BASES / "machine.tar").exists():
            raise AssertionError(f"{BASES}/machine.tar is missing; `make test-long` and scripts/image-bases make it")
        self.root.mkdir()
        _run(["tar", "--extract", "--file", str(BASES / "machine.tar"), "--directory", str(self.root)])
        store = Store(self.directory)
        store.copy_sources()
        store.sources.rename(self.root / SOURCES.lstrip("/"))

    def install(self, commands: str) -> str:
        """Run a shell's commands in the sources before it boots, with the network of this machine and what pip is
        configured with here.
        """
        options = ["--quiet", "--as-pid2", f"--chdir={SOURCES}", "--setenv=SYSTEMD_OFFLINE=1"]
        for name, target in (("PIP_CONFIG_FILE", "/run/pip.conf"), ("SSL_CERT_FILE", "/run/ca.pem")):
            if Path(os.environ.get(name, "")).is_file():
                variable = "PIP_CERT" if name == "SSL_CERT_FILE" else name
                options += [f"--bind-ro={os.environ[name]}:{target}", f"--setenv={variable}={target}"]
        if Path("/etc/pip.conf").is_file():
            options.append("--bind-ro=/etc/pip.conf")
        return _run([*self._nspawn(*options), "sh", "-exc", commands])

    def boot(self) -> None:
        """Start it and wait until systemd has started what is enabled."""
        with self.log.open("ab") as out:
            command = self._nspawn("--boot")
            environment = {**os.environ, "SYSTEMD_NSPAWN_UNIFIED_HIERARCHY": "1"}
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=out, stderr=out, env=environment)
        eventually(self._is_up, "systemd is up", BOOT_S)

    def reboot(self) -> None:
        """As an operator does."""
        self("systemctl reboot")
        if self._process is None or self._process.wait(STOP_S) != REBOOTS:
            raise AssertionError(self.log.read_text())
        self.boot()

    def __call__(self, commands: str, *, fails: bool = False) -> str:
        """What a shell's commands say, in the running machine, as root. They end well, unless `fails`."""
        return _run([*self._entering, "sh", "-ec", commands], fails=fails)

    def show(self, unit: str, *properties: str) -> Mapping[str, str]:
        """Properties of a unit."""
        said = self(f"systemctl show {shlex.quote(unit)} --property={','.join(properties)}")
        return dict(line.split("=", 1) for line in said.splitlines())

    def main_process(self, unit: str) -> int:
        """Its number in the machine; 0: there is none."""
        return int(self.show(unit, "MainPID")["MainPID"])

    def logs(self, unit: str) -> str:
        """What the journal has of units."""
        return self(f"journalctl --unit={shlex.quote(unit)} --no-pager --output=cat")

    def close(self) -> None:
        """End it, and take away what it leaves outside of its root."""
        process, self._process = self._process, None
        try:
            if process is not None and process.poll() is None:
                with suppress(OSError, IndexError):
                    os.kill(_first_process(process), _POWER_OFF)
                try:
                    process.wait(STOP_S)
                finally:
                    process.kill()
                    process.wait()
        finally:
            for hierarchy in _hierarchies():
                groups = [path for path in hierarchy.glob(f"{self._name}/**/") if path.is_dir()]
                for path in sorted(groups, reverse=True):
                    path.rmdir()
            with suppress(OSError):
                (Path("/run/systemd/nspawn/propagate") / self._name).rmdir()

    @property
    def _name(self) -> str:
        return f"sluice-{os.getpid()}"

    def _nspawn(self, *options: str) -> list[str]:
        """In control groups of its own: systemd-nspawn makes more below its own ones."""
        folders = [str(hierarchy / self._name) for hierarchy in _hierarchies()]
        joining = 'for folder in $0; do mkdir -p "$folder"; echo $$ >"$folder/cgroup.procs"; done; exec "$@"'
        place = ["--register=no", "--keep-unit", f"--machine={self._name}", "--link-journal=no", "--console=pipe"]
        command = ["systemd-nspawn", f"--directory={self.root}", *place, *options]
        return ["sh", "-ec", joining, " ".join(folders), *command]

    def _is_up(self) -> bool:
        if self._process is None or self._process.poll() is not None:
            raise AssertionError(self.log.read_text())
        try:
            asked = subprocess.run(
                [*self._entering, "systemctl", "is-system-running"], capture_output=True, check=False
            )
        except IndexError:
            return False
        return asked.stdout.strip() in {b"running", b"degraded"}

    @property
    def _entering(self) -> list[str]:
        if self._process is None:
            raise AssertionError("the machine does not run")
        environment = ["env", "--ignore-environment", f"PATH={_PATH}", "HOME=/root", f"--chdir={SOURCES}"]
        return ["nsenter", f"--target={_first_process(self._process)}", "--all", *environment]


def _first_process(nspawn: subprocess.Popen[bytes]) -> int:
    """Process 1 of the machine, as this machine numbers it."""
    return int(Path(f"/proc/{nspawn.pid}/task/{nspawn.pid}/children").read_text().split()[0])


def _hierarchies() -> Sequence[Path]:
    """Where the control groups are that systemd-nspawn looks at: the unified ones alone, or beside the older ones."""
    if (_CGROUPS / "cgroup.controllers").exists():
        return [_CGROUPS]
    return [folder for folder in (_CGROUPS / "unified", _CGROUPS / "systemd") if folder.is_dir()]


def _run(command: Sequence[str], *, fails: bool = False) -> str:
    done = subprocess.run(
        command, stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=COMMAND_S
    )
    if bool(done.returncode) is not fails:
        raise AssertionError(f"{shlex.join(command)}: {done.returncode}\n{done.stdout[-4000:]}{done.stderr[-4000:]}")
    return done.stdout + done.stderr if fails else done.stdout
