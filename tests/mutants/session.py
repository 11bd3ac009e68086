"""Runs mutants against the tests of their folders, some at once, each in a copy of the tree that it has to itself."""

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from queue import SimpleQueue
from typing import Any, Final

from tests.mutants import folders
from tests.mutants.mutant import Mutant
from tests.mutants.running import Outcome, run
from tests.mutants.trees import Tree, copy_for

PASS_S: Final = 1800.0  # for the tests of a folder without a mutant; the slowest takes a sixth
SPARE_S: Final = 60.0  # a run with a mutant has twice the time of the one without, and this


@dataclass(frozen=True)
class Result:
    """What became of a mutant. Without an outcome it was not run, and `why` says what kept it."""

    mutant: Mutant
    shown: str
    folder: str
    outcome: Outcome | None
    why: str = ""

    @property
    def survived(self) -> bool:
        """Whether the tests passed with it."""
        return self.outcome is not None and self.outcome.verdict == "survived"

    @property
    def caught(self) -> bool:
        """Whether they did not: a run that hangs, or takes all memory, is one that fails."""
        return self.outcome is not None and self.outcome.verdict != "survived"

    def record(self, **more: str) -> dict[str, Any]:
        """A line of a report."""
        return {
            "name": self.mutant.name,
            "identity": self.mutant.identity,
            "change": self.shown,
            "folder": self.folder,
            "verdict": self.outcome.verdict if self.outcome else "not run",
            "by": self.outcome.by if self.outcome else self.why,
            "seconds": round(self.outcome.seconds, 1) if self.outcome else 0.0,
            **more,
        }


class Session:
    """`jobs` copies of `pristine` below `workspace`, and how long each folder's tests take there."""

    def __init__(self, workspace: Path, pristine: Path, jobs: int, seed: int, say: Callable[[str], None]) -> None:
        self._pristine, self._jobs, self._seed, self._say = pristine, jobs, seed, say
        self._stop = threading.Event()
        self._trees = SimpleQueue[Tree]()
        for number in range(jobs):
            self._trees.put(copy_for(pristine, workspace / f"{pristine.name}-{number}"))
        self._without: dict[str, Outcome] = {}

    def results(self, drawn: Iterable[Sequence[Mutant]]) -> Iterator[Result]:
        """As they come: of each sequence the first mutant that compiles. The folders are run without one before."""
        drawn = [mutants for mutants in drawn if mutants]
        wanted = {folder for folder in (self._folder(mutants[0]) for mutants in drawn) if folder}
        with self._pool() as pool:
            for done in as_completed([pool.submit(self._run_without, folder) for folder in sorted(wanted)]):
                self._say(done.result())
            for result in as_completed([pool.submit(self._run_first, mutants) for mutants in drawn]):
                yield result.result()

    @contextmanager
    def _pool(self) -> Iterator[ThreadPoolExecutor]:
        """Whatever ends it early ends what runs as well."""
        pool = ThreadPoolExecutor(self._jobs)
        try:
            yield pool
        except BaseException:
            self._stop.set()
            raise
        finally:
            pool.shutdown(cancel_futures=True)

    @contextmanager
    def _tree(self) -> Iterator[Tree]:
        tree = self._trees.get()
        try:
            yield tree
        finally:
            self._trees.put(tree)

    def _folder(self, mutant: Mutant) -> str:
        try:
            return folders.folder_of(self._pristine, mutant.path)
        except LookupError:
            return ""

    def _run_without(self, folder: str) -> str:
        with self._tree() as tree:
            tests = folders.tests_in(tree.root, folder)
            outcome = run(tree, tests, PASS_S, self._seed, self._stop, mutated=False)
        self._without[folder] = outcome
        word = "passes" if outcome.verdict == "survived" else f"{outcome.verdict.upper()} {outcome.by}"
        return f"without a mutant  {outcome.seconds:4.0f} s  {folder} {word}"

    def _run_first(self, mutants: Sequence[Mutant]) -> Result:
        with self._tree() as tree:
            result = self._run_with(tree, mutants[0])
            for mutant in mutants[1:]:
                if result.outcome is not None:
                    break
                result = self._run_with(tree, mutant)
            return result

    def _run_with(self, tree: Tree, mutant: Mutant) -> Result:
        shown = mutant.shown((self._pristine / mutant.path).read_bytes())
        folder = self._folder(mutant)
        without = self._without.get(folder)
        if without is None or without.verdict != "survived":
            why = f"they fail without it: {without.by or without.verdict}" if without else "no folder of tests"
            return Result(mutant, shown, folder, None, why)
        try:
            if not tree.put(mutant):
                return Result(mutant, shown, folder, None, "it does not compile")
            tests = folders.tests_of(tree.root, mutant.path)
            limit_s = SPARE_S + 2 * without.seconds
            return Result(mutant, shown, folder, run(tree, tests, limit_s, self._seed, self._stop, mutated=True))
        finally:
            tree.restore(mutant)
