"""Mutants in copies of a small tree, run by a real pytest: what is caught, what survives, what is left behind."""

import subprocess
import sys
import threading
from collections.abc import Callable
from pathlib import Path

import psutil  # type: ignore[import-untyped]  # it has no types
import pytest

from tests.mutants import drawing, trees
from tests.mutants.comparison import compare
from tests.mutants.running import run
from tests.mutants.session import Session

PRODUCT = "def least(a, b):\n    return a if a < b else b\n"
WEAK = "from product.code import least\n\n\ndef test_weak():\n    assert least(1, 1) == 1\n"
STRONG = WEAK + "\n\ndef test_strong():\n    assert least(1, 2) == 1\n"
BROKEN = WEAK + "\n\ndef test_broken():\n    assert not least\n"
OPPOSITE = "product/code.py:2:19 compare:>="
NOTHING = "product/code.py:2:12 return:None"
# Stands for a compiler: refuses what it was told to, else leaves something built.
SETUP = """
import pathlib, sys

folder = pathlib.Path("proto/otlp/kernel")
if "<=" in (folder / "k.pxi").read_text():
    sys.exit("error")
(folder / "_kernel.so").write_text((folder / "k.pxi").read_text())
"""
BUILT = """
def test_built():
    assert "a >= b" not in open("proto/otlp/kernel/_kernel.so").read()
"""
SLEEPS = f"""
import subprocess, time

def test_sleeps():
    with open({{path!r}}, "w") as file:
        child = subprocess.Popen([{sys.executable!r}, "-c", "import time; time.sleep(600)"], start_new_session=True)
        file.write(str(child.pid))
    time.sleep(600)
"""


@pytest.fixture
def tree(tmp_path: Path) -> Callable[[str, str], Path]:
    """A tree of this name with one module and these tests, as `copy_tree` leaves it."""

    def make(name: str, tests: str) -> Path:
        root = tmp_path / name
        for path, text in (
            ("product/code.py", PRODUCT),
            ("tests/product/test_code.py", tests),
            # Their plugins would take most of the time.
            (
                "pyproject.toml",
                "[tool.pytest.ini_options]\naddopts = '-p no:schemathesis -p no:xdist'\npythonpath = '.'\n",
            ),
        ):
            (root / path).parent.mkdir(parents=True, exist_ok=True)
            (root / path).write_text(text)
        (root / drawing.KERNEL).mkdir(parents=True)
        return root

    return make


def test_what_the_tests_pass_with_survives_and_what_another_suite_catches_newly_survives(
    tmp_path: Path, tree: Callable[[str, str], Path]
) -> None:
    said = list[str]()

    def session(root: Path) -> Session:
        return Session(tmp_path, root, jobs=2, seed=1, say=said.append)

    head = tree("head", WEAK)
    chosen = [(drawing.find(head, name),) for name in (OPPOSITE, NOTHING)]
    opposite, nothing = sorted(session(head).results(chosen), key=lambda each: each.mutant.name, reverse=True)
    assert (opposite.survived, opposite.caught, nothing.survived, nothing.caught) == (True, False, False, True)
    assert nothing.outcome is not None
    assert nothing.outcome.by == "tests/product/test_code.py::test_weak"

    # Tests that fail on today's product say nothing: the mutant goes into the product that they are of.
    found = compare([opposite], session, tree("before", BROKEN), lambda: tree("revision", STRONG))
    assert [(each.caught, each.outcome and each.outcome.by) for each in found] == [
        (True, "tests/product/test_code.py::test_strong")
    ]
    assert [line.partition(" s  ")[2] for line in said] == [
        "tests/product passes",
        "tests/product CAUGHT tests/product/test_code.py::test_broken",
        "tests/product passes",
    ]


