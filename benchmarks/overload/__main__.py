"""Prints what becomes of an offer beyond what the gateway can take.

First the most that it takes, over connections that send one request after the other; then `--times` as much, at fixed
times and from processes of their own, for `--seconds`. The gateway has half of the cores for itself, so that senders
take nothing from it. Every item that was acknowledged is counted at the endpoint.
"""

from argparse import Namespace
from contextlib import ExitStack
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from benchmarks.command import command, is_wanted
from benchmarks.gateway.bodies import ITEMS, KINDS, Kind
from benchmarks.overload.deployment import Bench, Cores, Memory, deployed, times_of
from benchmarks.overload.offering import UNSENT, Outcome
from benchmarks.processes import spawned
from benchmarks.report import Table, by_status, print_machine

_PEAK_S: Final = 5.0
_ROUNDS: Final = 3
_PEAK_CONNECTIONS: Final = (32, 128, 512)  # a mode in which an answer waits for others needs many
_FLOOD_S: Final = 5.0
_SETTLING_S: Final = 5  # in which connections are made and the number of places is found


def main() -> None:
    """Starts, measures, prints, stops."""
    parser = command(__package__, __doc__, seconds=20.0, only="traces protobuf gzip", settings=True)
    parser.add_argument("--times", type=float, default=3.0, help="what the gateway can take at most")
    parser.add_argument("--connections", type=int, default=4_000, help="at most, while it is overloaded")
    parser.add_argument("--projects", type=int, default=10)
    parser.add_argument("--senders", type=int, default=2, help="processes")
    arguments = parser.parse_args()
    cores = Cores.split()
    print_machine(
        about=f"gateway on cores {list(cores.gateway)}, {arguments.senders} senders and the endpoint on"
        f" {list(cores.others)}; {arguments.projects} projects, {ITEMS} items a request; settings: {arguments.settings}"
    )
    for kind in KINDS:
        if not is_wanted(kind.name, arguments.only):
            continue
        with ExitStack() as stack:
            directory = stack.enter_context(TemporaryDirectory(prefix="sluice-overload-"))
            deployment = stack.enter_context(deployed(Path(directory), cores, arguments.projects, arguments.settings))
            senders = stack.enter_context(spawned(arguments.senders))
            _measure(Bench(deployment, senders, arguments.senders, kind), kind, arguments)


class Phase(NamedTuple):
    """What was sent in a stretch of time, and the gateway's CPU in it."""

    outcome: Outcome
    cpu_s: float

    @property
    def taken(self) -> int:
        """Requests answered 200."""
        return self.outcome.count(200)

    @property
    def refused(self) -> int:
        """Requests that were answered otherwise."""
        return sum(count for status, count in self.outcome.statuses.items() if status not in (200, UNSENT))


def _measure(bench: Bench, kind: Kind, arguments: Namespace) -> None:
    bench.offer(0, 1.0, _PEAK_CONNECTIONS[-1])  # connections, caches, bodies
    peaks = {connections: _peak(bench, connections) for connections in _PEAK_CONNECTIONS}
    peak, best = max((rate, connections) for connections, rate in peaks.items())
    with Memory(bench.deployment.pid) as memory:
        over = _phase(bench, peak * arguments.times, arguments.seconds, arguments.connections)
    after = _peak(bench, best)
    table = Table({kind.name: "", "": ",.0f"})
    for connections, rate in peaks.items():
        table.row(f"taken over {connections} connections, requests/s", rate)
    table.row("at most, items/s", peak * ITEMS)
    table.row("offered, requests/s", peak * arguments.times)
    table.row("by status", by_status(over.outcome.statuses))
    _print_goodput(table, over.outcome, peak, after, int(arguments.seconds))
    _print_costs(table, over, _phase(bench, 0, _FLOOD_S, arguments.connections))
    table.row("memory of the gateway", str(memory))
    table.row("acknowledged items", bench.acknowledged)
    table.row("missing at the endpoint", bench.missing())


def _phase(bench: Bench, rate: float, seconds: float, connections: int) -> Phase:
    cpu_s = bench.deployment.cpu_s()
    outcome = bench.offer(rate, seconds, connections)
    return Phase(outcome, bench.deployment.cpu_s() - cpu_s)


def _peak(bench: Bench, connections: int) -> float:
    """Requests a second that are taken from so many connections."""
    outcomes = [bench.offer(0, _PEAK_S, connections) for _ in range(_ROUNDS)]
    return median(outcome.count(200) / outcome.elapsed_s for outcome in outcomes)


def _print_goodput(table: Table, outcome: Outcome, peak: float, after: float, seconds: int) -> None:
    """Beside what waiting senders got before it, and right after it, while what is left in the journal is stored."""
    by_second = [len(times) for times in outcome.accepted[:seconds]]
    goodput = sum(by_second) / seconds
    table.row("goodput, requests/s", goodput)
    table.row("beside the most", f"{goodput / peak:.0%}")
    table.row("beside what the same connections get after it", f"{goodput / after:.0%} of {after:.0f}/s")
    table.row("by second: least, median", (min(by_second), median(by_second)))
    settled = [time for times in outcome.accepted[_SETTLING_S:] for time in times]
    table.row("time to a 200 from when it was due", times_of(outcome.seconds.get(200, ())))
    table.row(f"after the first {_SETTLING_S} s", times_of(settled))


def _print_costs(table: Table, over: Phase, flood: Phase) -> None:
    """CPU of an answer and of a refusal, from two phases with more and fewer refusals for each answer."""
    outcome = over.outcome
    refusals = [time for status, times in outcome.seconds.items() if status not in (200, UNSENT) for time in times]
    table.row("time to a refusal", times_of(refusals))
    table.row("cores: gateway", f"{over.cpu_s / outcome.elapsed_s:.2f}")
    table.row("cores: senders", f"{outcome.cpu_s / outcome.elapsed_s:.2f}")
    table.row("senders behind their times, p99", f"{outcome.late_s * 1e3:.1f} ms")
    mixed = over.taken * flood.refused - flood.taken * over.refused
    if mixed:
        refusal_s = (over.taken * flood.cpu_s - flood.taken * over.cpu_s) / mixed
        answer_s = (over.cpu_s * flood.refused - flood.cpu_s * over.refused) / mixed
        table.row("CPU of an answer", f"{answer_s * 1e6:.0f} us")
        table.row("CPU of a refusal", f"{refusal_s * 1e6:.0f} us, {refusal_s / answer_s:.1%}")


if __name__ == "__main__":
    main()
