"""Prints what explore costs: `python -m benchmarks.explore [--spans N] [--hours 1,6,24] [--only NAME,...] [--runs N]`.

The default is 20 million spans, whose three layouts take an hour to make and 10 GB to keep; `--directory` keeps them
for the next run.
"""

import argparse
import subprocess
import sys
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.codec.__main__ import machine
from benchmarks.explore.data import Data, prepare
from benchmarks.explore.layouts import CONTRIB, SIGNOZ, SLUICE
from benchmarks.explore.measure import ENDPOINT, Contest, Timed
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
    print("\n| shape | window | endpoint p50, p95 ms | by hand p50 | endpoint / by hand ", end="")
    print("| contrib p50 | contrib / endpoint | SigNoz p50 | SigNoz / endpoint |")
    print("|---|---|---|---|---|---|---|---|---|", flush=True)


def _print_row(timed: Timed) -> None:
    p50 = {name: median(timed.seconds[name]) * 1e3 for name in _COLUMNS if name in timed.seconds}
    ours = p50.get(ENDPOINT)
    cells = [timed.shape.name, "trace" if timed.shape.trace else f"{timed.hours} h"]
    if ours is None:
        cells += ["-", f"{p50[SLUICE]:.0f}", "-", f"{p50[CONTRIB]:.0f}", "-", f"{p50[SIGNOZ]:.0f}", "-"]
    else:
        runs = sorted(timed.seconds[ENDPOINT])
        p95 = runs[min(len(runs) - 1, int(len(runs) * 0.95))] * 1e3
        cells += [f"{ours:.0f}, {p95:.0f}", f"{p50[SLUICE]:.0f}", f"{ours / p50[SLUICE]:.2f}"]
        for name in (CONTRIB, SIGNOZ):
            cells += [f"{p50[name]:.0f}", f"{p50[name] / ours:.1f}"]
    print(f"| {' | '.join(cells)} |", flush=True)
    for remark in timed.remarks:
        print(f"{timed.shape.name}, {timed.hours} h: {remark}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
