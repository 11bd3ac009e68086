"""Prints what an item costs from its request to its row: `python -m benchmarks.end_to_end [NAME=VALUE ...]`.

`sluice up` with the embedded engine, as it comes, under requests of 512 items: first at half of the rate that it
stores at most, then without a pause, each until every item is a row and merges are over; then at half again, while
marked requests are looked for. After it the engine alone inserts blocks of the same requests, as many as the gateway
had made, into tables of its own. Rounds of traces and logs take turns. Every acknowledged item is counted in the end,
and a round with one too few or too many ends the run. NAME=VALUE are settings of the product.
"""

import argparse
from collections.abc import Callable, Sequence
from concurrent.futures import ProcessPoolExecutor
from importlib.metadata import version
from itertools import product
from multiprocessing import get_context
from operator import attrgetter
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.codec.__main__ import machine
from benchmarks.end_to_end.measure import CONNECTIONS, Bench, Cost, Round, Stretch, calibrated, measured
from benchmarks.gateway.bodies import ITEMS, KINDS, Kind
from benchmarks.overload.offering import quantile
from chassis.runtime.settings import ChassisSettings

_PACKAGES: Final = ("chdb-core", "clickhouse-connect", "aiohttp", "uvloop", "isal")


def main() -> None:
    """Starts everything, measures, prints, stops."""
    arguments = _arguments()
    mode = arguments.settings.get("SLUICE_DURABILITY", ChassisSettings().durability)
    print(f"{machine()}, {', '.join(f'{name} {version(name)}' for name in _PACKAGES)}")
    print(
        f"mode {mode}; {ITEMS} items a request, {CONNECTIONS} connections, {arguments.rounds} rounds of"
        f" {arguments.seconds:g} s each; settings: {arguments.settings or 'as they come'}",
        flush=True,
    )
    kinds = [kind for kind in KINDS if kind.encoding == "protobuf gzip" and arguments.only in kind.signal]
    with (
        TemporaryDirectory(prefix="sluice-end-", dir=arguments.directory) as directory,
        ProcessPoolExecutor(2, get_context("spawn")) as workers,
    ):
        bench = Bench(Path(directory), workers, arguments.seconds, arguments.settings)
        rates = {kind: calibrated(bench, kind) / 2 for kind in kinds}
        rounds: dict[Kind, list[Round]] = {kind: [] for kind in kinds}
        for number, kind in product(range(arguments.rounds), kinds):
            rounds[kind].append(measured(bench, kind, rates[kind]))
            _print_round(number, kind, rounds[kind][-1])
    _print_costs(rounds)
    _print_rates(rounds)
    _print_times(rounds)


def _print_round(number: int, kind: Kind, one: Round) -> None:
    """One line, so that a long run tells how it goes."""
    steady, most = (f"{a.cost.whole:.2f} of {b.whole:.2f}" for a, b in one.pairs)
    p99_s = quantile(one.seen.visible, 0.99)
    print(
        f"round {number + 1}, {kind.signal}: {steady} us; {most} us at {one.most.rate:.0f} items/s; p99 {p99_s:.2f} s",
        flush=True,
    )


def _print_costs(rounds: dict[Kind, list[Round]]) -> None:
    for title, figure in (("merges included", attrgetter("whole")), ("without merges", attrgetter("without_merges"))):
        print(
            f"\n| CPU us an item, {title} | rows a block | Sluice | the engine alone | times |\n|---|---|---|---|---|"
        )
        for kind, each in rounds.items():
            steady, most = [one.steady for one in each], [one.most for one in each]
            _print_cost(f"{kind.signal}, half of the rate", steady, [one.steady_engine for one in each], figure)
            _print_cost(f"{kind.signal}, highest rate", most, [one.most_engine for one in each], figure)


def _print_cost(
    what: str, stretches: Sequence[Stretch], alone: Sequence[Cost], figure: Callable[[Cost], float]
) -> None:
    rows = median(stretch.items / stretch.blocks for stretch in stretches)
    whole, engine = [figure(stretch.cost) for stretch in stretches], [figure(cost) for cost in alone]
    ratios = [a / b for a, b in zip(whole, engine, strict=True)]
    print(f"| {' | '.join((what, _number(rows), *map(_spread, (whole, engine, ratios))))} |", flush=True)


def _print_rates(rounds: dict[Kind, list[Round]]) -> None:
    print(
        "\n| highest rate, items/s | measured | senders, cores | others, cores | without both | refused |\n"
        "|---|---|---|---|---|---|"
    )
    for kind, each in rounds.items():
        most = [one.most for one in each]
        cells = (
            kind.signal,
            _number(_middle(most, lambda one: one.rate)),
            f"{_middle(most, lambda one: one.generator_cpu_s / one.stored_s):.2f}",
            f"{_middle(most, lambda one: one.others_cpu_s / one.stored_s):.2f}",
            _number(_middle(most, lambda one: one.rate_alone)),
            str(sum(one.refused for one in most)),
        )
        print(f"| {' | '.join(cells)} |", flush=True)


def _print_times(rounds: dict[Kind, list[Round]]) -> None:
    print("\n| from ack to visible, at half of the rate | items/s | marks | p50 s | p99 s | a poll, ms |")
    print("|---|---|---|---|---|---|")
    for kind, each in rounds.items():
        visible = [seconds for one in each for seconds in one.seen.visible]
        polls = median(seconds for one in each for seconds in one.seen.polls)
        rate = _middle([one.steady for one in each], lambda one: one.items / one.stored_s)
        times = (f"{quantile(visible, q):.2f}" for q in (0.5, 0.99))
        print(f"| {kind.signal} | {_number(rate)} | {len(visible)} | {' | '.join(times)} | {polls * 1e3:.0f} |")


def _middle(stretches: Sequence[Stretch], figure: Callable[[Stretch], float]) -> float:
    return median(map(figure, stretches))


def _spread(figures: Sequence[float]) -> str:
    return f"**{median(figures):.2f}** ({min(figures):.2f} to {max(figures):.2f})"


def _number(figure: float) -> str:
    return f"{figure:,.0f}".replace(",", " ")


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.end_to_end", description=__doc__)
    parser.add_argument("--seconds", type=float, default=8.0, help="of each load of a round")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--only", default="", help="traces or logs")
    parser.add_argument("--directory", default=None, help="where data goes, on a disk worth measuring")
    parser.add_argument("settings", nargs="*", type=lambda text: tuple(text.split("=", 1)), help="NAME=VALUE")
    arguments = parser.parse_args()
    arguments.settings = dict(arguments.settings)
    return arguments


if __name__ == "__main__":
    main()
