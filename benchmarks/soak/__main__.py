"""Prints, minute by minute, a `sluice up` under a steady load: `python -m benchmarks.soak [--minutes M] [--share S]`.

First how much it stores in the long run: what it takes without a pause for some seconds, over the time until the last
of it is stored. Then `--share` of that. In the end every acknowledged item is counted in the tables. The senders share
the machine with what they measure. NAME=VALUE are settings of the product.
"""

import argparse
import asyncio
import os
import time
from concurrent.futures import ProcessPoolExecutor
from multiprocessing import get_context
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import psutil  # type: ignore[import-untyped]  # it has no types

from benchmarks.codec.__main__ import machine
from benchmarks.gateway.bodies import ITEMS, KINDS
from benchmarks.overload.bench import by_status
from benchmarks.overload.deployment import MIB, make_keys, slope
from benchmarks.overload.offering import Load, Outcome, offer, quantile
from chassis.clickhouse import ClickHouse, QueryLimits
from tests.e2e.product import Sluice, eventually, running
from tests.faults.deployment import metric

_BURST_S: Final = 10.0
_CONNECTIONS: Final = 64
_DRAINED_S: Final = 600.0
_MINUTE_S: Final = 60.0


class Minute(NamedTuple):
    """What was seen in it, and at its end."""

    outcome: Outcome
    resident: float  # MiB
    parts: float  # active, of the spans of a day
    journal: float  # MiB
    oldest_s: float
    pending: float  # items
    lag_s: float  # the worst


class Soak:
    """A running product, and a process that sends to it."""

    def __init__(self, sluice: Sluice, senders: ProcessPoolExecutor, projects: int) -> None:
        self._sluice = sluice
        self._senders = senders
        self._port = int(sluice.base_url.rpartition(":")[2])
        self._keys = [sluice.key, *make_keys(f"sqlite:///{sluice.data}/sluice.db", sluice.org, projects - 1)]
        process = sluice.writer.process
        assert process is not None
        self._process = psutil.Process(process.pid)
        self.acknowledged = 0  # items
        self.unanswered = 0  # items of requests that ended without a status: they may be stored

    def most(self) -> float:
        """Requests a second that are stored in the long run."""
        begin = time.monotonic()
        outcome = self._offer(0, _BURST_S)
        self.settle()
        return outcome.count(200) / (time.monotonic() - begin)

    def minute(self, rate: float) -> Minute:
        """A minute at so many requests a second."""
        outcome = self._offer(rate, _MINUTE_S)
        return Minute(
            outcome,
            self._process.memory_info().rss / MIB,
            metric(self._sluice.base_url, "sluice_gateway_parts", table="spans"),
            self._metric("journal_bytes") / MIB,
            self._metric("journal_oldest_seconds"),
            self._metric("pending_items"),
            metric(self._sluice.base_url, "sluice_loop_lag_worst_seconds"),
        )

    def settle(self) -> None:
        """Wait until nothing that was acknowledged waits to be stored."""
        eventually(lambda: self._metric("pending_items") == 0, "all is stored", _DRAINED_S)

    def _offer(self, rate: float, seconds: float) -> Outcome:
        load = Load(self._port, KINDS[0], self._keys, rate, seconds, _CONNECTIONS)
        outcome = self._senders.submit(offer, load).result()
        self.acknowledged += outcome.count(200) * ITEMS
        self.unanswered += sum(outcome.count(status) for status in outcome.seconds if status <= 0) * ITEMS
        return outcome

    def _metric(self, name: str) -> float:
        return metric(self._sluice.base_url, f"sluice_gateway_{name}")


