"""Runs tests in a copy of the tree: until the first that fails, for so long, in so much memory."""

import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Event
from typing import Final, Literal

import psutil  # type: ignore[import-untyped]  # it has no types

from tests.mutants.trees import Tree

Verdict = Literal["survived", "caught", "timeout", "memory"]

MEMORY_BYTES: Final = 6 * 2**30  # of a run with all its processes; a run without a mutant takes about a third
LOOK_S: Final = 0.5  # how often that is looked at
OUTPUT_BYTES: Final = 2**20  # of what pytest says, as much is read from its end
_FAILED: Final = re.compile(r"^(?:FAILED|ERROR) (\S.*?)(?: - .*)?$", re.MULTILINE)
_OURS: Final = ("SLUICE_", "PYTEST_", "PYTHON", "TEST_LONG", "CI")  # by which a run would be another


@dataclass(frozen=True)
class Outcome:
    """How a run ended. `by` is the test that failed, or what there was instead of one."""

    verdict: Verdict
    by: str
    seconds: float


def run(tree: Tree, tests: Sequence[str], limit_s: float, seed: int, stop: Event, *, mutated: bool) -> Outcome:
    """Run the tests. Property tests try the same in every run of a seed. A run that `stop` ends counts for nothing."""
    shutil.rmtree(tree.temporary, ignore_errors=True)
    shutil.rmtree(tree.root / ".hypothesis", ignore_errors=True)  # what failed with another mutant
    tree.temporary.mkdir()
    tree.temporary.chmod(0o755)  # PostgreSQL runs as nobody, and has its data there
    command = [
        str(tree.python),
        "-m",
        "pytest",
        "-x",
        "-q",
        "-p",
        "no:cacheprovider",
        f"--hypothesis-seed={seed}",
        *tests,
    ]
    begun = time.monotonic()
    with (tree.temporary / "output").open("wb") as output:
        process = subprocess.Popen(
            command,
            cwd=tree.root,
            env=_environment(tree, mutated=mutated),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
        try:
            ended = _watch(process, begun + limit_s, stop)
        finally:
            _end_all(process, tree)
    said = _tail(tree.temporary / "output")
    seconds = time.monotonic() - begun
    if ended is not None:
        return Outcome(ended, "", seconds)
    if process.returncode == 0:
        return Outcome("survived", "", seconds)
    failed = _FAILED.search(said)
    return Outcome("caught", failed[1] if failed else f"no test: {_last_words(process.returncode, said)}", seconds)


def _environment(tree: Tree, *, mutated: bool) -> dict[str, str]:
    kept = {name: value for name, value in os.environ.items() if not name.startswith(_OURS)}
    # Programs that tests start may stand beside the interpreter here; they are not copied.
    kept["PATH"] = os.pathsep.join((os.environ.get("PATH", os.defpath), str(Path(sys.executable).parent)))
    # A file with a mutant is not kept compiled: nothing but its time would tell it from the one without.
    return kept | {"TMPDIR": str(tree.temporary)} | ({"PYTHONDONTWRITEBYTECODE": "1"} if mutated else {})


def _watch(process: subprocess.Popen[bytes], deadline: float, stop: Event) -> Verdict | None:
    """None once it has ended by itself, else why it was ended."""
    while not stop.is_set():
        try:
            process.wait(LOOK_S)
            return None
        except subprocess.TimeoutExpired:
            if time.monotonic() > deadline:
                return "timeout"
            if _memory(process.pid) > MEMORY_BYTES:
                return "memory"
    return "timeout"


def _memory(pid: int) -> int:
    total = 0
    for process in _family(pid):
        try:
            total += process.memory_info().rss
        except psutil.Error:
            continue  # it has gone
    return total


def _family(pid: int) -> list[psutil.Process]:
    try:
        parent = psutil.Process(pid)
        return [parent, *parent.children(recursive=True)]
    except psutil.Error:
        return []


def _end_all(process: subprocess.Popen[bytes], tree: Tree) -> None:
    """End what is left of a run: its family, and servers whose parent is gone, by the directory that is theirs."""
    left = {each.pid: each for each in (_family(process.pid) if process.poll() is None else [])}
    for each in psutil.process_iter():
        try:
            if each.environ().get("TMPDIR") == str(tree.temporary) or str(tree.temporary) in " ".join(each.cmdline()):
                left[each.pid] = each
        except psutil.Error:
            continue  # it has gone, or is another user's
    for each in left.values():
        try:
            each.send_signal(signal.SIGKILL)
        except psutil.Error:
            continue
    psutil.wait_procs([each for each in left.values() if each.pid != process.pid], timeout=10)
    process.wait()


def _tail(path: Path) -> str:
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - OUTPUT_BYTES))
        return file.read().decode(errors="replace")


def _last_words(code: int, said: str) -> str:
    """Why there are no tests that failed: a signal, or what kept pytest from starting."""
    if code < 0:
        return f"ended by {signal.Signals(-code).name}"
    lines = [line for line in said.splitlines() if line.strip()]
    return lines[-1].strip()[:200] if lines else f"exit code {code}"
