"""Prints what explore costs.

The default is 20 million spans, whose three layouts take an hour to make and 10 GB to keep; `--directory` keeps them
for the next run. Times are ms until the last byte, in brackets ms of CPU of caller, service and engine; so are ratios.
"""

import sys
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.command import command, is_wanted
from benchmarks.explore.data import Data, prepare
from benchmarks.explore.layouts import CONTRIB, SIGNOZ, SLUICE
from benchmarks.explore.measure import ENDPOINT, Contest, Run, Timed
from benchmarks.explore.served import Served
from benchmarks.explore.shapes import shapes
from benchmarks.processes import apart
from benchmarks.report import Table, print_machine, quantile

_COLUMNS: Final = (
    *("shape", "window", "endpoint p50, p95", "by hand p50", "endpoint / by hand"),
    *("contrib p50", "contrib / endpoint", "SigNoz p50", "SigNoz / endpoint"),
)


def main() -> None:
    """Makes the data in a process of its own, then measures."""
    parser = command(__package__, __doc__, rounds=15, only="")
    parser.add_argument("--spans", type=int, default=20_000_000)
    parser.add_argument("--hours", type=_numbers, default=[1, 6, 24], help="windows")
    parser.add_argument("--directory", help="where the data is, or is to be kept")
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="sluice-explore-") as made:
        directory = Path(arguments.directory or made)
        data = apart(prepare, directory, arguments.spans)
        with Served(directory / "chdb") as served:
            _print_head(data, served)
            contest, table = Contest(served, arguments.rounds), Table(dict.fromkeys(_COLUMNS, ""))
            for shape in shapes():
                for hours in arguments.hours[-1:] if shape.trace else arguments.hours:
                    if is_wanted(shape.name, arguments.only):
                        _print_row(table, contest.measure(shape, hours))


def _numbers(text: str) -> list[int]:
    return [int(each) for each in text.split(",")]


def _print_head(data: Data, served: Served) -> None:
    ((version, cache, threads),) = served.run(
        "SELECT version(), getSetting('use_query_condition_cache'), getSetting('max_threads')"
    )
    about = f"ClickHouse {version} embedded, {threads} threads, query condition cache {cache}"
    print_machine(about=f"{about}; {data.spans} spans in 24 hours, one part per day")
    columns = {"layout": "", "insert, us CPU a span": ".1f", "merge, us CPU a span": ".1f"}
    table = Table({**columns, "bytes a span on disk": ".0f"})
    for cost in data.costs:
        table.row(cost.layout, cost.insert_us, cost.merge_us, cost.disk_bytes)


def _print_row(table: Table, timed: Timed) -> None:
    middle = {name: _middle(runs) for name, runs in timed.runs.items()}
    ours, hand = middle.get(ENDPOINT), middle[SLUICE]
    endpoint = "-"
    if ours is not None:
        p95 = quantile((run.wall for run in timed.runs[ENDPOINT]), 0.95)
        endpoint = f"{ours.wall:.0f}, {p95:.0f} ({ours.cpu:.0f})"
    cells = [timed.shape.name, "trace" if timed.shape.trace else f"{timed.hours} h", endpoint]
    cells += [_cell(hand), _ratio(ours, hand)]
    for name in (CONTRIB, SIGNOZ):
        cells += [_cell(middle[name]), _ratio(middle[name], ours)]
    table.row(*cells)
    for remark in timed.remarks:
        print(f"{timed.shape.name}, {timed.hours} h: {remark}", file=sys.stderr, flush=True)


def _middle(runs: Sequence[Run]) -> Run:
    return Run(median(run.wall for run in runs), median(run.cpu for run in runs))


def _cell(run: Run) -> str:
    return f"{run.wall:.0f} ({run.cpu:.0f})"


def _ratio(one: Run | None, other: Run | None) -> str:
    return "-" if one is None or other is None else f"{one.wall / other.wall:.2f} ({one.cpu / other.cpu:.2f})"


if __name__ == "__main__":
    main()
