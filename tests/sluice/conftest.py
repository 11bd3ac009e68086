"""The command as a user runs it: real processes, a data directory of their own, free ports."""

import json
import os
import re
import shutil
import signal
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryFile
from typing import Any

import pytest

from tests.forks import Command

ROOT = Path(__file__).parents[2]
STEP = re.compile(r"Sluice \S+ is starting, with its data in .*\.$|  [A-Z].* \.\.\.$")  # of a start of `up`
DEADLINE_S = 60.0  # for anything that must happen; never a measure of speed


def clean_environment(**settings: str) -> dict[str, str]:
    """This process's environment without settings of ours. Without `settings` OTLP/gRPC is off: many gateways run at
    once, and its port is none that each chooses for itself.
    """
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("SLUICE_", "OTEL_"))}
    return {**kept, "PYTHONPATH": str(ROOT), "SLUICE_GRPC_PORT": "", **settings}


def command(*arguments: str | Path) -> list[str]:
    """`sluice ...`, under -O when the suite is."""
    optimized = ["-O"] * sys.flags.optimize
    return [sys.executable, *optimized, "-m", "sluice", *map(str, arguments)]


@dataclass
class Up:
    """A running `sluice`, where it listens, and what it said."""

    process: Command
    url: str
    data: Path
    log: Path
    said: list[str] = field(default_factory=list)

    def credentials(self) -> dict[str, str]:
        loaded: dict[str, str] = json.loads((self.data / "bootstrap.json").read_text(encoding="utf-8"))
        return loaded

    def get(self, path: str, token: str | None = None) -> tuple[int, Any]:
        """Status and decoded JSON."""
        request = urllib.request.Request(self.url + path)
        if token is not None:
            request.add_header("Authorization", f"Bearer {token}")
        try:
            with urllib.request.urlopen(request, timeout=DEADLINE_S) as answer:
                return answer.status, json.loads(answer.read())
        except urllib.error.HTTPError as error:
            return error.code, json.loads(error.read())

    def stop(self, name: signal.Signals = signal.SIGTERM) -> int:
        """Ask it to end; the exit code. What it still said is in `said`."""
        if self.process.poll() is None:
            self.process.send_signal(name)
        rest, _ = self.process.communicate(timeout=DEADLINE_S)
        self.said.append(rest)
        return self.process.wait()


Start = Callable[..., Up]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Start `sluice COMMAND` on a free port and wait until it listens; it is gone when the test is."""
    started: list[Up] = []

    def run(*arguments: str, data: Path | None = None, port: int = 0, **settings: str) -> Up:
        data = data or tmp_path / "data"
        log = tmp_path / f"log-{len(started)}"
        with log.open("w") as errors:
            process = Command(
                [*(arguments or ("up",)), "--data", str(data), "--port", str(port)],
                clean_environment(**settings),
                stderr=errors,
                directory=tmp_path,
            )
        up = Up(process, "", data, log)
        started.append(up)
        if process.stdout is None:
            raise RuntimeError("standard output is piped")
        for line in iter(process.stdout.readline, ""):
            up.said.append(line)
            if found := re.search(r"http://127\.0\.0\.1:\d+", line):
                up.url = found[0]
                return up
        process.wait(DEADLINE_S)
        pytest.fail(f"sluice did not start: {''.join(up.said)}{log.read_text(encoding='utf-8')}")

    yield run
    for up in started:
        workers = children_of(up.process.pid)
        if up.process.poll() is None:
            up.process.kill()
        for worker in workers:  # else they drain
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)
        up.process.communicate()


@pytest.fixture(scope="session")
def migrated_data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A data directory that `sluice migrate` has made, to copy: it takes longer than what most tests do with it."""
    data = tmp_path_factory.mktemp("migrated") / "data"
    done = sluice("migrate", "--data", data)
    assert done.returncode == 0, done.stderr
    return data


@pytest.fixture
def migrated(migrated_data: Path, tmp_path: Path) -> Path:
    """One of the test's own, where `start` has its data."""
    return Path(shutil.copytree(migrated_data, tmp_path / "data", symlinks=True))


def children_of(pid: int) -> list[int]:
    """Its processes; none when it is gone itself."""
    try:
        text = Path(f"/proc/{pid}/task/{pid}/children").read_text(encoding="utf-8")
    except OSError:
        return []
    return [int(child) for child in text.split()]


def sluice(*arguments: str | Path, given: str = "", **settings: str) -> subprocess.CompletedProcess[str]:
    """Run a sub-command to its end. `given`: what it reads from standard input."""
    called = [str(argument) for argument in arguments]
    with (
        TemporaryFile("w+", encoding="utf-8") as told,
        TemporaryFile("w+", encoding="utf-8") as out,
        TemporaryFile("w+", encoding="utf-8") as errors,
    ):
        told.write(given)
        told.seek(0)
        process = Command(called, clean_environment(**settings), stdin=told, stdout=out, stderr=errors)
        try:
            code = process.wait(DEADLINE_S)
        except subprocess.TimeoutExpired:
            process.kill()
            raise
        for file in (out, errors):
            file.seek(0)
        return subprocess.CompletedProcess(process.args, code, out.read(), errors.read())


def refusal(done: subprocess.CompletedProcess[str], code: int) -> str:
    """The one sentence of a command that could not do it. On standard output `up` may have said how far it came."""
    assert done.returncode == code, done.stderr
    lines = done.stderr.strip().splitlines()
    assert len(lines) == 1, done.stderr
    assert lines[0].startswith("sluice: ")
    assert [line for line in done.stdout.splitlines() if not STEP.match(line)] == []
    return lines[0].removeprefix("sluice: ")


def wait_until(condition: Callable[[], bool]) -> None:
    """Look again until it holds, for at most DEADLINE_S."""
    deadline = time.monotonic() + DEADLINE_S
    while not condition():
        if time.monotonic() > deadline:
            pytest.fail("it did not happen in time")
        time.sleep(0.02)


def secrets_of(credentials: dict[str, str]) -> Sequence[str]:
    return [credentials["legacyKey"], credentials["accessToken"]]
