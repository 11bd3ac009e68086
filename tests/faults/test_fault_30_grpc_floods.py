"""Fault 30: clients without a key that send over gRPC what is no call, as fast as they can, in 2 GiB of memory. Needs
root.

The process lives, nothing acknowledged is lost or doubled, and the other doors refuse hardly more than beside a process
that takes the same CPU and sends nothing.
"""

import json
import subprocess
import sys
import threading
import time
from collections import Counter
from contextlib import ExitStack
from pathlib import Path
from typing import Final, NamedTuple, Self

import pytest

from tests.e2e.product import Sluice, call
from tests.faults.clients import FAILED, RETRYABLE, Load
from tests.faults.loading import accounted_for, more
from tests.faults.memory_group import LIMIT, MemoryGroup, running
from tests.ports import free_port
from tests.selection import scaled

SECONDS: Final = scaled(10.0, 30.0)  # of each flood, and of what it is compared with
MORE: Final = 1.5  # times as much may be refused
FEW: Final = 0.05  # of the requests, which may be refused in any case
READ_S: Final = 0.1  # between reads of explore
ROOT: Final = Path(__file__).parents[2]
# Connections, and bytes a second of all of them together; 0: as fast as they can.
FLOODS: Final = ((128, 0), (3_000, 100 * 10**6))
# Takes so much of a core for so many seconds.
BURNER: Final = """
import sys, time
share, end = float(sys.argv[1]), time.monotonic() + float(sys.argv[2])
while time.monotonic() < end:
    begun, cpu = time.monotonic(), time.process_time()
    while time.process_time() - cpu < share * 0.02:
        pass
    time.sleep(max(0.0, 0.02 - (time.monotonic() - begun)))
"""


class Doors(NamedTuple):
    """Requests over HTTP to ingest and explore, and how many of them were refused or not answered."""

    requests: int
    refused: int

    def since(self, before: "Doors") -> "Doors":
        return Doors(self.requests - before.requests, self.refused - before.refused)


class Reader:
    """Reads explore and control again and again."""

    def __init__(self, sluice: Sluice) -> None:
        self._sluice = sluice
        self._more = True
        self._thread = threading.Thread(target=self._run, daemon=True)
        self.requests = self.refused = 0

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_error: object) -> None:
        self._more = False
        self._thread.join(60)

    def _run(self) -> None:
        sluice = self._sluice
        base = f"/orgs/{sluice.org}/projects"
        while self._more:
            for path in (f"{base}/{sluice.project}/explore/spans?limit=5&hours=1", base):
                self.requests += 1
                try:
                    self.refused += sluice.get(path).status != 200
                except OSError:
                    self.refused += 1
            time.sleep(READ_S)


def doors(load: Load, reader: Reader) -> Doors:
    """So far."""
    answers = answers_of(load)
    refused = sum(count for answer, count in answers.items() if answer in (*RETRYABLE, *FAILED))
    return Doors(answers.total() + reader.requests, refused + reader.refused)


def during(arguments: list[str], load: Load, reader: Reader) -> tuple[Doors, str]:
    """What the other doors did while a process ran, and what it said."""
    before = doors(load, reader)
    done = subprocess.run(
        [sys.executable, *arguments], capture_output=True, text=True, check=True, cwd=ROOT, timeout=SECONDS + 120
    )
    return doors(load, reader).since(before), done.stdout


def peak_of(sluice: Sluice) -> int:
    """The most bytes of the process in memory so far."""
    assert sluice.writer.process is not None
    status = Path(f"/proc/{sluice.writer.process.pid}/status").read_text()
    return next(int(line.split()[1]) * 1024 for line in status.splitlines() if line.startswith("VmHWM"))


@pytest.mark.long
def test_fault_30_floods_over_grpc_in_two_gibibytes(on_disk: Path, group: MemoryGroup, run: str) -> None:
    port = free_port()
    settings = {"SLUICE_GATEWAY_JOURNAL_HOLD_S": "1", "SLUICE_GRPC_PORT": str(port), "SLUICE_API_RATE": "0"}
    sluice = running(on_disk, group, settings)
    try:
        with ExitStack() as stack:
            http = Load(sluice.gateway_url, sluice.key, f"{run}-http", clients=2, rate=10.0)
            grpc = Load(sluice.gateway_url, sluice.key, f"{run}-grpc", clients=2, rate=10.0, grpc_port=port)
            for load in (http, grpc):
                load.start()
                stack.callback(load.finish)
            reader = stack.enter_context(Reader(sluice))
            goes_on(http, grpc)
            for connections, rate in FLOODS:
                flooded, said = during(
                    ["-m", "tests.faults.grpc_flood", *map(str, (port, connections, rate, SECONDS))], http, reader
                )
                share = json.loads(said)["cpu_s"] / SECONDS
                burnt, _ = during(["-c", BURNER, str(share), str(SECONDS)], http, reader)
                say(f"{connections} connections, {rate} bytes/s: {said.strip()}; {flooded}; beside a burner {burnt}")
                say(f"process {peak_of(sluice) / 2**20:.0f} MiB, group {group.peak / 2**20:.0f} MiB; {closed(sluice)}")
                say(f"HTTP {answers_of(http)}, gRPC {answers_of(grpc)}")
                assert sluice.writer.process is not None
                assert (group.killed, sluice.writer.process.poll()) == (0, None)
                goes_on(http, grpc)
                allowed = MORE * burnt.refused / max(1, burnt.requests) + FEW
                assert flooded.refused <= allowed * flooded.requests, (flooded, burnt)
            assert peak_of(sluice) < LIMIT
        assert closed(sluice).keys() >= {"header_block", "frame_rate"}
        for records in (accounted_for(sluice, http, 120), accounted_for(sluice, grpc)):
            say(str(records))
            assert (records.faults, records.unanswered) == ({}, 0), records
    finally:
        sluice.kill()


def say(text: str) -> None:
    """Shown with `pytest -s`, or when the test fails."""
    sys.stdout.write(f"{text}\n")


def goes_on(*loads: Load) -> None:
    for load in loads:
        more(load, 5, 60)


def closed(sluice: Sluice) -> dict[str, float]:
    """How many connections were closed for which reasons."""
    lines = call("GET", f"{sluice.gateway_url}/metrics").body.decode().splitlines()
    name = 'sluice_grpc_connections_closed_total{reason="'
    found = (line[len(name) :].partition('"} ') for line in lines if line.startswith(name))
    return {reason: float(count) for reason, _, count in found}


def answers_of(load: Load) -> Counter[str]:
    """How attempts have ended so far."""
    return Counter(answer for export in load.exports for answer in export.answers)
