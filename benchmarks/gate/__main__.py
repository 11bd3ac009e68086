"""Says whether a change made something worse that worked.

A revision and the tree that one stands in are measured in turns, pair by pair: eight pairs of each figure, and more
where the noise leaves it open. Exit code 0: nothing is worse by more than 5 %, or a line `Gate: FIGURE` of a page of
docs/adr that the base does not have says that it may be; 1: something is; 2: it cannot be told on this machine.
"""

import signal
import sys
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, NoReturn

from benchmarks.command import command, is_wanted
from benchmarks.gate import explores, ingest, memory, starts
from benchmarks.gate.judgement import FEWEST, Judged, Outcome, Verdict, judged, outcome
from benchmarks.gate.sides import Bench, Measure, Pair
from benchmarks.gate.trees import Tree, TreeError, base_tree, check, default_base, head_tree
from benchmarks.processes import spawned
from benchmarks.report import Table, Void, print_machine
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
    parser = command(__package__, __doc__, only="")
    parser.add_argument("--base", help="a revision; default: where the branch left main, or the last commit on it")
    text = f"at most, of each figure; {FEWEST} at least (%(default)s)"
    parser.add_argument("--pairs", type=int, default=16, help=text)
    arguments = parser.parse_args()
    if arguments.pairs < FEWEST:
        parser.error(f"--pairs: {FEWEST} at least")
    signal.signal(signal.SIGTERM, _ended)  # or what was started would go on
    wanted = [figure for figure in FIGURES if is_wanted(figure, arguments.only)]
    with TemporaryDirectory(prefix="sluice-gate-") as place, spawned() as senders:
        directory = Path(place)
        try:
            base, head = _trees(arguments.base, directory / "base")
            added = decisions.added(decisions.read(base.directory / "docs" / "adr"), decisions.read(), "Gate")
            told = _measured(Bench(base, head, directory, senders), wanted, arguments.pairs)
        except (TreeError, Void, AssertionError) as error:  # the last: a command did not start
            sys.exit(f"nothing can be said: {error}")
    return _concluded(outcome(told, added))


def _trees(revision: str | None, directory: Path) -> tuple[Tree, Tree]:
    head = head_tree()
    directory.mkdir()
    base = base_tree(revision or default_base(), directory)
    print_machine(*_PACKAGES)
    for tree in (base, head):
        check(tree)
        print(f"{tree.name}: {tree.title}")
    return base, head


def _measured(bench: Bench, wanted: Sequence[str], most: int) -> dict[str, Verdict]:
    table = new_table()
    told: dict[str, Verdict] = {}
    for figures, session in _SESSIONS:
        asked = [figure for figure in figures if figure in wanted]
        if asked:
            with session(bench) as measure:
                told |= told_of(measure, asked, most, table)
    return told


def new_table() -> Table:
    """Of verdicts."""
    columns = {"figure": "", "base": ".3g", "head": ".3g", "head / base (99 % interval)": "", "pairs": ""}
    return Table({**columns, "verdict": ""})


def told_of(measure: Measure, asked: Collection[str], most: int, table: Table) -> dict[str, Verdict]:
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
                _print(table, figure, taken[figure], one)
    return told


def _print(table: Table, figure: str, pairs: Sequence[Pair], one: Judged) -> None:
    base, head = (median(values) for values in zip(*pairs, strict=True))
    ratio = f"**{one.ratio:.3f}** ({one.lower:.3f} to {one.upper:.3f})"
    table.row(figure, f"{base:.3g} {FIGURES[figure]}", head, ratio, one.pairs, one.verdict.value)


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


if __name__ == "__main__":
    sys.exit(main())
