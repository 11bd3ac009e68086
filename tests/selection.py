"""Which tests a run has, and how large they are.

`make test` has everything but what is long by nature; `make test-long` has that, and nothing else:

- tests marked `long`;
- tests marked `sized`, which `make test` runs as well, but smaller: `scaled` says how small;
- tests on a second store (PostgreSQL; ClickHouse as a server), which `make test` runs only where they are marked
  `both_stores`: where SQL, races, claims or migrations are at stake, or how statements and answers travel.

A test that is named by its full name (`pytest tests/x.py::test_y`) runs in any case.
"""

import os
import subprocess
from collections.abc import Sequence
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
    if any("::" in argument for argument in config.args):
        return
    chosen: list[pytest.Item] = []
    others: list[pytest.Item] = []
    for item in items:
        marks = {mark.name for mark in item.iter_markers()}
        (chosen if is_selected(marks, long=LONG) else others).append(item)
    if others:
        config.hook.pytest_deselected(items=others)
        items[:] = chosen


def pytest_report_header() -> Sequence[str]:
    """What is run, of which commit."""
    if not LONG:
        return ()
    root = Path(__file__).parents[1]
    described = subprocess.run(
        ["git", "describe", "--always", "--dirty"], cwd=root, capture_output=True, text=True, check=False
    )
    return (f"what is long by nature, at commit {described.stdout.strip() or 'unknown'}",)
