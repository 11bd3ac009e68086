"""Prints what becomes of an offer beyond what the gateway can take: `python -m benchmarks.overload [NAME=VALUE ...]`.

First the most that it takes, over connections that send one request after the other; then `--times` as much, at fixed
times and from processes of their own, for `--seconds`. The gateway has half of the cores for itself, so that senders
take nothing from it. Every item that was acknowledged is counted at the endpoint. NAME=VALUE are settings.
"""

import argparse
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from itertools import chain
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from benchmarks.codec.__main__ import machine
from benchmarks.gateway.bodies import ITEMS, KINDS, Kind
from benchmarks.overload.bench import Bench, by_status, times_of
from benchmarks.overload.deployment import Cores, Memory, deployed
from benchmarks.overload.offering import UNSENT, Outcome

_PEAK_S: Final = 5.0
_ROUNDS: Final = 3
_PEAK_CONNECTIONS: Final = (32, 128, 512)  # a mode in which an answer waits for others needs many
_FLOOD_S: Final = 5.0
_SETTLING_S: Final = 5  # in which connections are made and the number of places is found


def main() -> None:
    """Starts, measures, prints, stops."""
    arguments = _arguments()
    cores = Cores.split()
    print(machine(), flush=True)
    print(
        f"gateway on cores {list(cores.gateway)}, {arguments.senders} senders and the endpoint on {list(cores.others)};"
        f" {arguments.projects} projects, {ITEMS} items a request; settings: {arguments.settings or 'as they come'}"
    )
    for kind in arguments.kinds:
        with ExitStack() as stack:
            directory = stack.enter_context(TemporaryDirectory(prefix="sluice-overload-", dir=arguments.directory))
            deployment = stack.enter_context(deployed(Path(directory), cores, arguments.projects, arguments.settings))
            senders = stack.enter_context(ProcessPoolExecutor(arguments.senders, get_context("spawn")))
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
        return sum(len(times) for status, times in self.outcome.seconds.items() if status not in (200, UNSENT))


def _measure(bench: Bench, kind: Kind, arguments: argparse.Namespace) -> None:
    bench.offer(0, 1.0, _PEAK_CONNECTIONS[-1])  # connections, caches, bodies
    peaks = {connections: _peak(bench, connections) for connections in _PEAK_CONNECTIONS}
    peak, best = max((rate, connections) for connections, rate in peaks.items())
    print(f"\n## {kind.signal}, {kind.encoding}\n")
    print(f"at most {peak:.0f} requests/s ({peak * ITEMS:,.0f} items/s):", end=" ")
    print(", ".join(f"over {connections} connections {rate:.0f}/s" for connections, rate in peaks.items()))
    with Memory(bench.deployment) as memory:
        over = _phase(bench, peak * arguments.times, arguments.seconds, arguments.connections)
    after = _peak(bench, best)
    print(f"offered {peak * arguments.times:.0f}/s for {arguments.seconds:g} s: {by_status(over.outcome)}", flush=True)
    _print_goodput(over.outcome, peak, after, int(arguments.seconds))
    _print_costs(over, _phase(bench, 0, _FLOOD_S, arguments.connections))
    print(f"memory of the gateway: {memory}", flush=True)
    print(f"acknowledged {bench.acknowledged} items, missing at the endpoint: {bench.missing()}", flush=True)


def _phase(bench: Bench, rate: float, seconds: float, connections: int) -> Phase:
    cpu_s = bench.deployment.cpu_s()
    outcome = bench.offer(rate, seconds, connections)
    return Phase(outcome, bench.deployment.cpu_s() - cpu_s)


def _peak(bench: Bench, connections: int) -> float:
    """Requests a second that are taken from so many connections."""
    outcomes = [bench.offer(0, _PEAK_S, connections) for _ in range(_ROUNDS)]
    return median(outcome.count(200) / outcome.elapsed_s for outcome in outcomes)


def _print_goodput(outcome: Outcome, peak: float, after: float, seconds: int) -> None:
    """Beside what waiting senders got before it, and right after it, while what is left in the journal is stored."""
    by_second = [len(times) for times in outcome.accepted[:seconds]]
    goodput = sum(by_second) / seconds
    print(f"goodput {goodput:.0f}/s, {goodput / peak:.0%} of the most;", end=" ")
    print(f"{goodput / after:.0%} of the {after:.0f}/s that the same connections get after it;", end=" ")
    print(f"by second {min(by_second)} at least, {median(by_second):.0f} in the median")
    settled = [time for times in outcome.accepted[_SETTLING_S:] for time in times]
    print(f"time to a 200 from when it was due: {times_of(outcome.seconds.get(200, ()))}")
    print(f"after the first {_SETTLING_S} s: {times_of(settled)}")


def _print_costs(over: Phase, flood: Phase) -> None:
    """CPU of an answer and of a refusal, from two phases with more and fewer refusals for each answer."""
    outcome = over.outcome
    cores = over.cpu_s / outcome.elapsed_s, outcome.cpu_s / outcome.elapsed_s
    print(f"time to a refusal: {times_of([*chain.from_iterable(_refusals(outcome))])}")
    print(f"CPU of the gateway {cores[0]:.2f} cores, of the senders {cores[1]:.2f};", end=" ")
    print(f"they were behind their times by {outcome.late_s * 1e3:.1f} ms (p99)")
    mixed = over.taken * flood.refused - flood.taken * over.refused
    if mixed:
        refusal_s = (over.taken * flood.cpu_s - flood.taken * over.cpu_s) / mixed
        answer_s = (over.cpu_s * flood.refused - flood.cpu_s * over.refused) / mixed
        part = refusal_s / answer_s
        print(f"CPU of an answer {answer_s * 1e6:.0f} us, of a refusal {refusal_s * 1e6:.0f} us: {part:.1%}")


def _refusals(outcome: Outcome) -> Iterator[Sequence[float]]:
    return (times for status, times in outcome.seconds.items() if status not in (200, UNSENT))


def _kinds(names: Sequence[str]) -> list[Kind]:
    return [kind for kind in KINDS if f"{kind.signal} {kind.encoding}" in names]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overload", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="of the overload")
    parser.add_argument("--times", type=float, default=3.0, help="what the gateway can take at most")
    parser.add_argument("--connections", type=int, default=4_000, help="at most, while it is overloaded")
    parser.add_argument("--projects", type=int, default=10)
    parser.add_argument("--senders", type=int, default=2, help="processes")
    parser.add_argument("--kinds", default="traces protobuf gzip", help="separated by commas; 'all'")
    parser.add_argument("--directory", default=None, help="where data goes, on a disk worth measuring")
    parser.add_argument("settings", nargs="*", type=lambda text: tuple(text.split("=", 1)), help="NAME=VALUE")
    arguments = parser.parse_args()
    arguments.kinds = list(KINDS) if arguments.kinds == "all" else _kinds(arguments.kinds.split(","))
    arguments.settings = dict(arguments.settings)
    return arguments


if __name__ == "__main__":
    main()
