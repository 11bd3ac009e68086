"""Prints what a dashboard gets, and who asks beside it: `python -m benchmarks.dashboard [--spans N] [NAME=VALUE ...]`.

100 requests at once of one token, all different and then all alike, wave after wave, while another principal of the
same organization asks one at a time; he does so before each wave, too, with nothing beside it: what he waits in the one
and in the other case is told of the same minutes. CPU is the service's, for a wave and all that the other asks.
NAME=VALUE are settings (SLUICE_QUERY_...). The callers share the machine with what they measure.
"""

import argparse
import asyncio
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.codec.__main__ import machine
from benchmarks.dashboard.asking import Answered, Caller
from benchmarks.dashboard.panels import panel, single
from benchmarks.explore.data import prepare
from benchmarks.explore.served import Request, Served
from query.settings import QuerySettings

AT_ONCE: Final = 100
_WAVE: Final = 10_000  # numbers of panels that no other wave has
_IDLE: Final = 10**9  # from here on those of the requests in between


def main() -> None:
    """Makes the data in a process of its own, serves it in another, and asks."""
    arguments = _arguments()
    if arguments.make:
        prepare(Path(arguments.directory), arguments.spans)
    elif arguments.serve:
        _serve(Path(arguments.directory), arguments.settings)
    else:
        with TemporaryDirectory(prefix="sluice-dashboard-") as made:
            _measure(arguments, arguments.directory or made)


def _serve(directory: Path, settings: Sequence[str]) -> None:
    """Until its standard input ends."""
    given = {name: value for name, _, value in (each.partition("=") for each in settings)}
    with Served(directory / "chdb", QuerySettings.load(given)) as served:
        print(served.port, flush=True)
        sys.stdin.read()


def _measure(arguments: argparse.Namespace, directory: str) -> None:
    command = [sys.executable, "-m", __package__, "--directory", directory]
    subprocess.run([*command, "--make", "--spans", str(arguments.spans)], check=True)
    print(f"{machine()}; {arguments.spans} spans, windows of 24 h; {AT_ONCE} requests at once", flush=True)
    serving = [*command, "--serve", *arguments.settings]
    with subprocess.Popen(serving, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        if server.stdout is None or server.stdin is None:
            raise TypeError("both are pipes")
        port = int(server.stdout.readline())
        asyncio.run(_ask(port, Path(f"/proc/{server.pid}/stat"), arguments.waves, arguments.runs))
        server.stdin.close()


async def _ask(port: int, process: Path, waves: int, runs: int) -> None:
    board, other = Caller(port, "board"), Caller(port, "other")
    await other.one_by_one(single, range(1, 21))  # connections, caches
    print("\n| | answers | by status | p50 ms | p99 ms | a wave, s | CPU, s |\n|---|---|---|---|---|---|---|")
    kinds: dict[str, Callable[[int], Request]] = {"different": panel, "alike": lambda n: panel(n // _WAVE * _WAVE)}
    for number, (kind, request) in enumerate(kinds.items(), 1):
        before = _cpu_s(process)
        asked, idle, beside, took = await _waves(board, other, request, number * _WAVE * 100, waves, runs)
        spent = f"{took / waves:.2f} | {(_cpu_s(process) - before) / waves:.2f}"
        _print(f"{AT_ONCE} at once, {kind}", asked, spent)
        _print("another principal, idle in between", idle)
        _print("another principal, beside them", beside)
        print(f"p99 beside / idle: {_part(beside, 0.99) / _part(idle, 0.99):.2f}, p50: ", end="")
        print(f"{_part(beside, 0.5) / _part(idle, 0.5):.2f}")
    await board.close()
    await other.close()


async def _waves(
    board: Caller, other: Caller, request: Callable[[int], Request], first: int, waves: int, runs: int
) -> tuple[list[Answered], list[Answered], list[Answered], float]:
    """The answers of the waves, those of the other before each and meanwhile, and the seconds of all waves."""
    loop = asyncio.get_running_loop()
    asked, idle, beside, took = list[Answered](), list[Answered](), list[Answered](), 0.0
    for wave in range(waves):
        idle += await other.one_by_one(single, range(first + wave * runs + _IDLE, first + wave * runs + _IDLE + runs))
        begin = loop.time()
        numbers = range(first + wave * _WAVE, first + wave * _WAVE + AT_ONCE)
        running = asyncio.ensure_future(board.at_once([request(number) for number in numbers]))
        await asyncio.sleep(0.02)  # they are sent
        while not running.done():
            beside.append(await other.ask(single(first + len(beside))))
        asked += await running
        took += loop.time() - begin
    return asked, idle, beside, took


def _cpu_s(process: Path) -> float:
    """Seconds of CPU of a process (proc(5): utime and stime)."""
    fields = process.read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def _print(what: str, answers: Sequence[Answered], spent: str = " | ") -> None:
    statuses = ", ".join(f"{status}: {count}" for status, count in sorted(Counter(a.status for a in answers).items()))
    p50, p99 = (_part(answers, q) * 1e3 for q in (0.5, 0.99))
    print(f"| {what} | {len(answers)} | {statuses} | {p50:.0f} | {p99:.0f} | {spent} |", flush=True)


def _part(answers: Sequence[Answered], q: float) -> float:
    times = sorted(each.seconds for each in answers if each.status == 200) or [float("nan")]
    return times[min(len(times) - 1, int(len(times) * q))]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.dashboard", description=__doc__)
    parser.add_argument("--spans", type=int, default=350_000)
    parser.add_argument("--waves", type=int, default=10)
    parser.add_argument("--runs", type=int, default=20, help="of the other principal before each wave")
    parser.add_argument("--directory", help="where the data is, or is to be kept")
    parser.add_argument("--make", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    parser.add_argument("settings", nargs="*", help="NAME=VALUE")
    return parser.parse_args()


if __name__ == "__main__":
    main()
