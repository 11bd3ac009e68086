"""Prints how long good clients wait, undisturbed and beside hostile ones: `python -m benchmarks.neighbours`.

Good clients send at fixed times `--share` of the most that the gateway takes. The gateway has half of the cores for
itself; good and hostile clients share the rest, so what hostile ones cost the good senders themselves is in the figures
as well: "behind" says how far they were behind their times. NAME=VALUE are settings.
"""

import argparse
import time
from concurrent.futures import ProcessPoolExecutor
from contextlib import ExitStack
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.codec.__main__ import machine
from benchmarks.gateway.bodies import ITEMS, KINDS
from benchmarks.neighbours.hostile import HOSTILE, Hostile
from benchmarks.overload.bench import Bench, by_status
from benchmarks.overload.deployment import Cores, Memory, deployed
from benchmarks.overload.offering import Outcome, quantile

_PEAK_S: Final = 5.0
_CONNECTIONS: Final = 64
_AHEAD_S: Final = 15.0  # that hostile clients begin before the good ones are measured: ten thousand take their time
_REST_S: Final = 3.0  # between two of them
ALONE: Final = "undisturbed"


def main() -> None:
    """Starts, measures, prints, stops."""
    arguments = _arguments()
    cores = Cores.split()
    print(machine(), flush=True)
    with ExitStack() as stack:
        directory = stack.enter_context(TemporaryDirectory(prefix="sluice-neighbours-", dir=arguments.directory))
        deployment = stack.enter_context(deployed(Path(directory), cores, 6, arguments.settings))
        good = stack.enter_context(ProcessPoolExecutor(1, get_context("spawn")))
        hostile = stack.enter_context(ProcessPoolExecutor(1, get_context("spawn")))
        mine, theirs = deployment.keys[:-1], deployment.keys[-1]
        bench = Bench(deployment._replace(keys=mine), good, 1, KINDS[0])
        bench.offer(0, 1.0, _CONNECTIONS)
        peak = bench.offer(0, _PEAK_S, _CONNECTIONS)
        rate = peak.count(200) / peak.elapsed_s * arguments.share
        print(f"good clients: {rate:.0f} requests/s of {ITEMS} spans, {arguments.share:.0%} of the most\n")
        print("| beside | by status | p50 ms | p99 ms | p99.9 ms | behind ms | CPU, cores | most MiB |")
        print("|---|---|---|---|---|---|---|---|")
        for name, attack in ((ALONE, None), *HOSTILE.items(), (f"{ALONE} again", None)):
            _row(name, attack, bench, hostile, theirs, rate, arguments.seconds)
        print(f"\nacknowledged {bench.acknowledged} items, missing at the endpoint: {max(0, bench.missing())}")


def _row(
    name: str,
    attack: Hostile | None,
    bench: Bench,
    hostile: ProcessPoolExecutor,
    key: str,
    rate: float,
    seconds: float,
) -> None:
    deployment = bench.deployment
    said = None
    if attack is not None:
        said = hostile.submit(attack, deployment.port, key, seconds + _AHEAD_S)
        time.sleep(_AHEAD_S)
    cpu_s = deployment.cpu_s()
    with Memory(deployment) as memory:
        outcome = bench.offer(rate, seconds, _CONNECTIONS)
    cpu_s = deployment.cpu_s() - cpu_s
    done = "" if said is None else f" ({said.result()})"
    print(f"| {name}{done} | {by_status(outcome)} | {_times(outcome)} | {outcome.late_s * 1e3:.1f}", end=" | ")
    print(f"{cpu_s / outcome.elapsed_s:.2f} | {memory.most:.0f} |", flush=True)
    time.sleep(_REST_S)


def _times(outcome: Outcome) -> str:
    times = outcome.seconds.get(200, ())
    return " | ".join(f"{quantile(times, q) * 1e3:.0f}" for q in (0.5, 0.99, 0.999))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.neighbours", description=__doc__)
    parser.add_argument("--seconds", type=float, default=10.0, help="of each row")
    parser.add_argument("--share", type=float, default=0.2, help="of what the gateway takes at most")
    parser.add_argument("--directory", default=None, help="where data goes, on a disk worth measuring")
    parser.add_argument("settings", nargs="*", type=lambda text: tuple(text.split("=", 1)), help="NAME=VALUE")
    arguments = parser.parse_args()
    arguments.settings = dict(arguments.settings)
    return arguments


if __name__ == "__main__":
    main()
