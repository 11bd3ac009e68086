"""No package outgrows its ceiling: who raises one in `ceilings.json` says in the commit what it is spent on."""

from pathlib import Path

import pytest

from tests.size.measure import PRODUCT, SUITE, ceilings, python_size, sizes, statements


def test_every_package_is_below_its_ceiling() -> None:
    found, allowed = sizes(), ceilings()
    measured = {package: size.units for package, size in found.items()} | {SUITE: found["tests"].lines}
    assert {package: size for package, size in measured.items() if size > allowed[package]} == {}


def test_ceilings_leave_little_room() -> None:
    """One that is never lowered would allow a package to grow again what it has lost."""
    found = sizes()
    assert {
        package: limit
        for package, limit in ceilings().items()
        if package in PRODUCT and limit > 1.03 * found[package].units
    } == {}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("", 0),
        ('"""A docstring."""\n\nX = 1  # a comment\n', 1),
        ("def f() -> int:\n    '''Says it.'''\n    return 1\n", 2),
        ("class A:\n    '''Says it.'''\n\n    async def f(self):\n        '''Says it.'''\n        'a text'\n", 3),
        ("if x: y = (1,\n    2)\nelif z: pass\nelse: w()\n", 5),
    ],
)
def test_docstrings_comments_and_layout_do_not_count(source: str, expected: int) -> None:
    assert statements(source) == expected


def test_lines_of_cython_count(tmp_path: Path) -> None:
    python, cython = tmp_path / "a.py", tmp_path / "b.pyx"
    python.write_text("import os\n\nX = os\n")
    cython.write_text("cdef int x = 1\n")
    assert python_size([python, cython]) == (2, 4)
