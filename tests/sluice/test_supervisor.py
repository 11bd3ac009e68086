"""`--workers`: several processes on one port, which end together, and of what."""

import http.client
import json
import os
import re
import signal
import subprocess
import sys
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import pytest
import structlog

from chassis.http.serve import bind
from sluice import handover
from tests.forks import FORKED_WORKERS
from tests.ports import free_port
from tests.selection import scaled

from .conftest import (
    DEADLINE_S,
    ROOT,
    Start,
    Up,
    children_of,
    clean_environment,
    command,
    refusal,
    sluice,
    wait_until,
)


def test_several_workers_need_a_server(tmp_path: Path) -> None:
    sentence = refusal(sluice("up", "--data", tmp_path / "data", "--port", "0", "--workers", "2"), 2)
    assert sentence.startswith("--workers above 1 needs a ClickHouse server")


def test_workers_share_a_port_aggregate_metrics_and_drain_together(
    start: Start, tmp_path: Path, migrated: Path
) -> None:
    control = start("control", "--workers", "2", **FORKED_WORKERS)
    children = children_of(control.process.pid)
    assert len(children) == 2
    seen = set()
    for _ in range(30):  # a connection each: the kernel spreads them
        text = metrics(control)
        for worker in range(2):
            assert f'sluice_build_info{{worker="{worker}",decoder="none",service="control"' in text
            assert text.count(f'process_resident_memory_bytes{{worker="{worker}"}} ') == 1
        seen |= set(re.findall(r'sluice_http_requests_total\{worker="(\d)",[^}]*route="/metrics"', text))
    assert seen == {"0", "1"}
    for process in (*children, control.process.pid):  # as service managers do: the supervisor passes it on as well
        os.kill(process, signal.SIGTERM)
    assert control.process.wait(DEADLINE_S) == 0
    assert control.log.read_text(encoding="utf-8").count('"stopped"') == 2
    assert are_gone(children)


def are_gone(processes: Sequence[int]) -> bool:
    return not any(Path(f"/proc/{each}").exists() for each in processes)


def metrics(up: Up) -> str:
    with urllib.request.urlopen(f"{up.url}/metrics", timeout=DEADLINE_S) as answer:
        return str(answer.read(), "utf-8")


def test_an_exited_worker_stops_the_command_and_is_logged(start: Start, tmp_path: Path, migrated: Path) -> None:
    control = start("control", "--workers", "2", **FORKED_WORKERS)
    os.kill(children_of(control.process.pid)[1], signal.SIGKILL)
    assert control.process.wait(DEADLINE_S) == 1
    assert errors(control) == ["worker 1 was killed by signal 9; stopping the others"]


def test_a_worker_that_cannot_start_sets_the_exit_code(tmp_path: Path, migrated: Path) -> None:
    config = tmp_path / "sluice.toml"
    config.write_text("[control]\nmax_body_bytes = 1\n", encoding="utf-8")  # which only the workers look at
    command = ("control", "--workers", "2", "--config", config, "--data", tmp_path / "data", "--port", "0")
    done = sluice(*command, **FORKED_WORKERS)
    assert (done.returncode, done.stdout) == (2, "")  # it never said that it listens
    assert re.search(r'"worker [01] exited with code 2; stopping the others"', done.stderr), done.stderr


def delayed(directory: Path, seconds: float) -> str:
    """Where the interpreter finds what makes worker 1 begin late."""
    directory.mkdir()
    (directory / "sitecustomize.py").write_text(
        "import sys, time\n"
        "if any(argument.startswith('1:') for argument in sys.orig_argv):\n"
        f"    time.sleep({seconds})\n",
        encoding="utf-8",
    )
    return f"{directory}:{ROOT}"


def test_it_announces_its_address_when_every_worker_accepts(start: Start, tmp_path: Path, migrated: Path) -> None:
    health = free_port()
    control = start(
        *("control", "--workers", "2", "--health-port", str(health)), PYTHONPATH=delayed(tmp_path / "late", 1.5)
    )
    assert metrics(control).count("\nsluice_worker_up{") == metrics(control).count("} 1\n") == 2
    assert all(answers(control) for _ in range(30))
    assert readiness(health)[0] == 200