def test_a_mutant_of_a_file_that_was_renamed_goes_into_the_file_that_it_was(
    tmp_path: Path, tree: Callable[[str, str], Path]
) -> None:
    def session(root: Path) -> Session:
        return Session(tmp_path, root, jobs=1, seed=1, say=lambda _: None)

    def git(*arguments: str) -> None:
        subprocess.run(["git", "-c", "user.name=a", "-c", "user.email=a@example.org", *arguments], cwd=head, check=True)

    head = tree("head", WEAK)
    git("init", "--quiet")
    git("add", ".")
    git("commit", "--quiet", "--message=before")
    for old, new in (("code", "step"), ("step", "least")):
        git("mv", f"product/{old}.py", f"product/{new}.py")
        git("commit", "--quiet", f"--message={new}")
    renamed = trees.renamed_since(head, "HEAD~2")
    assert renamed == {"product/least.py": "product/code.py"}
    (head / "tests/product/test_code.py").write_text(WEAK.replace("product.code", "product.least"))
    mutant = drawing.find(head, OPPOSITE.replace("code", "least"))
    (survivor,) = session(head).results([(mutant,)])
    assert survivor.survived

    # The tests of before import a module that is no longer there.
    before = tree("before", STRONG)
    (before / "product/code.py").rename(before / "product/least.py")
    (found,) = compare([survivor], session, before, lambda: tree("revision", STRONG), renamed)
    assert (found.caught, found.mutant.path) == (True, "product/code.py")


def test_a_kernel_that_does_not_compile_gives_way_to_the_next_and_the_built_one_comes_back(
    tmp_path: Path, tree: Callable[[str, str], Path]
) -> None:
    pristine = tree("tree", WEAK)
    kernel, tests = pristine / drawing.KERNEL, pristine / "tests" / "proto" / "otlp"
    tests.mkdir(parents=True)
    (tests / "test_built.py").write_text(BUILT)
    (pristine / "setup.py").write_text(SETUP)
    (kernel / "k.pxi").write_text("cdef f(a, b):\n    return a < b or a > b\n")
    (kernel / "_kernel.so").write_text("as it was")
    wanted = [f"{drawing.KERNEL}/k.pxi:2:{place}" for place in ("14 compare:<=", "23 compare:>=")]
    mutants = [drawing.find(pristine, name) for name in wanted]
    (result,) = Session(tmp_path, pristine, jobs=1, seed=1, say=lambda _: None).results([mutants])
    assert (result.mutant, result.caught) == (mutants[1], True)
    assert result.outcome is not None
    assert result.outcome.by == "tests/proto/otlp/test_built.py::test_built"
    assert (tmp_path / "tree-0" / drawing.KERNEL / "_kernel.so").read_text() == "as it was"


def test_a_run_that_hangs_is_ended_with_all_that_it_has_started(
    tmp_path: Path, tree: Callable[[str, str], Path]
) -> None:
    started = tmp_path / "started"
    copied = trees.copy_for(tree("tree", SLEEPS.format(path=str(started))), tmp_path / "copy")
    stop = threading.Event()
    watcher = threading.Thread(target=lambda: _when(started, stop))
    watcher.start()
    outcome = run(copied, ["tests/product/test_code.py"], 600.0, 1, stop, mutated=True)
    watcher.join()
    assert outcome.verdict == "timeout"
    assert not psutil.pid_exists(int(started.read_text()))


def _when(written: Path, stop: threading.Event) -> None:
    """Stop the run once its test has started what it starts, or after a minute."""
    for _ in range(600):
        if written.exists() and written.read_text():
            break
        threading.Event().wait(0.1)
    stop.set()


def test_a_copy_runs_its_own_code_from_everywhere_and_is_as_before_once_the_mutant_is_out(
    tmp_path: Path, tree: Callable[[str, str], Path]
) -> None:
    pristine = tree("tree", WEAK)
    copied, path = trees.copy_for(pristine, tmp_path / "copy"), pristine / "product" / "code.py"
    mutant = drawing.find(pristine, OPPOSITE)

    def least() -> str:
        command = [str(copied.python), "-c", "from product.code import least; print(least(1, 2))"]
        return subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=True).stdout.strip()

    assert least() == "1"
    assert copied.put(mutant)
    assert (least(), path.read_text()) == ("2", PRODUCT)
    copied.restore(mutant)
    mended = copied.root / "product" / "code.py"
    assert (least(), mended.read_text(), mended.stat().st_mtime_ns) == ("1", PRODUCT, path.stat().st_mtime_ns)
