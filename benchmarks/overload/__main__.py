"""Prints what becomes of an offer beyond what the gateway can take: `python -m benchmarks.overload [NAME=VALUE ...]`.

First the most that it takes, over connections that send one request after the other; then `--times` as much, at fixed
times and from processes of their own, for `--seconds`. The gateway has half of the cores for itself, so that senders
take nothing from it. Every item that was acknowledged is counted at the endpoint. NAME=VALUE are settings.
"""

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.codec.__main__ import machine
from benchmarks.gateway.bodies import ITEMS, KINDS, Kind
from benchmarks.overload.bench import Bench, by_status, times_of
from benchmarks.overload.deployment import Cores, Memory, deployed
from benchmarks.overload.offering import UNSENT, Outcome

_PEAK_S: Final = 5.0
_ROUNDS: Final = 3
_PEAK_CONNECTIONS: Final = (32, 128, 512)  # a mode in which an answer waits for others needs many
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


def _measure(bench: Bench, kind: Kind, arguments: argparse.Namespace) -> None:
    bench.offer(0, 1.0, _PEAK_CONNECTIONS[-1])  # connections, caches, bodies
    peaks = {connections: _peak(bench, connections) for connections in _PEAK_CONNECTIONS}
    peak, cost_s = max(peaks.values())
    print(f"\n## {kind.signal}, {kind.encoding}\n")
    print(f"at most {peak:.0f} requests/s ({peak * ITEMS:,.0f} items/s), {cost_s * 1e6:.0f} us of CPU each", end="; ")
    print(", ".join(f"over {connections} connections {rate:.0f}/s" for connections, (rate, _) in peaks.items()))
    cpu_s = bench.deployment.cpu_s()
    with Memory(bench.deployment) as memory:
        outcome = bench.offer(peak * arguments.times, arguments.seconds, arguments.connections)
    cpu_s = bench.deployment.cpu_s() - cpu_s
    print(f"offered {peak * arguments.times:.0f}/s for {arguments.seconds:g} s: {by_status(outcome)}", flush=True)
    _print_goodput(outcome, peak, int(arguments.seconds))
    _print_costs(outcome, cpu_s, cost_s)
    print(f"memory of the gateway: {memory}", flush=True)
    print(f"acknowledged {bench.acknowledged} items, missing at the endpoint: {bench.missing()}", flush=True)


def _peak(bench: Bench, connections: int) -> tuple[float, float]:
    """Requests a second that are taken from so many connections, and seconds of CPU for each."""
    cpu_s = bench.deployment.cpu_s()
    outcomes = [bench.offer(0, _PEAK_S, connections) for _ in range(_ROUNDS)]
    cpu_s = bench.deployment.cpu_s() - cpu_s
    rate = median(outcome.count(200) / outcome.elapsed_s for outcome in outcomes)
    return rate, cpu_s / sum(outcome.count(200) for outcome in outcomes)


def _print_goodput(outcome: Outcome, peak: float, seconds: int) -> None:
    by_second = [len(times) for times in outcome.accepted[:seconds]]
    goodput = sum(by_second) / seconds
    print(
        f"goodput {goodput:.0f}/s, {goodput / peak:.0%} of the most; by second {min(by_second)} at least,"
        f" {median(by_second):.0f} in the median"
    )
    settled = [time for times in outcome.accepted[_SETTLING_S:] for time in times]
    print(f"time to a 200 from when it was due: {times_of(outcome.seconds.get(200, ()))}")
    print(f"after the first {_SETTLING_S} s: {times_of(settled)}")


def _print_costs(outcome: Outcome, cpu_s: float, cost_s: float) -> None:
    """A refusal costs what is left when the answered requests are charged with what they cost before."""
    refusals = [time for status, times in outcome.seconds.items() if status not in (200, UNSENT) for time in times]
    each_s = max(0.0, cpu_s - outcome.count(200) * cost_s) / max(1, len(refusals))
    print(
        f"time to a refusal: {times_of(refusals)}; CPU about {each_s * 1e6:.0f} us, {each_s / cost_s:.1%} of an answer"
    )
    print(f"CPU of the gateway {cpu_s / outcome.elapsed_s:.2f} cores, of the senders", end=" ")
    print(
        f"{outcome.cpu_s / outcome.elapsed_s:.2f}; they were behind their times by {outcome.late_s * 1e3:.1f} ms (p99)"
    )


def _kinds(names: Sequence[str]) -> list[Kind]:
    return [kind for kind in KINDS if f"{kind.signal} {kind.encoding}" in names]


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.overload", description=__doc__)
    parser.add_argument("--seconds", type=float, default=20.0, help="of the overload")
    parser.add_argument("--times", type=float, default=3.0, help="what the gateway can take at most")
    parser.add_argument("--connections", type=int, default=512, help="at most, while it is overloaded")
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
