"""`--workers`: several processes on one port, which end together, and of what."""

import json
import os
import re
import signal
import urllib.request
from contextlib import suppress
from pathlib import Path

from .conftest import DEADLINE_S, Start, Up, children_of, refusal, sluice, wait_until


def test_several_workers_need_a_server(tmp_path: Path) -> None:
    sentence = refusal(sluice("up", "--data", tmp_path / "data", "--port", "0", "--workers", "2"), 2)
    assert sentence.startswith("--workers above 1 needs a ClickHouse server")


def test_workers_share_a_port_tell_the_metrics_of_all_and_end_together(start: Start, tmp_path: Path) -> None:
    assert sluice("migrate", "--data", tmp_path / "data").returncode == 0
    control = start("control", "--workers", "2")
    children = children_of(control.process.pid)
    assert len(children) == 2
    wait_until(lambda: answers(control))
    wait_until(lambda: metrics(control).count("\nsluice_worker_up{") == metrics(control).count("} 1\n") == 2)
    seen = set()
    for _ in range(30):  # a connection each: the kernel spreads them
        text = metrics(control)
        for worker in range(2):
            assert f'sluice_build_info{{worker="{worker}",decoder="none",service="control"' in text
            assert text.count(f'process_resident_memory_bytes{{worker="{worker}"}} ') == 1
        seen |= set(re.findall(r'sluice_http_requests_total\{worker="(\d)",[^}]*route="/metrics"', text))
    assert seen == {"0", "1"}
    assert control.stop() == 0
    assert [child for child in children if Path(f"/proc/{child}").exists()] == []


def metrics(up: Up) -> str:
    with urllib.request.urlopen(f"{up.url}/metrics", timeout=DEADLINE_S) as answer:
        return str(answer.read(), "utf-8")


def test_a_worker_that_dies_ends_the_command_and_the_log_says_of_what(start: Start, tmp_path: Path) -> None:
    assert sluice("migrate", "--data", tmp_path / "data").returncode == 0
    control = start("control", "--workers", "2")
    wait_until(lambda: answers(control) and metrics(control).count("} 1\n") == 2)
    os.kill(children_of(control.process.pid)[1], signal.SIGKILL)
    assert control.process.wait(DEADLINE_S) == 1
    assert errors(control) == ["worker 1 was killed by signal 9; ending the others"]


def test_a_signal_to_all_processes_drains_them(start: Start, tmp_path: Path) -> None:
    """As service managers send it: the supervisor passes it on, and its workers have it twice."""
    assert sluice("migrate", "--data", tmp_path / "data").returncode == 0
    control = start("control", "--workers", "2")
    wait_until(lambda: answers(control) and metrics(control).count("} 1\n") == 2)
    for process in (*children_of(control.process.pid), control.process.pid):
        os.kill(process, signal.SIGTERM)
    assert control.process.wait(DEADLINE_S) == 0
    assert control.log.read_text(encoding="utf-8").count('"stopped"') == 2


def test_a_worker_that_cannot_start_is_told_by_its_exit_code(start: Start, tmp_path: Path) -> None:
    assert sluice("migrate", "--data", tmp_path / "data").returncode == 0
    config = tmp_path / "sluice.toml"
    config.write_text("[control]\nmax_body_bytes = 1\n", encoding="utf-8")  # which only the workers look at
    control = start("control", "--workers", "2", "--config", str(config))
    assert control.process.wait(DEADLINE_S) == 2
    told = errors(control)
    assert told
    assert re.fullmatch("worker [01] ended with exit code 2; ending the others", told[0])


def errors(up: Up) -> list[str]:
    """Lines of the log that say so; others are sentences for people."""
    lines = [line for line in up.log.read_text(encoding="utf-8").splitlines() if line.startswith("{")]
    return [line["event"] for line in map(json.loads, lines) if line["level"] == "error"]


def test_workers_drain_when_their_supervisor_is_killed(start: Start, tmp_path: Path) -> None:
    assert sluice("migrate", "--data", tmp_path / "data").returncode == 0
    control = start("control", "--workers", "2")
    workers = children_of(control.process.pid)
    wait_until(lambda: answers(control) and metrics(control).count("} 1\n") == 2)
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
