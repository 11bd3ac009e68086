"""Where the CPU seconds of a run go: of every part (tests/division.py), and of the whole run beside a fixed loop.

CPU seconds depend on what else the machine does: two threads share a core, and a virtual machine has neighbours. So the
loop runs once a minute, and the run is also given in loops. Compare the loops of two runs.
"""

import os
import resource
import threading
import time
from collections import Counter
from collections.abc import Generator
from typing import Final

import pytest

from tests.division import part_of

LONGEST: Final = 25  # parts that are printed
LOOPS: Final = 20_000_000
LOOP_INTERVAL_S: Final = 60.0


def spent() -> float:
    """CPU seconds of this process and of its children that have ended."""
    times = os.times()
    return times.user + times.system + times.children_user + times.children_system


def calibration() -> float:
    """CPU seconds of a fixed loop."""
    before, number = time.thread_time(), 0
    for each in range(LOOPS):
        number ^= each
    return time.thread_time() - before


class Meter:
    """Of one process of the run: says with each report how much CPU its step took. CPU of a child process counts for
    the test at which the child ends, and not at all where its parent was killed.
    """

    def __init__(self) -> None:
        self._until = spent()

    def pytest_collection_finish(self) -> None:
        """Collecting is no test's."""
        self._until = spent()

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(self) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Since the last report."""
        report = yield
        now = spent()
        report.user_properties.append(("cpu", now - self._until))
        self._until = now
        return report


class Bill:
    """Adds the reports of all processes up."""

    def __init__(self) -> None:
        self._parts: Counter[str] = Counter()
        self._loops: list[float] = []
        self._is_over = threading.Event()
        self._loop_thread = threading.Thread(target=self._calibrate, daemon=True)
        self._loop_thread.start()

    def _calibrate(self) -> None:
        while not self._is_over.wait(LOOP_INTERVAL_S):
            self._loops.append(calibration())

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """The last property is that of this step."""
        seconds = [value for name, value in report.user_properties if name == "cpu"]
        if seconds:
            self._parts[part_of(report.nodeid)] += float(str(seconds[-1]))  # type: ignore[assignment]  # a counter of seconds

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        """What costs most, and the sum beside the loop. Workers have ended by now."""
        self._is_over.set()
        self._loop_thread.join()
        own, children = (resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN))
        whole = own.ru_utime + own.ru_stime + children.ru_utime + children.ru_stime
        loops = self._loops or [calibration()]
        loop = sum(loops) / len(loops)
        terminalreporter.section("CPU seconds")
        for part, seconds in self._parts.most_common(LONGEST):
            terminalreporter.line(f"{seconds:8.1f} {part}")
        tests = sum(self._parts.values())
        terminalreporter.line(f"{tests:8.1f} all tests and what they set up")
        terminalreporter.line(f"{whole - tests:8.1f} collecting, and processes that outlived all tests")
        spread = f"{min(loops):.2f} to {max(loops):.2f}"
        terminalreporter.line(f"{whole:8.1f} in all: {whole / loop:.0f} loops of {loop:.2f} s ({len(loops)}: {spread})")


def pytest_configure(config: pytest.Config) -> None:
    """Every process measures, the first one adds up."""
    config.pluginmanager.register(Meter())
    if not hasattr(config, "workerinput"):
        config.pluginmanager.register(Bill())
