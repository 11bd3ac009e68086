"""Prints what explore costs: `python -m benchmarks.explore [--spans N] [--hours 1,6,24] [--only NAME,...] [--runs N]`.

The default is 20 million spans, whose three layouts take an hour to make and 10 GB to keep; `--directory` keeps them
for the next run.
"""

import argparse
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.codec.__main__ import machine
from benchmarks.explore.data import Data, prepare
from benchmarks.explore.layouts import CONTRIB, SIGNOZ, SLUICE
from benchmarks.explore.measure import ENDPOINT, Contest, Run, Timed
from benchmarks.explore.served import Served
from benchmarks.explore.shapes import Shape, shapes

_COLUMNS: Final = (ENDPOINT, SLUICE, CONTRIB, SIGNOZ)


def main() -> None:
    """Makes the data in a process of its own, then measures."""
    arguments = _arguments()
    if arguments.make:
        prepare(Path(arguments.directory), arguments.spans)
        return
    with ExitStack() as stack:
        directory = Path(arguments.directory or stack.enter_context(TemporaryDirectory(prefix="sluice-explore-")))
        made = [sys.executable, "-m", __package__, "--make", "--directory", str(directory)]
        subprocess.run([*made, "--spans", str(arguments.spans)], check=True)
        data = prepare(directory, arguments.spans)
        with Served(directory / "chdb") as served:
            _print_head(data, served)
            contest = Contest(served, arguments.runs)
            for shape in shapes():
                if not arguments.only or any(name in shape.name for name in arguments.only):
                    _measure(contest, shape, arguments.hours)


def _measure(contest: Contest, shape: Shape, windows: list[int]) -> None:
    for hours in windows[-1:] if shape.trace else windows:
        _print_row(contest.measure(shape, hours))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.explore", description=__doc__)
    parser.add_argument("--spans", type=int, default=20_000_000)
    parser.add_argument("--hours", type=_numbers, default=[1, 6, 24], help="windows")
    parser.add_argument("--only", type=lambda text: text.split(","), help="parts of names of shapes")
    parser.add_argument("--runs", type=int, default=15)
    parser.add_argument("--directory", help="where the data is, or is to be kept")
    parser.add_argument("--make", action="store_true", help=argparse.SUPPRESS)
    return parser.parse_args()


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def _print_head(data: Data, served: Served) -> None:
    ((version, cache, threads),) = served.run(
        "SELECT version(), getSetting('use_query_condition_cache'), getSetting('max_threads')"
    )
    print(f"{machine()}; ClickHouse {version} embedded, {threads} threads, query condition cache {cache}\n")
    print(f"{data.spans} spans in 24 hours, one part per day\n")
    print("| layout | insert, us CPU a span | merge, us CPU a span | bytes a span on disk |\n|---|---|---|---|")
    for cost in data.costs:
        print(f"| {cost.layout} | {cost.insert_us:.1f} | {cost.merge_us:.1f} | {cost.disk_bytes:.0f} |")
    print("\nms until the last byte, in brackets ms of CPU of caller, service and engine; ratios likewise\n")
    print("| shape | window | endpoint p50, p95 | by hand p50 | endpoint / by hand ", end="")
    print("| contrib p50 | contrib / endpoint | SigNoz p50 | SigNoz / endpoint |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)


def _print_row(timed: Timed) -> None:
    middle = {name: _middle(timed.runs[name]) for name in _COLUMNS if name in timed.runs}
    ours, hand = middle.get(ENDPOINT), middle[SLUICE]
    cells = [timed.shape.name, "trace" if timed.shape.trace else f"{timed.hours} h"]
    if ours is None:
        cells += ["-", _cell(hand), "-", _cell(middle[CONTRIB]), "-", _cell(middle[SIGNOZ]), "-"]
    else:
        walls = sorted(run.wall for run in timed.runs[ENDPOINT])
        p95 = walls[min(len(walls) - 1, int(len(walls) * 0.95))]
        cells += [f"{ours.wall:.0f}, {p95:.0f} ({ours.cpu:.0f})", _cell(hand), _ratio(ours, hand)]
        for name in (CONTRIB, SIGNOZ):
            cells += [_cell(middle[name]), _ratio(middle[name], ours)]
    print(f"| {' | '.join(cells)} |", flush=True)
    for remark in timed.remarks:
        print(f"{timed.shape.name}, {timed.hours} h: {remark}", file=sys.stderr, flush=True)


def _middle(runs: Sequence[Run]) -> Run:
    return Run(median(run.wall for run in runs), median(run.cpu for run in runs))


def _cell(run: Run) -> str:
    return f"{run.wall:.0f} ({run.cpu:.0f})"


def _ratio(one: Run, other: Run) -> str:
    return f"{one.wall / other.wall:.2f} ({one.cpu / other.cpu:.2f})"


if __name__ == "__main__":
    main()