def test_a_starting_worker_exits_at_once_on_a_signal(tmp_path: Path, migrated: Path) -> None:
    options = ("--data", tmp_path / "data", "--port", "0", "--workers", "2")
    environment = clean_environment(PYTHONPATH=delayed(tmp_path / "late", 600))
    with subprocess.Popen(command("control", *options), env=environment, stdout=subprocess.PIPE) as process:
        wait_until(lambda: len(children_of(process.pid)) == 2)
        process.terminate()
        assert process.wait(DEADLINE_S) == 0
        assert process.stdout is not None
        assert process.stdout.read() == b""


def readiness(port: int) -> tuple[int, dict[str, Any]]:
    """What a health port says, by dependency: null where all is well; status 0 where nobody answers."""
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/readyz", timeout=DEADLINE_S) as answer:
            status, said = answer.status, json.loads(answer.read())
    except urllib.error.HTTPError as error:
        status, said = error.code, json.loads(error.read())
    except OSError:
        return 0, {}
    return status, {each["name"]: each["error"] for each in said["dependencies"]}


def says_ready(port: int) -> bool:
    return readiness(port)[0] == 200


def test_a_health_port_covers_all_workers_of_this_command_only(start: Start, tmp_path: Path, migrated: Path) -> None:
    first, second = free_port(), free_port()
    before = start("control", "--workers", "2", "--health-port", str(first), **FORKED_WORKERS)
    port = before.url.rpartition(":")[2]
    after = start("control", "--workers", "2", "--health-port", str(second), port=int(port), **FORKED_WORKERS)
    well = {"supervisor": None, "worker 0": None, "worker 1": None}
    wait_until(lambda: readiness(first) == readiness(second) == (200, well))
    stopped = children_of(before.process.pid)[1]
    os.kill(stopped, signal.SIGSTOP)
    try:
        wait_until(lambda: readiness(first)[0] == 503)
        assert readiness(first)[1]["worker 1"] is not None
    finally:
        os.kill(stopped, signal.SIGCONT)
    wait_until(lambda: readiness(first)[0] == 200)
    with urllib.request.urlopen(f"http://127.0.0.1:{second}/metrics", timeout=DEADLINE_S) as answer:
        told = answer.read().decode()
    assert re.findall(r'^sluice_worker_up\{worker="(.)"\} 1$', told, re.MULTILINE) == ["0", "1"]
    assert 'process_open_fds{worker="' in told
    assert "\nprocess_open_fds " not in told
    workers = children_of(after.process.pid)
    assert after.stop() == 0
    assert are_gone(workers)
    assert readiness(second)[0] == 0


def test_one_process_has_a_health_port_too(start: Start, tmp_path: Path, migrated: Path) -> None:
    health = free_port()
    start("control", "--health-port", str(health))
    assert readiness(health)[0] == 200
    other = sluice("control", "--data", tmp_path / "data", "--port", "0", "--health-port", str(health))
    assert refusal(other, 1) == (
        f"Port {health} on 127.0.0.1 is in use. Stop the other program or choose another port with --health-port."
    )


