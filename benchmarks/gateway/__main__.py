"""Prints CPU per item of the gateway and of Rotel: `python -m benchmarks.gateway [--seconds N] [NAME=VALUE ...]`.

Requests of 512 items over connections that send one after the other. The rivals take turns, round after round, so that
whatever else the machine does meets all of them. Sluice sends to ClickHouse uncompressed; Rotel by its defaults (LZ4),
and once more uncompressed. A rival is charged with the CPU of its process, from the first request
until every accepted item has arrived at the endpoint as a row and what is derived from the items as well; a round in
which an item is refused or missing ends the run. Senders and endpoint share the machine, and are not charged.
NAME=VALUE are settings of the gateway.
"""

import argparse
from collections.abc import Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from itertools import product
from multiprocessing import get_context
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.codec.__main__ import machine
from benchmarks.gateway.bodies import ITEMS, KINDS, Kind
from benchmarks.gateway.load import prepare
from benchmarks.gateway.measure import Round, Summary, measure, summary
from benchmarks.gateway.rivals import ROTEL, Rival, endpoint, rivals
from chassis.runtime.settings import ChassisSettings

_WARM_UP_S: Final = 1.0
_MIB: Final = 2**20
_PACKAGES: Final = ("aiohttp", "grpcio", "uvloop", "isal", "clickhouse-connect", "rotel")

Rounds = dict[tuple[Kind, str], list[Round]]


def main() -> None:
    """Starts everything, measures, prints, stops."""
    arguments = _arguments()
    print(f"{machine()}, {', '.join(f'{name} {version(name)}' for name in _PACKAGES)}")
    print(
        f"{ITEMS} items a request, {arguments.connections} connections,"
        f" {arguments.rounds} rounds of {arguments.seconds:g} s; settings: {arguments.settings or 'as they come'}",
        flush=True,
    )
    kinds = [kind for kind in KINDS if not arguments.only or arguments.only in f"{kind.signal} {kind.encoding}"]
    with (
        TemporaryDirectory(prefix="sluice-gateway-", dir=arguments.directory) as directory,
        ProcessPoolExecutor(1, get_context("spawn")) as senders,
        endpoint(Path(directory)) as sink,
        rivals(Path(directory), sink, arguments.modes, arguments.settings) as running,
    ):
        sizes = {kind: senders.submit(prepare, kind).result() for kind in kinds}
        rounds: Rounds = {(kind, rival.name): [] for kind, rival in product(kinds, running) if rival.takes(kind)}
        for number, kind, rival in product(range(-1, arguments.rounds), kinds, running):
            if not rival.takes(kind):
                continue
            seconds = _WARM_UP_S if number < 0 else arguments.seconds
            taken = measure(rival, kind, sink, senders, arguments.connections, seconds)
            if number >= 0:
                rounds[kind, rival.name].append(taken)
        _print_costs(kinds, running, rounds, sizes)
        _print_memory(running)


def _print_costs(kinds: Sequence[Kind], running: Sequence[Rival], rounds: Rounds, sizes: dict[Kind, int]) -> None:
    print("\n| request | | CPU us an item (least to most) | of Rotel's | items/s | ack p50 ms | ack p99 ms |")
    print("|---|---|---|---|---|---|---|")
    for kind in kinds:
        summaries = {rival.name: summary(rounds[kind, rival.name]) for rival in running if rival.takes(kind)}
        for name, one in summaries.items():
            print(_row(kind, name, one, one.cpu_us / summaries[ROTEL].cpu_us, sizes[kind]), flush=True)


def _row(kind: Kind, name: str, one: Summary, ratio: float, size: int) -> str:
    cells = (
        f"{kind.signal}, {kind.encoding}, {size / 1024:.0f} KiB",
        name,
        f"**{one.cpu_us:.2f}** ({one.least_us:.2f} to {one.most_us:.2f})",
        "1" if name == ROTEL else f"{ratio:.2f}",
        f"{one.rate:,.0f}".replace(",", " "),
        f"{one.p50_ms:.1f}",
        f"{one.p99_ms:.1f}",
    )
    return f"| {' | '.join(cells)} |"


def _print_memory(running: Sequence[Rival]) -> None:
    print("\n| memory | most, MiB | at the end, MiB |\n|---|---|---|")
    for rival in running:
        if rival.target.grpc:
            continue  # the process of the one before
        most, now = rival.resident()
        print(f"| {rival.name} | {most / _MIB:.0f} | {now / _MIB:.0f} |")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.gateway", description=__doc__)
    parser.add_argument("--seconds", type=float, default=4.0, help="of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--connections", type=int, default=32)
    parser.add_argument("--modes", default=ChassisSettings().durability, help="of the gateway, separated by commas")
    parser.add_argument("--only", default="", help="kinds of requests whose name has this in it")
    parser.add_argument("--directory", default=None, help="where data goes, on a disk worth measuring")
    parser.add_argument("settings", nargs="*", type=lambda text: tuple(text.split("=", 1)), help="NAME=VALUE")
    arguments = parser.parse_args()
    arguments.modes = arguments.modes.split(",")
    arguments.settings = dict(arguments.settings)
    return arguments


if __name__ == "__main__":
    main()
