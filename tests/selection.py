"""Selects the tests of a run, and their size.

`make test` runs all tests except the slow ones. `make test-long` runs exactly the slow ones:

- tests marked `long`, such as tests with kills and outages;
- tests marked `sized`, which `make test` runs at a smaller size, too (`scaled` returns the size);
- tests on a second store (PostgreSQL, or ClickHouse as a server). `make test` runs them only if they are marked
  `both_stores`, for SQL, races, claims, migrations, or the transport of statements and responses.

A test that is named (`pytest tests/x.py::test_y`) always runs. `TEST_LONG=1` runs it at full size.
"""

import os
import subprocess
from collections import Counter
from functools import cache
from pathlib import Path
from typing import Final, TypeVar

import pytest

LONG: Final = bool(os.environ.get("TEST_LONG"))

T = TypeVar("T")


def scaled(quick: T, full: T) -> T:
    """How much a `sized` test does: in `make test`, and in `make test-long`."""
    return full if LONG else quick


def is_selected(marks: set[str], *, long: bool) -> bool:
    """Whether a run has a test with these marks."""
    if "sized" in marks and ("both_stores" in marks or "second_store" not in marks) and "long" not in marks:
        return True
    belongs_to_long = "long" in marks or ("second_store" in marks and "both_stores" not in marks)
    return belongs_to_long is long


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Take out what the other run has."""
    named = [argument.partition("::")[2] for argument in config.args if "::" in argument]
    chosen: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        asked_for = item.nodeid.partition("::")[2].startswith(tuple(named))
        (chosen if asked_for or is_selected(marks, long=LONG) else others).append(item)
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = chosen


@cache
def commit() -> str:
    """What is tested."""
    asked = ["git", "describe", "--always", "--dirty"]
    try:
        done = subprocess.run(asked, cwd=Path(__file__).parents[1], capture_output=True, text=True, check=False)
    except OSError:
        return "no commit: there is no git"
    return done.stdout.strip() or "no commit"


def pytest_addoption(parser: pytest.Parser) -> None:
    """`--say-what-ran`."""
    parser.addoption("--say-what-ran", action="store_true", help="say at the end what was run, and of which commit")


def pytest_configure(config: pytest.Config) -> None:
    """Look at the commit before somebody makes another."""
    if config.getoption("--say-what-ran"):
        commit()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    """What was run, and of which commit, where that is asked for."""
    if not config.getoption("--say-what-ran"):
        return
    seconds: Counter[str] = Counter()
    outcomes: dict[str, Counter[str]] = {}
    for outcome in ("passed", "failed", "error"):
        for report in terminalreporter.stats.get(outcome, ()):
            file = report.nodeid.partition("::")[0]
            seconds[file] += report.duration
            outcomes.setdefault(file, Counter())[outcome] += 1
    terminalreporter.section(f"what ran, at {commit()}")
    for file, counts in sorted(outcomes.items()):
        said = ", ".join(f"{count} {outcome}" for outcome, count in counts.items())
        terminalreporter.write_line(f"{file}: {said} in {seconds[file]:.0f} s")