def test_workers_import_nothing_from_the_working_directory(tmp_path: Path, migrated: Path) -> None:
    directory = tmp_path / "here"
    directory.mkdir()
    for name in ("sluice", "json", "chassis", "uvloop", "msgspec"):
        (directory / f"{name}.py").write_text("raise SystemExit('imported')\n", encoding="utf-8")
    options = ("--data", str(tmp_path / "data"), "--port", "0", "--workers", "2")
    with subprocess.Popen(
        [sys.executable, "-P", "-m", "sluice", "control", *options],
        env=clean_environment(),
        cwd=directory,
        stdout=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        try:
            assert process.stdout.readline().startswith("Sluice control listens on")
        finally:
            process.terminate()
        assert process.wait(DEADLINE_S) == 0


PAUSE_S: Final = scaled(0.02, 0.002)


class Caller(threading.Thread):
    """A client that asks again and again, over one connection for as long as it may or over a new one each time, and
    notes what went wrong.
    """

    def __init__(self, port: int, *, keep: bool) -> None:
        super().__init__(daemon=True)
        self._port = port
        self._keep = keep
        self.answered = 0
        self.faults: list[str] = []
        self.over = threading.Event()

    def run(self) -> None:
        while not self.over.is_set():
            connection = http.client.HTTPConnection("127.0.0.1", self._port, timeout=DEADLINE_S)
            try:
                self._ask(connection)
            except (OSError, http.client.HTTPException) as error:
                self.faults.append(repr(error))
            finally:
                connection.close()

    def _ask(self, connection: http.client.HTTPConnection) -> None:
        while not self.over.wait(PAUSE_S):
            connection.request("GET", "/livez", headers={} if self._keep else {"Connection": "close"})
            answer = connection.getresponse()
            answer.read()
            self.answered += answer.status == 200
            if answer.will_close:
                return


def more_answers(callers: Sequence[Caller]) -> Callable[[], bool]:
    """Whether each has had another answer from now on."""
    before = [caller.answered for caller in callers]
    return lambda: all(caller.answered > count for caller, count in zip(callers, before, strict=True))


def beside(start: Start, port: int, count: int) -> Up:
    """The next command on this port, ready."""
    health = free_port()
    after = start("control", "--workers", str(count), "--health-port", str(health), port=port, **FORKED_WORKERS)
    wait_until(partial(says_ready, health))
    return after


def listening(port: int) -> set[str]:
    """Inodes of the sockets that listen on this port (proc_pid_net(5))."""
    rows = [line.split() for line in Path("/proc/net/tcp").read_text(encoding="utf-8").splitlines()]
    return {row[9] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == "0A"}


@pytest.mark.sized
def test_a_rolling_restart_loses_no_connection(start: Start, tmp_path: Path, migrated: Path) -> None:
    """As docs/operations.md has it, to more workers and to fewer; after attempts that were given up, too: the sockets
    are those of the first one, or a reset would only be rare.
    """
    before = start("control", "--workers", "2", **FORKED_WORKERS)
    port = int(before.url.rpartition(":")[2])
    check_takeovers_that_fail(before, tmp_path, port)
    callers = [Caller(port, keep=number % 2 == 0) for number in range(scaled(4, 8))]
    for caller in callers:
        caller.start()
    given_up = (signal.SIGKILL, -signal.SIGKILL)
    try:
        first = listening(port)
        for name, code in scaled([given_up], [(signal.SIGTERM, 0), given_up]):
            assert beside(start, port, 2).stop(name) == code
        assert before.process.poll() is None
        for count in scaled((3,), (3, 2)):
            after = beside(start, port, count)
            assert re.search(
                rf"took over \d listening sockets on port {port} from process {before.process.pid}\b", logged(after)
            )
            handed = f"handed the listening sockets on port {port} to process {after.process.pid}; send SIGTERM to this"
            assert handed in logged(before)
            assert before.stop() == 0
            before = after
            wait_until(more_answers(callers))
            assert first <= listening(port)
    finally:
        for caller in callers:
            caller.over.set()
    for caller in callers:
        caller.join(DEADLINE_S)
    assert [caller.faults for caller in callers] == [[]] * len(callers)
    assert list((tmp_path / "data").glob("listeners-*")) == [tmp_path / "data" / f"listeners-{port}"]
    assert before.stop() == 0
    assert list((tmp_path / "data").glob("listeners-*")) == []


def check_takeovers_that_fail(before: Up, directory: Path, port: int) -> None:
    """Each logs its reason: another address, and a directory where nobody offers sockets."""
    said = {"event": "no listening sockets taken over; opened new ones"}
    with structlog.testing.capture_logs() as told, bind("127.0.0.2", port, reuse_port=True) as elsewhere:
        assert handover.take_over_sockets(directory / "data", elsewhere, "control") == []
        assert handover.take_over_sockets(directory, elsewhere, "control") == []
    reason = f"process {before.process.pid} listens on 127.0.0.1"
    assert told == [{**said, "reason": reason, "log_level": "warning"}, {**said, "log_level": "info"}]


def logged(up: Up) -> str:
    return up.log.read_text(encoding="utf-8")


def errors(up: Up) -> list[str]:
    """Lines of the log that say so; others are sentences for people."""
    lines = [line for line in up.log.read_text(encoding="utf-8").splitlines() if line.startswith("{")]
    return [line["event"] for line in map(json.loads, lines) if line["level"] == "error"]


def test_workers_drain_when_their_supervisor_is_killed(start: Start, tmp_path: Path, migrated: Path) -> None:
    control = start("control", "--workers", "2", **FORKED_WORKERS)
    workers = children_of(control.process.pid)
    control.process.kill()
    try:
        wait_until(lambda: control.log.read_text(encoding="utf-8").count('"event": "stopped"') == 2)
        wait_until(lambda: not answers(control))
    finally:
        for worker in workers:
            with suppress(ProcessLookupError):
                os.kill(worker, signal.SIGKILL)


def answers(up: Up) -> bool:
    try:
        return up.get("/livez")[0] == 200
    except OSError:
        return False
