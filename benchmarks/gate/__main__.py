"""Says whether a change made something worse that worked: `python -m benchmarks.gate [--base REV] [--only NAME,...]`.

A revision and the tree that one stands in are measured in turns, pair by pair: eight pairs of each figure, and more
where the noise leaves it open. Exit code 0: nothing is worse by more than 5 %, or a line `Gate: FIGURE` of a page of
docs/adr that the base does not have says that it may be; 1: something is; 2: it cannot be told on this machine.
"""

import argparse
import signal
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import AbstractContextManager
from importlib.metadata import version
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, NoReturn

from benchmarks.codec.__main__ import machine
from benchmarks.gate import explores, ingest, memory, starts
from benchmarks.gate.judgement import FEWEST, Judged, Outcome, Verdict, judged, outcome
from benchmarks.gate.sides import Bench, Measure, Pair, Void
from benchmarks.gate.trees import Tree, TreeError, base_tree, check, default_base, head_tree
from tests import decisions

_PACKAGES: Final = ("chdb-core", "clickhouse-connect", "aiohttp", "uvloop", "isal")
_STEP: Final = 4  # pairs from one look to the next
_SESSIONS: Final[Sequence[tuple[Mapping[str, str], Callable[[Bench], AbstractContextManager[Measure]]]]] = (
    (ingest.FIGURES, ingest.session),
    (explores.FIGURES, explores.session),
    (memory.FIGURES, memory.session),
    (starts.FIGURES, starts.session),
)
FIGURES: Final = {figure: unit for figures, _ in _SESSIONS for figure, unit in figures.items()}


def main() -> int:
    """Checks out, measures, prints; the exit code."""
    arguments = _arguments()
    signal.signal(signal.SIGTERM, _ended)  # or what was started would go on
    wanted = [figure for figure in FIGURES if not arguments.only or any(part in figure for part in arguments.only)]
    with TemporaryDirectory(prefix="sluice-gate-", dir=arguments.directory) as place:
        directory = Path(place)
        try:
            base, head = _trees(arguments.base, directory / "base")
            added = decisions.added(decisions.read(base.directory / "docs" / "adr"), decisions.read(), "Gate")
            with ProcessPoolExecutor(1, get_context("spawn")) as senders:
                told = _measured(Bench(base, head, directory, senders), wanted, arguments.pairs)
        except (TreeError, Void, AssertionError) as error:  # the last: a command did not start
            sys.exit(f"nothing can be said: {error}")
    return _concluded(outcome(told, added))


def _trees(revision: str | None, directory: Path) -> tuple[Tree, Tree]:
    head = head_tree()
    directory.mkdir()
    base = base_tree(revision or default_base(), directory)
    print(f"{machine()}, {', '.join(f'{name} {version(name)}' for name in _PACKAGES)}")
    for tree in (base, head):
        check(tree)
        print(f"{tree.name}: {tree.title}")
    print("\n| figure | base | head | head / base (99 % interval) | pairs | |\n|---|---|---|---|---|---|", flush=True)
    return base, head


def _measured(bench: Bench, wanted: Sequence[str], most: int) -> dict[str, Verdict]:
    told: dict[str, Verdict] = {}
    for figures, session in _SESSIONS:
        asked = [figure for figure in figures if figure in wanted]
        if asked:
            with session(bench) as measure:
                told |= told_of(measure, asked, most)
    return told


def told_of(measure: Measure, asked: Collection[str], most: int) -> dict[str, Verdict]:
    """Pairs until each figure is told, or there are as many as there may be."""
    taken: dict[str, list[Pair]] = {figure: [] for figure in asked}
    told: dict[str, Verdict] = {}
    for number in range(1, most + 1):
        for figure, pair in measure(number, taken.keys() - told.keys()).items():
            if figure in taken and figure not in told:
                taken[figure].append(pair)
        if number < most and (number < FEWEST or (number - FEWEST) % _STEP):
            continue
        for figure in [each for each in taken if each not in told]:
            one = judged([pair.ratio for pair in taken[figure]])
            if number == most or one.verdict is not Verdict.UNTOLD:
                told[figure] = one.verdict
                _print(figure, taken[figure], one)
    return told


def _print(figure: str, pairs: Sequence[Pair], one: Judged) -> None:
    base, head = (median(values) for values in zip(*pairs, strict=True))
    cells = (
        figure,
        f"{base:.3g} {FIGURES[figure]}",
        f"{head:.3g}",
        f"**{one.ratio:.3f}** ({one.lower:.3f} to {one.upper:.3f})",
        one.pairs,
        one.verdict.value,
    )
    print(f"| {' | '.join(map(str, cells))} |", flush=True)


def _concluded(seen: Outcome) -> int:
    print()
    if seen.allowed:
        print(f"A new page of docs/adr allows it: {', '.join(seen.allowed)}.")
    if seen.refused:
        print(f"Worse by more than 5 %: {', '.join(seen.refused)}.")
        print("Mend it, or weigh it on a page of docs/adr, with a line of its own for each:\n")
        print("\n".join(f"    Gate: {figure}" for figure in seen.refused))
    if seen.untold:
        print(f"Cannot be told on this machine: {', '.join(seen.untold)}. Again when it is quieter, with --only.")
    if not seen.exit_code:
        print("Nothing is worse without a decision.")
    return seen.exit_code


def _ended(*_: object) -> NoReturn:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)  # what follows is not to be broken off
    sys.exit(128 + signal.SIGTERM)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gate", description=__doc__)
    parser.add_argument("--base", help="a revision; default: where the branch left main, or the last commit on it")
    parser.add_argument(
        "--only", type=lambda text: text.split(","), help=f"parts of names of figures: {', '.join(FIGURES)}"
    )
    parser.add_argument(
        "--pairs", type=int, default=16, help=f"at most, of each figure; {FEWEST} at least (default 16)"
    )
    parser.add_argument("--directory", help="where data goes, on a disk worth measuring")
    arguments = parser.parse_args()
    if arguments.pairs < FEWEST:
        parser.error(f"--pairs: {FEWEST} at least")
    return arguments


if __name__ == "__main__":
    sys.exit(main())