def main() -> None:
    """Starts the product, soaks it, stops it, counts."""
    arguments = _arguments()
    print(machine(), flush=True)
    with (
        TemporaryDirectory(prefix="sluice-soak-", dir=arguments.directory) as directory,
        ProcessPoolExecutor(1, get_context("spawn")) as senders,
    ):
        data = Path(directory) / "data"
        sluice = running(data, Path(directory) / "log", **{"SLUICE_LOG_LEVEL": "warning", **arguments.settings})
        try:
            soak = Soak(sluice, senders, arguments.projects)
            _soak(soak, arguments)
            sluice.stop()
        finally:
            sluice.kill()
        rows = asyncio.run(_count(data / "clickhouse"))
        left = soak.acknowledged - rows
        print(f"acknowledged {soak.acknowledged} items, {rows} rows of spans: {max(0, left)} missing,", end=" ")
        print(f"{max(0, -left)} beyond ({soak.unanswered} were in requests without an answer)")
        errors = [line for line in (Path(directory) / "log").read_text().splitlines() if '"level": "error"' in line]
        print(f"errors in the log: {len(errors)}", *errors[:5], sep="\n")


def _soak(soak: Soak, arguments: argparse.Namespace) -> None:
    soak.most()  # connections, caches, the first parts
    most = soak.most()
    rate = arguments.rate or most * arguments.share
    print(f"stores {most:.0f} requests/s of {ITEMS} spans in the long run;", end=" ")
    print(f"{rate:.0f}/s are sent: {rate * ITEMS:,.0f} spans/s")
    print(
        "\n| minute | by status | ack p50 ms | p99 | memory MiB | parts | journal MiB | oldest s | pending | lag ms |"
    )
    print("|---|---|---|---|---|---|---|---|---|---|")
    minutes = []
    for number in range(1, arguments.minutes + 1):
        minutes.append(one := soak.minute(rate))
        p50, p99 = (quantile(one.outcome.seconds.get(200, ()), q) * 1e3 for q in (0.5, 0.99))
        print(
            f"| {number} | {by_status(one.outcome)} | {p50:.0f} | {p99:.0f} | {one.resident:.0f} | {one.parts:.0f}",
            end="",
        )
        print(f" | {one.journal:.0f} | {one.oldest_s:.1f} | {one.pending:.0f} | {one.lag_s * 1e3:.0f} |", flush=True)
    began = time.monotonic()
    soak.settle()
    _summarize(minutes, time.monotonic() - began)


def _summarize(minutes: list[Minute], drained_s: float) -> None:
    acks = [time for one in minutes for time in one.outcome.seconds.get(200, ())]
    memory = [one.resident for one in minutes]
    p50, p99, p999 = (quantile(acks, q) * 1e3 for q in (0.5, 0.99, 0.999))
    sent = sum(len(times) for one in minutes for times in one.outcome.seconds.values())
    print(f"\n{len(minutes)} minutes: {len(acks)} requests answered 200, {sent - len(acks)} otherwise;", end=" ")
    print(f"ack p50 {p50:.0f} ms, p99 {p99:.0f} ms, p99.9 {p999:.0f} ms")
    print(f"memory {min(memory):.0f} / {median(memory):.0f} / {max(memory):.0f} MiB (min, median, max)", end=", ")
    print(f"{slope(memory, _MINUTE_S):+.2f} MiB a minute over the second half")
    print(f"most parts of a day {max(one.parts for one in minutes):.0f}", end=", ")
    print(f"journal at most {max(one.journal for one in minutes):.0f} MiB", end=", ")
    print(f"oldest {max(one.oldest_s for one in minutes):.1f} s; drained {drained_s:.1f} s after the last request")


async def _count(directory: Path) -> int:
    store = ClickHouse(f"chdb://{directory}")
    await store.start()
    rows = await store.query("SELECT count() FROM spans", {}, limits=QueryLimits())
    await store.close()
    return int(str(rows[0][0]))


def _arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks.soak", description=__doc__)
    parser.add_argument("--minutes", type=int, default=2)
    parser.add_argument("--share", type=float, default=0.7, help="of what is stored in the long run")
    parser.add_argument("--rate", type=float, default=0.0, help="requests a second, in the place of a share")
    parser.add_argument("--projects", type=int, default=5)
    parser.add_argument("--directory", default=os.environ.get("TMPDIR"), help="where data goes, on a disk worth it")
    parser.add_argument("settings", nargs="*", type=lambda text: tuple(text.split("=", 1)), help="NAME=VALUE")
    arguments = parser.parse_args()
    arguments.settings = dict(arguments.settings)
    return arguments


if __name__ == "__main__":
    main()
