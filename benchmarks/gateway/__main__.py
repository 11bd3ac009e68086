"""Prints CPU per item of the gateway and of Rotel.

Requests of 512 items over connections that send one after the other. The rivals take turns, round after round, so that
whatever else the machine does meets all of them. Sluice sends to ClickHouse uncompressed; Rotel by its defaults (LZ4),
and once more uncompressed. A rival is charged with the CPU of its process, from the first request
until every accepted item has arrived at the endpoint as a row and what is derived from the items as well; a round in
which an item is refused or missing ends the run. Senders and endpoint share the machine, and are not charged.
"""

from collections.abc import Sequence
from concurrent.futures import Executor
from itertools import product
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from benchmarks.command import command, is_wanted
from benchmarks.gateway.bodies import ITEMS, KINDS, Kind
from benchmarks.gateway.load import prepare, send
from benchmarks.gateway.rivals import ROTEL, Endpoint, Rival, endpoint, rivals
from benchmarks.processes import peak_mib, resident_mib, spawned
from benchmarks.report import Table, Void, print_machine, quantiles_ms, spread
from chassis.runtime.settings import ChassisSettings

_WARM_UP_S: Final = 1.0
_PACKAGES: Final = ("aiohttp", "grpcio", "uvloop", "isal", "clickhouse-connect", "rotel")


class Round(NamedTuple):
    """One rival under one kind of load: CPU microseconds an item, items a second, and seconds to each answer."""

    cpu_us: float
    rate: float
    latencies: Sequence[float]


Rounds = dict[tuple[Kind, str], list[Round]]


def main() -> None:
    """Starts everything, measures, prints, stops."""
    parser = command(__package__, __doc__, seconds=4.0, rounds=3, only="", settings=True)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--modes", default=ChassisSettings().durability, help="of the gateway, separated by commas")
    arguments = parser.parse_args()
    about = f"{ITEMS} items a request, {arguments.connections} connections, {arguments.rounds} rounds of"
    print_machine(*_PACKAGES, about=f"{about} {arguments.seconds:g} s; settings: {arguments.settings}")
    kinds = [kind for kind in KINDS if is_wanted(kind.name, arguments.only)]
    with (
        TemporaryDirectory(prefix="sluice-gateway-") as directory,
        spawned() as senders,
        endpoint(Path(directory)) as sink,
        rivals(Path(directory), sink, arguments.modes.split(","), arguments.settings) as running,
    ):
        sizes = {kind: senders.submit(prepare, kind).result() for kind in kinds}
        rounds: Rounds = {(kind, rival.name): [] for kind, rival in product(kinds, running) if rival.takes(kind)}
        for number, kind, rival in product(range(-1, arguments.rounds), kinds, running):
            if not rival.takes(kind):
                continue
            seconds = _WARM_UP_S if number < 0 else arguments.seconds
            taken = _measured(rival, kind, sink, senders, arguments.connections, seconds)
            if number >= 0:
                rounds[kind, rival.name].append(taken)
        _print_costs(rounds, sizes)
        _print_memory(running)


def _measured(rival: Rival, kind: Kind, sink: Endpoint, senders: Executor, connections: int, seconds: float) -> Round:
    """One round. Raises Void."""
    table = rival.tables.get(kind.signal)
    rows, cpu_s = sink.rows(table) if table else 0, rival.cpu_s()
    sent = senders.submit(send, rival.target, kind, connections, seconds).result()
    if sent.refused:
        raise Void(f"{rival.name} refused requests, by status: {sent.refused}; take fewer connections")
    if table:
        sink.wait_until_arrived({table: rows + sent.items})
    return Round((rival.cpu_s() - cpu_s) * 1e6 / sent.items, sent.items / sent.seconds, sent.latencies)


def _print_costs(rounds: Rounds, sizes: dict[Kind, int]) -> None:
    columns = {"request": "", "rival": "", "CPU us an item (least to most)": "", "of Rotel's": ".2f", "items/s": ",.0f"}
    table = Table({**columns, "ack p50, p99 ms": ".1f"})
    for (kind, name), taken in rounds.items():
        cpu_us, rotel_us = [one.cpu_us for one in taken], median(one.cpu_us for one in rounds[kind, ROTEL])
        acks = quantiles_ms([seconds for one in taken for seconds in one.latencies], 0.5, 0.99)
        rate = median(one.rate for one in taken)
        size = f"{kind.name}, {sizes[kind] / 1024:.0f} KiB"
        table.row(size, name, spread(cpu_us), median(cpu_us) / rotel_us, rate, acks)


def _print_memory(running: Sequence[Rival]) -> None:
    table = Table({"memory": "", "most, MiB": ".0f", "at the end, MiB": ".0f"})
    for rival in running:
        if not rival.target.grpc:  # that one has the process of the one before
            table.row(rival.name, peak_mib(rival.process.pid), resident_mib(rival.process.pid))


if __name__ == "__main__":
    main()
