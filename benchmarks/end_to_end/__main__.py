"""Prints what an item costs from its request to its row.

`sluice up` with the embedded engine, as it comes, under requests of 512 items: first at half of the rate that it
stores at most, then without a pause, each until every item is a row and merges are over; then at half again, while
marked requests are looked for. After it the engine alone inserts blocks of the same requests, as many as the gateway
had made, into tables of its own. Rounds of traces and logs take turns. Every acknowledged item is counted in the end,
and a round with one too few or too many ends the run.
"""

from collections.abc import Callable, Sequence
from itertools import product
from operator import attrgetter
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.command import command, is_wanted
from benchmarks.end_to_end.measure import CONNECTIONS, Bench, Cost, Round, Stretch, calibrated, measured
from benchmarks.gateway.bodies import ITEMS, KINDS, Kind
from benchmarks.processes import spawned
from benchmarks.report import Table, print_machine, quantile, spread
from chassis.runtime.settings import ChassisSettings

_PACKAGES: Final = ("chdb-core", "clickhouse-connect", "aiohttp", "uvloop", "isal")


def main() -> None:
    """Starts everything, measures, prints, stops."""
    arguments = command(__package__, __doc__, seconds=8.0, rounds=3, only="", settings=True).parse_args()
    mode = arguments.settings.get("SLUICE_DURABILITY", ChassisSettings().durability)
    about = f"mode {mode}; {ITEMS} items a request, {CONNECTIONS} connections, {arguments.rounds} rounds of"
    print_machine(*_PACKAGES, about=f"{about} {arguments.seconds:g} s; settings: {arguments.settings}")
    kinds = [kind for kind in KINDS if kind.encoding == "protobuf gzip" and is_wanted(kind.name, arguments.only)]
    with TemporaryDirectory(prefix="sluice-end-") as directory, spawned(2) as workers:
        bench = Bench(Path(directory), workers, arguments.seconds, arguments.settings)
        rates = {kind: calibrated(bench, kind) / 2 for kind in kinds}
        rounds: dict[Kind, list[Round]] = {kind: [] for kind in kinds}
        for number, kind in product(range(arguments.rounds), kinds):
            rounds[kind].append(measured(bench, kind, rates[kind]))
            print(f"round {number + 1}, {kind.signal}: {rounds[kind][-1].most.rate:.0f} items/s at most", flush=True)
    _print_costs(rounds)
    _print_rates(rounds)
    _print_times(rounds)


def _print_costs(rounds: dict[Kind, list[Round]]) -> None:
    for title, figure in (("merges included", attrgetter("whole")), ("without merges", attrgetter("without_merges"))):
        columns = {f"CPU us an item, {title}": "", "rows a block": ",.0f", "Sluice": "", "the engine alone": ""}
        table = Table({**columns, "times": ""})
        for kind, each in rounds.items():
            steady, most = [one.steady for one in each], [one.most for one in each]
            _print_cost(table, f"{kind.signal}, half of the rate", steady, [one.steady_engine for one in each], figure)
            _print_cost(table, f"{kind.signal}, highest rate", most, [one.most_engine for one in each], figure)


def _print_cost(
    table: Table, what: str, stretches: Sequence[Stretch], alone: Sequence[Cost], figure: Callable[[Cost], float]
) -> None:
    rows = median(stretch.items / stretch.blocks for stretch in stretches)
    whole, engine = [figure(stretch.cost) for stretch in stretches], [figure(cost) for cost in alone]
    table.row(what, rows, *map(spread, (whole, engine, [a / b for a, b in zip(whole, engine, strict=True)])))


def _print_rates(rounds: dict[Kind, list[Round]]) -> None:
    columns = {"highest rate, items/s": "", "measured": ",.0f", "senders, cores": ".2f", "others, cores": ".2f"}
    table = Table({**columns, "without both": ",.0f", "refused": ""})
    for kind, each in rounds.items():
        figures = [
            (one.rate, one.generator_cpu_s / one.stored_s, one.others_cpu_s / one.stored_s, one.rate_alone)
            for one in (round_.most for round_ in each)
        ]
        table.row(kind.signal, *map(median, zip(*figures, strict=True)), sum(one.most.refused for one in each))


def _print_times(rounds: dict[Kind, list[Round]]) -> None:
    columns = {"from ack to visible, at half of the rate": "", "items/s": ",.0f", "marks": "", "p50, p99 s": ".2f"}
    table = Table({**columns, "a poll, ms": ".0f"})
    for kind, each in rounds.items():
        visible = [seconds for one in each for seconds in one.seen.visible]
        polls = median(seconds for one in each for seconds in one.seen.polls)
        rate = median(one.steady.items / one.steady.stored_s for one in each)
        table.row(kind.signal, rate, len(visible), (quantile(visible, 0.5), quantile(visible, 0.99)), polls * 1e3)


if __name__ == "__main__":
    main()
