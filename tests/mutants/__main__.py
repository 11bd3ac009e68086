"""`python -m tests.mutants --count N --seed S`: changes the code in N places, one at a time, and runs the tests of the
changed module's folder. What they pass with is a survivor: a defect of its kind they would not catch.

With `--base REV` survivors are run against the tests of REV as well. What those catch newly survives: the suite has
lost something since, and the exit code is 1. It is 2 when something could not be run or compared, else 0, whatever
survives.

Why our own: the libraries that are kept do something else. mutmut 3 (19 distributions) traces the whole suite first,
then forks a process that has imported everything, which the engine in the process does not survive, and mutates
functions alone. Cosmic Ray (28) has one command for all mutants and changes the tree in place; it removes no statements
and changes no texts. universalmutator (14) goes through one file at a time with regular expressions. None draws by a
seed over all packages, runs the tests of a module's own folder, or builds Cython.
"""

import argparse
import json
import signal
import sys
import tempfile
from collections import Counter
from collections.abc import Iterable, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import IO, Final

from tests.mutants import drawing, trees
from tests.mutants.comparison import compare
from tests.mutants.mutant import Identity, Mutant
from tests.mutants.session import Result, Session

ROOT: Final = Path(__file__).resolve().parents[2]


def main(arguments: Sequence[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(130))  # ends what runs, removes the copies
    try:
        if options.list:
            for mutants in _chosen(ROOT, options):
                print(f"{mutants[0].name}\n    {mutants[0].shown((ROOT / mutants[0].path).read_bytes())}")
            return 0
        return _run(options)
    except (LookupError, trees.TreeError) as error:
        print(error, file=sys.stderr)
        return 2


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=(__doc__ or "").partition("\n\n")[0])
    parser.add_argument("--count", type=int, default=60, help="how many are drawn (default 60)")
    parser.add_argument(
        "--seed", type=int, default=1, help="the same seed draws the same of the same source (default 1)"
    )
    parser.add_argument(
        "--only", action="append", metavar="NAME", help="this one, as a run has named it; several times"
    )
    parser.add_argument("--again", metavar="FILE", help="those of a report, wherever their lines stand now")
    parser.add_argument("--survivors", action="store_true", help="of that report, those that were not caught")
    parser.add_argument("--base", metavar="REV", help="run survivors against the tests of this revision as well")
    parser.add_argument("--jobs", type=int, default=2, help="how many run at once (default 2)")
    parser.add_argument("--report", metavar="FILE", help="what becomes of each, a line of JSON as it is known")
    parser.add_argument("--list", action="store_true", help="say what is drawn and run nothing")
    return parser


def _chosen(root: Path, options: argparse.Namespace) -> list[tuple[Mutant, ...]]:
    if options.only:
        return [(drawing.find(root, name),) for name in options.only]
    if not options.again:
        return drawing.draw(root, options.count, options.seed)
    records = [json.loads(line) for line in Path(options.again).read_text(encoding="utf-8").splitlines()]
    wanted = {
        Identity(*record["identity"]): record["name"]
        for record in records
        if "base" not in record and (record["verdict"] in {"survived", "not run"} or not options.survivors)
    }
    found = list[tuple[Mutant, ...]]()
    for identity, name in wanted.items():
        if (mutant := drawing.find_again(root, identity)) is not None:
            found.append((mutant,))
        else:
            print(f"gone      {name}: no such line is left")
    return found


def _run(options: argparse.Namespace) -> int:
    with ExitStack() as stack:
        workspace = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="mutants-")))
        workspace.chmod(0o755)  # PostgreSQL runs as nobody, and has its data below
        pristine = trees.copy_tree(ROOT, workspace / "tree")

        def session(tree: Path) -> Session:
            return Session(workspace, tree, options.jobs, options.seed, _say)

        chosen = _chosen(pristine, options)  # of a report, it may be, whose place this run's takes
        report = stack.enter_context(Path(options.report).open("w", encoding="utf-8")) if options.report else None
        results = []
        for result in session(pristine).results(chosen):
            results.append(result)
            _tell(result, f"[{len(results)}/{len(chosen)}]", report)
        survivors = [result for result in results if result.survived]
        before: list[Result] = []
        if options.base and survivors:
            _say(f"{len(survivors)} survived; now with the tests of {options.base}")
            product = trees.copy_with_tests(ROOT, options.base, pristine, workspace / "before")
            before = compare(
                survivors,
                session,
                product,
                lambda: trees.copy_revision(ROOT, options.base, workspace / "revision"),
                trees.renamed_since(ROOT, options.base),
            )
            for result in before:
                _record(result, report, base=options.base)
        return _summary(results, before, options.base)


def _say(line: str) -> None:
    print(line, flush=True)


def _tell(result: Result, number: str, report: IO[str] | None) -> None:
    if result.outcome is None:
        _say(f"{number} NOT RUN   {result.mutant.name}: {result.why}")
    else:
        word = "SURVIVED" if result.survived else result.outcome.verdict
        by = f"  by {result.outcome.by}" if result.outcome.by else ""
        _say(f"{number} {word:8}  {result.outcome.seconds:4.0f} s  {result.mutant.name}{by}")
        if result.survived:
            _say(f"    {result.shown}")
    _record(result, report)


def _record(result: Result, report: IO[str] | None, **more: str) -> None:
    if report is not None:
        report.write(json.dumps(result.record(**more)) + "\n")
        report.flush()


def _summary(results: Sequence[Result], before: Sequence[Result], base: str | None) -> int:
    """What is to be known at the end; the exit code."""
    verdicts = Counter(result.outcome.verdict if result.outcome else "not run" for result in results)
    _say(f"{len(results)} mutants: " + ", ".join(f"{count} {verdict}" for verdict, count in verdicts.most_common()))
    _list("survived", (result for result in results if result.survived))
    newly = [result for result in before if result.caught]
    unknown = [result for result in (*results, *before) if result.outcome is None]
    _list("not run or compared", unknown)
    if base:
        _list(f"newly survives: the tests of {base} catch it", newly)
        _say(f"{len(newly)} newly survive")
    return 1 if newly else 2 if unknown else 0


def _list(title: str, results: Iterable[Result]) -> None:
    for number, result in enumerate(results):
        if number == 0:
            _say(f"\n{title}:")
        by = result.outcome.by or result.outcome.verdict if result.outcome else result.why
        _say(f"  {result.mutant.name}\n      {result.shown}" + ("" if by == "survived" else f"\n      {by}"))


if __name__ == "__main__":
    sys.exit(main())
