"""`docs/faults.md` against the tests that it names."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
DOCUMENT = ROOT / "docs" / "faults.md"
DEFINED = re.compile(r"^(?:async )?def (test_\w+)", re.MULTILINE)
NAMED = re.compile(r"`(test_\w+)`")


class Row(NamedTuple):
    """One fault of the table."""

    number: str
    tests: list[str]
    remark: str


def rows() -> list[Row]:
    cells = [[cell.strip() for cell in line.split("|")] for line in DOCUMENT.read_text().splitlines()]
    return [Row(row[1], NAMED.findall(row[4]), row[5]) for row in cells if len(row) == 7 and row[1].isdigit()]


def defined(directory: Path) -> set[str]:
    return {name for path in directory.rglob("test_*.py") for name in DEFINED.findall(path.read_text())}


def test_every_fault_has_a_row_and_a_test_or_a_reason() -> None:
    assert [row.number for row in rows()] == [str(number) for number in range(1, 31)]
    assert [row.number for row in rows() if not row.tests and not row.remark.startswith("not yet")] == []


def test_every_test_that_is_named_is_there() -> None:
    assert set(NAMED.findall(DOCUMENT.read_text())) - defined(ROOT / "tests") == set()


def test_every_test_of_a_fault_is_in_its_row() -> None:
    named = {name: row.number for row in rows() for name in row.tests}
    for name in defined(ROOT / "tests" / "faults"):
        if number := re.match(r"test_fault_(\d\d)_", name):
            assert named.get(name) == str(int(number[1])), name
