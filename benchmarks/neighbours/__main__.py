"""Prints how long good clients wait, undisturbed and beside hostile ones.

Good clients send at fixed times `--share` of the most that the gateway takes. The gateway has half of the cores for
itself; good and hostile clients share the rest, so what hostile ones cost the good senders themselves is in the figures
as well: "behind" says how far they were behind their times.
"""

import time
from concurrent.futures import Executor
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.command import command, is_wanted
from benchmarks.gateway.bodies import ITEMS, KINDS
from benchmarks.neighbours.hostile import HOSTILE, Hostile
from benchmarks.overload.deployment import Bench, Cores, Memory, deployed
from benchmarks.processes import spawned
from benchmarks.report import Table, by_status, print_machine, quantiles_ms

_PEAK_S: Final = 5.0
_CONNECTIONS: Final = 64
_AHEAD_S: Final = 15.0  # that hostile clients begin before the good ones are measured: ten thousand take their time
_REST_S: Final = 3.0  # between two of them
ALONE: Final = "undisturbed"


def main() -> None:
    """Starts, measures, prints, stops."""
    parser = command(__package__, __doc__, seconds=10.0, only="", settings=True)
    parser.add_argument("--share", type=float, default=0.2, help="of what the gateway takes at most")
    arguments = parser.parse_args()
    print_machine()
    with ExitStack() as stack:
        directory = stack.enter_context(TemporaryDirectory(prefix="sluice-neighbours-"))
        deployment = stack.enter_context(deployed(Path(directory), Cores.split(), 6, arguments.settings))
        good, hostile = (stack.enter_context(spawned()) for _ in range(2))
        bench = Bench(deployment._replace(keys=deployment.keys[:-1]), good, 1, KINDS[0])
        bench.offer(0, 1.0, _CONNECTIONS)
        peak = bench.offer(0, _PEAK_S, _CONNECTIONS)
        rate = peak.count(200) / peak.elapsed_s * arguments.share
        print(f"good clients: {rate:.0f} requests/s of {ITEMS} spans, {arguments.share:.0%} of the most")
        columns = {"beside": "", "by status": "", "p50, p99, p99.9 ms": ".0f", "behind ms": ".1f"}
        table = Table({**columns, "CPU, cores": ".2f", "most MiB": ".0f"})
        for name, attack in ((ALONE, None), *HOSTILE.items(), (f"{ALONE} again", None)):
            if is_wanted(name, arguments.only):
                _row(table, name, attack, bench, hostile, deployment.keys[-1], rate, arguments.seconds)
        print(f"\nacknowledged {bench.acknowledged} items, missing at the endpoint: {max(0, bench.missing())}")


def _row(
    table: Table,
    name: str,
    attack: Hostile | None,
    bench: Bench,
    hostile: Executor,
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
    with Memory(deployment.pid) as memory:
        outcome = bench.offer(rate, seconds, _CONNECTIONS)
    cores = (deployment.cpu_s() - cpu_s) / outcome.elapsed_s
    done = "" if said is None else f" ({said.result()})"
    times = quantiles_ms(outcome.seconds.get(200, ()), 0.5, 0.99, 0.999)
    table.row(f"{name}{done}", by_status(outcome.statuses), times, outcome.late_s * 1e3, cores, memory.most)
    time.sleep(_REST_S)


if __name__ == "__main__":
    main()
