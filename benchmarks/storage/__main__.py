"""Prints what the layouts cost: `python -m benchmarks.storage [--spans N] [--logs N] [--hours H] [--only NAME,...]`.

The default is a day of 20 million spans and one of 10 million logs, which take some hours and 30 GB. `--hours 1` takes
the first hour of those days: as dense, so that rows compress and sort alike, and read in minutes. Each candidate has a
process to itself, one after the other.
"""

import argparse
import os
import platform
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory

import msgspec

from benchmarks.storage.layouts import Layout, Signal, layouts
from benchmarks.storage.measure import BLOCK_ROWS, Result, measure


def main() -> None:
    """The whole comparison, or one candidate for the process above."""
    arguments = _arguments()
    if arguments.child:
        signal, name, day_rows, rows = arguments.child
        (layout,) = [each for each in layouts(signal) if each.name == name]
        print(
            msgspec.json.encode(measure(Path(arguments.directory), signal, layout, int(day_rows), int(rows))).decode()
        )
        return
    print(f"{_machine()}; blocks of {BLOCK_ROWS} rows; 5 projects, the reads are of the largest")
    with TemporaryDirectory(prefix="sluice-storage-", dir=arguments.directory) as directory:
        wanted: tuple[tuple[Signal, int], ...] = (("spans", arguments.spans), ("logs", arguments.logs))
        for signal, rows in wanted:
            if rows:
                _compare(Path(directory) / signal, signal, rows, arguments.hours, arguments.only)


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.storage", description=__doc__)
    parser.add_argument("--spans", type=int, default=20_000_000)
    parser.add_argument("--logs", type=int, default=10_000_000)
    parser.add_argument("--hours", type=int, default=24, help="how much of the day")
    parser.add_argument("--only", type=lambda text: text.split(","), help="candidates, by name")
    parser.add_argument("--directory", help="where there is room")
    parser.add_argument("--child", nargs=4, help=argparse.SUPPRESS)
    return parser.parse_args()


def _compare(directory: Path, signal: Signal, day_rows: int, hours: int, only: list[str] | None) -> None:
    directory.mkdir()
    rows = day_rows * hours // 24
    results: list[Result] = []
    for layout in layouts(signal):
        if only is None or layout.name in only:
            results.append(_measured(directory / "chdb", signal, layout, day_rows, rows))
            _print_costs(results[-1], layout, results[0])
    _print_answers_that_differ(results)
    _print_reads(signal, results)


def _measured(directory: Path, signal: Signal, layout: Layout, day_rows: int, rows: int) -> Result:
    command = [
        sys.executable,
        "-m",
        __package__,
        "--directory",
        str(directory),
        "--child",
        signal,
        layout.name,
        str(day_rows),
        str(rows),
    ]
    done = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    return msgspec.json.decode(done.stdout, type=Result)


def _print_costs(result: Result, layout: Layout, plainest: Result) -> None:
    if result is plainest:
        print(f"\n{result.rows} rows {'insert':>18} {'of the':>7} {'merge':>8} {'on disk':>8} {'Native':>8}")
        print(f"{'':16} {'us CPU':>18} {'first':>7} {'us CPU':>8} {'bytes':>8} {'bytes':>8}")
    share = result.insert_us / plainest.insert_us
    print(
        f"{result.layout:16} {result.insert_us:18.2f} {share:7.2f} {result.merge_us:8.2f} {result.disk_bytes:8.1f}"
        f" {result.native_bytes:8.0f}  {layout.what}",
        flush=True,
    )


def _print_answers_that_differ(results: list[Result]) -> None:
    for result in results:
        for name, answer in result.answers.items():
            if answer != results[0].answers.get(name, answer):
                print(f"{result.layout}: another answer for {name!r}", file=sys.stderr)


def _print_reads(signal: str, results: list[Result]) -> None:
    print(f"\n{signal}: ms of CPU (in brackets wall), the least of three")
    print(f"{'':34}" + "".join(f"{result.layout:>16}" for result in results))
    for name in results[0].reads:
        cells = (result.reads.get(name) for result in results)
        print(f"{name:34}" + "".join(f"{f'{cell[0]:.0f} ({cell[1]:.0f})' if cell else '-':>16}" for cell in cells))


def _machine() -> str:
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.exists() else []
    models = (line.partition(":")[2].strip() for line in lines if line.startswith("model name"))
    packages = f"chdb {version('chdb')}"
    return f"{os.cpu_count()} x {next(models, platform.machine())}; {platform.platform()}; {packages}"


if __name__ == "__main__":
    main()
