"""Prints what a dashboard gets, and who asks beside it.

100 requests at once of one token, all different and then all alike, wave after wave, while another principal of the
same organization asks one at a time. The other principal does so before each wave, too, with nothing beside it: both
waits are of the same minutes. CPU is the service's, for a wave and all that the other principal asks. The settings are
those of the query service. The callers share the machine with what they measure.
"""

import asyncio
import subprocess
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Callable, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.command import command
from benchmarks.dashboard.asking import Answered, Caller, panel, single
from benchmarks.explore.data import prepare
from benchmarks.explore.served import PATH, Request, Served
from benchmarks.processes import apart, cpu_s
from benchmarks.report import Table, by_status, print_machine, quantile, quantiles_ms
from query.settings import QuerySettings

AT_ONCE: Final = 100
_WAVE: Final = 10_000  # numbers of panels that no other wave has
_IDLE: Final = 10**9  # from here on those of the requests in between


def main() -> None:
    """Makes the data in a process of its own, serves it in another, and asks."""
    parser = command(__package__, __doc__, settings=True)
    parser.add_argument("--spans", type=int, default=350_000)
    parser.add_argument("--waves", type=int, default=10)
    parser.add_argument("--singles", type=int, default=20, help="of the other principal before each wave")
    parser.add_argument("--directory", help="where the data is, or is to be kept")
    parser.add_argument("--serve", action="store_true", help="only serve the data, until standard input ends")
    arguments = parser.parse_args()
    with TemporaryDirectory(prefix="sluice-dashboard-") as made:
        directory = Path(arguments.directory or made)
        if arguments.serve:
            with Served(directory / "chdb", QuerySettings.load(arguments.settings)) as served:
                print(served.port, flush=True)
                sys.stdin.read()
        else:
            _measure(arguments, directory)


def _measure(arguments: Namespace, directory: Path) -> None:
    apart(prepare, directory, arguments.spans)
    print_machine(about=f"{arguments.spans} spans, windows of 24 h; {AT_ONCE} requests at once")
    serving = [sys.executable, "-m", __package__, "--directory", str(directory), "--serve"]
    serving += [f"{name}={value}" for name, value in arguments.settings.items()]
    with subprocess.Popen(serving, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as server:
        if server.stdout is None or server.stdin is None:
            raise TypeError("both are pipes")
        url = f"http://127.0.0.1:{int(server.stdout.readline())}{PATH}"
        asyncio.run(_ask(url, server.pid, arguments.waves, arguments.singles))
        server.stdin.close()


async def _ask(url: str, pid: int, waves: int, singles: int) -> None:
    board, other = Caller(url, "board"), Caller(url, "other")
    await other.one_by_one(single, range(1, 21))  # connections, caches
    columns = {"who asks": "", "answers": "", "by status": "", "p50, p99 ms": ".0f"}
    table = Table({**columns, "a wave, s": ".2f", "CPU, s": ".2f"})
    kinds: dict[str, Callable[[int], Request]] = {"different": panel, "alike": lambda n: panel(n // _WAVE * _WAVE)}
    for number, (kind, request) in enumerate(kinds.items(), 1):
        before = cpu_s(pid)
        asked, idle, beside, took = await _waves(board, other, request, number * _WAVE * 100, waves, singles)
        _print(table, f"{AT_ONCE} at once, {kind}", asked, took / waves, (cpu_s(pid) - before) / waves)
        _print(table, "another principal, idle in between", idle)
        _print(table, "another principal, beside them", beside)
        p50, p99 = (quantile(_seconds(beside), q) / quantile(_seconds(idle), q) for q in (0.5, 0.99))
        table.row("another principal, beside them to idle", None, None, f"{p50:.2f}, {p99:.2f}", None, None)
    await board.close()
    await other.close()


async def _waves(
    board: Caller, other: Caller, request: Callable[[int], Request], first: int, waves: int, singles: int
) -> tuple[list[Answered], list[Answered], list[Answered], float]:
    """The answers of the waves, those of the other before each and meanwhile, and the seconds of all waves."""
    loop = asyncio.get_running_loop()
    asked, idle, beside, took = list[Answered](), list[Answered](), list[Answered](), 0.0
    for wave in range(waves):
        start = first + wave * singles + _IDLE
        idle += await other.one_by_one(single, range(start, start + singles))
        begin = loop.time()
        numbers = range(first + wave * _WAVE, first + wave * _WAVE + AT_ONCE)
        running = asyncio.ensure_future(board.at_once([request(number) for number in numbers]))
        await asyncio.sleep(0.02)  # they are sent
        while not running.done():
            beside.append(await other.ask(single(first + len(beside))))
        asked += await running
        took += loop.time() - begin
    return asked, idle, beside, took


def _print(
    table: Table, what: str, answers: Sequence[Answered], wave_s: float | None = None, cpu: float | None = None
) -> None:
    statuses = by_status(Counter(each.status for each in answers))
    table.row(what, len(answers), statuses, quantiles_ms(_seconds(answers), 0.5, 0.99), wave_s, cpu)


def _seconds(answers: Sequence[Answered]) -> list[float]:
    return [each.seconds for each in answers if each.status == 200]


if __name__ == "__main__":
    main()
