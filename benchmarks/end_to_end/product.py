"""`sluice up` as a process: its CPU, its counts, and the rows that it leaves behind."""

import os
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final, NamedTuple

from benchmarks.end_to_end import engine
from benchmarks.processes import apart, cpu_s, pid_of
from proto.otlp.policy import Signal
from tests.e2e.product import Sluice, running
from tests.faults.deployment import metric

TABLES: Final[Mapping[Signal, str]] = {"traces": "spans", "logs": "logs"}
# A poller asks ten times a second, and the limits of one principal are not what is measured.
_SETTINGS: Final = {"SLUICE_ANALYSIS_RATE": "0", "SLUICE_API_RATE": "0"}
_LOOK_S: Final = 1.0
_QUIET: Final = 0.05  # cores: a product with nothing to do takes 0.01
_QUIET_LOOKS: Final = 2
_LONGEST_S: Final = 120.0
_MERGES: Final = "MergeMutate"  # the engine's name of the threads that merge; they live as long as it does
_TICK_S: Final = 1 / os.sysconf("SC_CLK_TCK")


class NotQuiet(Exception):
    """Merges took longer than the benchmark waits."""


class Spent(NamedTuple):
    """CPU of a process in seconds, in user and in kernel mode; and how much of it merges of the engine took."""

    whole: float
    merges: float

    @classmethod
    def by(cls, pid: int) -> "Spent":
        """So far."""
        merges = sum(_thread(stat) for stat in Path(f"/proc/{pid}/task").glob("*/stat"))
        return cls(cpu_s(pid), merges)

    def since(self, earlier: "Spent") -> "Spent":
        """What came after."""
        return Spent(self.whole - earlier.whole, self.merges - earlier.merges)


class Product(NamedTuple):
    """A running `sluice up`."""

    sluice: Sluice
    pid: int
    port: int

    def stored(self, signal: Signal) -> int:
        """Items that are rows."""
        return int(metric(self.sluice.base_url, "sluice_gateway_stored_items_total", signal=signal))

    def blocks(self, signal: Signal) -> int:
        """Blocks of spans or logs that were inserted."""
        return int(metric(self.sluice.base_url, "sluice_gateway_insert_rows_count", table=TABLES[signal]))


def wait_until_quiet(pid: int) -> None:
    """Wait until a process does nothing any more: its merges are over."""
    deadline, looks, before = time.monotonic() + _LONGEST_S, 0, Spent.by(pid).whole
    while looks < _QUIET_LOOKS:
        if time.monotonic() > deadline:
            raise NotQuiet(f"still busy after {_LONGEST_S:g} s")
        time.sleep(_LOOK_S)
        now = Spent.by(pid).whole
        looks = looks + 1 if now - before < _QUIET * _LOOK_S else 0
        before = now


def _thread(stat: Path) -> float:
    """CPU seconds of a thread if it merges."""
    try:
        _, _, rest = stat.read_text().partition(f"({_MERGES})")
    except OSError:  # it has ended
        return 0.0
    times = rest.split()[11:13]
    return sum(map(int, times)) * _TICK_S


@contextmanager
def product(directory: Path, settings: Mapping[str, str]) -> Iterator[Product]:
    """Start it on an empty directory, and end it."""
    directory.mkdir()
    sluice = running(directory / "data", directory / "log", **_SETTINGS, **settings)
    try:
        yield Product(sluice, pid_of(sluice.writer), sluice.writer.port)
        sluice.stop()
    finally:
        sluice.kill()


def rows_left(directory: Path, signal: Signal) -> int:
    """Rows of a product that has ended."""
    return apart(engine.count, directory, TABLES[signal])
