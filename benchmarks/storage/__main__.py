"""Prints what the layouts cost.

The default is a day of 20 million spans and one of 10 million logs, which take some hours and 30 GB. `--hours 1` takes
the first hour of those days: as dense, so that rows compress and sort alike, and read in minutes. Each candidate has a
process to itself, one after the other.
"""

import sys
from collections.abc import Mapping
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.command import command, is_wanted
from benchmarks.processes import apart
from benchmarks.report import Table, print_machine
from benchmarks.storage.layouts import Signal, layouts
from benchmarks.storage.measure import BLOCK_ROWS, Result, measure

_SIGNALS: Final[tuple[Signal, ...]] = ("spans", "logs")


def main() -> None:
    """The whole comparison."""
    parser = command(__package__, __doc__, only="")
    parser.add_argument("--spans", type=int, default=20_000_000)
    parser.add_argument("--logs", type=int, default=10_000_000)
    parser.add_argument("--hours", type=int, default=24, help="how much of the day")
    arguments = parser.parse_args()
    print_machine("chdb", about=f"blocks of {BLOCK_ROWS} rows; 5 projects, the reads are of the largest")
    with TemporaryDirectory(prefix="sluice-storage-") as place:
        for signal in _SIGNALS:
            day_rows: int = getattr(arguments, signal)
            wanted = {each.name: each.what for each in layouts(signal) if is_wanted(each.name, arguments.only)}
            if day_rows and wanted:
                directory = Path(place) / signal
                directory.mkdir()
                _compare(directory / "chdb", signal, wanted, day_rows, day_rows * arguments.hours // 24)


def _compare(directory: Path, signal: Signal, wanted: Mapping[str, str], day_rows: int, rows: int) -> None:
    columns = {f"{rows} {signal}": "", "what it is": "", "merge, us CPU": ".1f", "bytes on disk": ".0f"}
    columns |= {"bytes inserted": ".0f", "insert, us CPU": ".1f"}
    table = Table(columns, compared="insert, us CPU")
    results = []
    for name, what in wanted.items():
        results.append(one := apart(measure, directory, signal, name, day_rows, rows))
        table.row(name, what, one.merge_us, one.disk_bytes, one.native_bytes, one.insert_us)
    _print_reads([one for one in results if one.reads])


def _print_reads(results: list[Result]) -> None:
    """Those whose answer is another than the first layout's are named on standard error."""
    table = Table({"ms of CPU, the least of three": "", **{one.layout: ".0f" for one in results}})
    for name, (_, first) in results[0].reads.items() if results else ():
        found = [one.reads.get(name, (None, first)) for one in results]
        table.row(name, *(cpu_ms for cpu_ms, _ in found))
        for one, (_, answer) in zip(results, found, strict=True):
            if answer != first:
                print(f"{one.layout}: another answer for {name!r}", file=sys.stderr)


if __name__ == "__main__":
    main()
