"""Rounds: the product under load, then the engine alone with the blocks that this load had become.

Both begin on an empty directory, get as many rows one after the other, and are charged until their merges are over.
"""

import os
import shutil
import time
from collections.abc import Iterator, Mapping, Sequence
from concurrent.futures import Executor
from pathlib import Path
from typing import Final, NamedTuple

import psutil  # type: ignore[import-untyped]  # it has no types

from benchmarks.end_to_end import engine
from benchmarks.end_to_end.marks import Seen, Watch, watch
from benchmarks.end_to_end.product import Product, Spent, product, rows_left, wait_until_quiet
from benchmarks.gateway.bodies import ITEMS, Kind
from benchmarks.overload.offering import Load, Outcome, exports, offer
from benchmarks.processes import spawned
from benchmarks.report import Void

CONNECTIONS: Final = 32
WARM_UP_S: Final = 1.0
_STORED_S: Final = 300.0
_LOOK_S: Final = 0.1


class Bench(NamedTuple):
    """The values that all rounds share. `workers` are two processes: one sends, the other marks."""

    directory: Path
    workers: Executor
    seconds: float
    settings: Mapping[str, str]


class Stretch(NamedTuple):
    """Some load, and what it cost. `stored_s` is from the first request until the last of its items was a row; the CPU
    of the generator and of others is that until then, the product's until it was quiet.
    """

    items: int
    stored_s: float
    product: Spent
    generator_cpu_s: float
    others_cpu_s: float
    blocks: int  # of spans or logs
    refused: int  # requests

    @property
    def rate(self) -> float:
        """Items a second that became rows."""
        return self.items / self.stored_s

    @property
    def rate_alone(self) -> float:
        """Items a second that these cores would store if no other process used them."""
        cores_s = len(os.sched_getaffinity(0)) * self.stored_s
        return self.rate * cores_s / (cores_s - self.generator_cpu_s - self.others_cpu_s)

    @property
    def cost(self) -> "Cost":
        """Of the product."""
        return Cost.of(self.product, self.items)


class Cost(NamedTuple):
    """CPU microseconds an item."""

    whole: float
    without_merges: float

    @classmethod
    def of(cls, spent: Spent, items: int) -> "Cost":
        return cls(spent.whole * 1e6 / items, (spent.whole - spent.merges) * 1e6 / items)


class Round(NamedTuple):
    """Both, at half of the highest rate and at the highest; and marks at half of it."""

    steady: Stretch
    most: Stretch
    steady_engine: Cost
    most_engine: Cost
    seen: Seen


def calibrated(bench: Bench, kind: Kind) -> float:
    """Requests a second that become rows when senders do not pause."""
    with product(bench.directory / "calibrating", bench.settings) as running:
        _stretch(bench, running, kind, 0, WARM_UP_S)
        most = _stretch(bench, running, kind, 0, bench.seconds)
    shutil.rmtree(bench.directory / "calibrating")
    return most.rate / ITEMS


def measured(bench: Bench, kind: Kind, rate: float) -> Round:
    """One round, steady at `rate` requests a second. Raises Void."""
    place = bench.directory / "product"
    with product(place, bench.settings) as running:
        warm, steady, most = (
            _stretch(bench, running, kind, *load)
            for load in ((0, WARM_UP_S), (rate, bench.seconds), (0, bench.seconds))
        )
        marking = bench.workers.submit(watch, _watch(running, kind, bench.seconds))
        beside = _sent(bench, running, kind, rate, bench.seconds)
        seen = marking.result()
    acknowledged = warm.items + steady.items + most.items + beside.count(200) * ITEMS + len(seen.visible)
    rows = rows_left(place / "data" / "clickhouse", kind.signal)
    if rows != acknowledged:
        raise Void(f"{acknowledged} items were acknowledged, {rows} are rows")
    shutil.rmtree(place)
    _, steady_engine, most_engine = _inserted(bench.directory / "engine", kind, (warm, steady, most))
    return Round(steady, most, steady_engine, most_engine, seen)


def _watch(running: Product, kind: Kind, seconds: float) -> Watch:
    sluice = running.sluice
    explore_url = f"{sluice.query_url}/orgs/{sluice.org}/projects/{sluice.project}/explore"
    return Watch(kind.signal, f"{sluice.base_url}/v1/{kind.signal}", explore_url, sluice.key, sluice.token, seconds)


def _sent(bench: Bench, running: Product, kind: Kind, rate: float, seconds: float) -> Outcome:
    load = Load(running.port, exports(kind, running.sluice.key), rate, seconds, CONNECTIONS)
    return bench.workers.submit(offer, load).result()


def _stretch(bench: Bench, running: Product, kind: Kind, rate: float, seconds: float) -> Stretch:
    """So many requests a second; 0: over connections that send one after the other."""
    stored, inserted, spent = running.stored(kind.signal), running.blocks(kind.signal), Spent.by(running.pid)
    began, busy = time.monotonic(), _busy_s()
    outcome = _sent(bench, running, kind, rate, seconds)
    items = outcome.count(200) * ITEMS
    _wait_until_stored(running, kind, stored + items)
    stored_s, busy, until_stored = time.monotonic() - began, _busy_s() - busy, Spent.by(running.pid).since(spent)
    wait_until_quiet(running.pid)
    return Stretch(
        items,
        stored_s,
        Spent.by(running.pid).since(spent),
        outcome.cpu_s,
        max(0.0, busy - until_stored.whole - outcome.cpu_s),
        running.blocks(kind.signal) - inserted,
        sum(outcome.statuses.values()) - outcome.count(200),
    )


def _wait_until_stored(running: Product, kind: Kind, items: int) -> None:
    deadline = time.monotonic() + _STORED_S
    while running.stored(kind.signal) < items:
        if time.monotonic() > deadline:
            raise Void(f"{items} items were acknowledged, {running.stored(kind.signal)} were stored in {_STORED_S:g} s")
        time.sleep(_LOOK_S)


def _busy_s() -> float:
    """CPU that all processes of the machine took, and what was stolen from it, so far."""
    times = psutil.cpu_times()
    return float(sum(times) - times.idle - times.iowait - times.guest - times.guest_nice)


def _inserted(directory: Path, kind: Kind, stretches: Sequence[Stretch]) -> Iterator[Cost]:
    """What an item costs the engine alone, for the blocks of each stretch in turn."""
    folder, place = directory / "blocks", directory / "clickhouse"
    directory.mkdir()
    with spawned() as alone:
        alone.submit(engine.make_tables, place).result()
        pid = alone.submit(os.getpid).result()
        for stretch in stretches:
            engine.write_blocks(folder, kind, stretch.items // ITEMS, stretch.blocks)
            before = Spent.by(pid)
            alone.submit(engine.insert, place, folder).result()
            wait_until_quiet(pid)
            yield Cost.of(Spent.by(pid).since(before), stretch.items)
            shutil.rmtree(folder)
    shutil.rmtree(directory)
