"""Prints, minute by minute, a `sluice up` under a steady load.

First how much it stores in the long run: what it takes without a pause for some seconds, over the time until the last
of it is stored. Then `--share` of that. In the end every acknowledged item is counted in the tables. The senders share
the machine with what they measure.
"""

import time
from argparse import Namespace
from concurrent.futures import Executor
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

from benchmarks.command import command
from benchmarks.end_to_end.product import rows_left
from benchmarks.gateway.bodies import ITEMS, KINDS
from benchmarks.overload.deployment import make_keys, memory_of
from benchmarks.overload.offering import Load, Outcome, exports, offer
from benchmarks.processes import pid_of, resident_mib, spawned
from benchmarks.report import MIB, Table, by_status, print_machine, quantiles_ms
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

    def __init__(self, sluice: Sluice, senders: Executor, projects: int) -> None:
        self._sluice = sluice
        self._senders = senders
        self._port = int(sluice.base_url.rpartition(":")[2])
        self._keys = [sluice.key, *make_keys(f"sqlite:///{sluice.data}/sluice.db", sluice.org, projects - 1)]
        self._pid = pid_of(sluice.writer)
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
            resident_mib(self._pid),
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
        load = Load(self._port, exports(KINDS[0], *self._keys), rate, seconds, _CONNECTIONS)
        outcome = self._senders.submit(offer, load).result()
        self.acknowledged += outcome.count(200) * ITEMS
        self.unanswered += (sum(outcome.statuses.values()) - outcome.answered) * ITEMS
        return outcome

    def _metric(self, name: str) -> float:
        return metric(self._sluice.base_url, f"sluice_gateway_{name}")


def main() -> None:
    """Starts the product, soaks it, stops it, counts."""
    parser = command(__package__, __doc__, settings=True)
    parser.add_argument("--minutes", type=int, default=2)
    parser.add_argument("--share", type=float, default=0.7, help="of what is stored in the long run")
    parser.add_argument("--rate", type=float, default=0.0, help="requests a second, instead of a share")
    parser.add_argument("--projects", type=int, default=5)
    arguments = parser.parse_args()
    print_machine()
    with TemporaryDirectory(prefix="sluice-soak-") as directory, spawned() as senders:
        data = Path(directory) / "data"
        sluice = running(data, Path(directory) / "log", **{"SLUICE_LOG_LEVEL": "warning", **arguments.settings})
        try:
            soak = Soak(sluice, senders, arguments.projects)
            _soak(soak, arguments)
            sluice.stop()
        finally:
            sluice.kill()
        rows = rows_left(data / "clickhouse", "traces")
        left = soak.acknowledged - rows
        print(f"acknowledged {soak.acknowledged} items, {rows} rows of spans: {max(0, left)} missing,", end=" ")
        print(f"{max(0, -left)} beyond ({soak.unanswered} were in requests without an answer)")
        errors = [line for line in (Path(directory) / "log").read_text().splitlines() if '"level": "error"' in line]
        print(f"errors in the log: {len(errors)}", *errors[:5], sep="\n")


def _soak(soak: Soak, arguments: Namespace) -> None:
    soak.most()  # connections, caches, the first parts
    most = soak.most()
    rate = arguments.rate or most * arguments.share
    print(f"stores {most:.0f} requests/s of {ITEMS} spans in the long run;", end=" ")
    print(f"{rate:.0f}/s are sent: {rate * ITEMS:,.0f} spans/s")
    columns = {"minute": "", "by status": "", "ack p50, p99 ms": ".0f", "memory MiB": ".0f", "parts": ".0f"}
    table = Table({**columns, "journal MiB": ".0f", "oldest s": ".1f", "pending": ".0f", "lag ms": ".0f"})
    minutes = []
    for number in range(1, arguments.minutes + 1):
        minutes.append(one := soak.minute(rate))
        statuses, acks = by_status(one.outcome.statuses), quantiles_ms(one.outcome.seconds.get(200, ()), 0.5, 0.99)
        state = one.resident, one.parts, one.journal, one.oldest_s, one.pending, one.lag_s * 1e3
        table.row(number, statuses, acks, *state)
    began = time.monotonic()
    soak.settle()
    _summarize(minutes, time.monotonic() - began)


def _summarize(minutes: list[Minute], drained_s: float) -> None:
    acks = [time for one in minutes for time in one.outcome.seconds.get(200, ())]
    sent = sum(sum(one.outcome.statuses.values()) for one in minutes)
    table = Table({f"{len(minutes)} minutes": "", "": ".0f"})
    table.row("requests answered 200", len(acks))
    table.row("requests that ended otherwise", sent - len(acks))
    table.row("ack p50, p99, p99.9 ms", quantiles_ms(acks, 0.5, 0.99, 0.999))
    table.row("memory", memory_of([one.resident for one in minutes], _MINUTE_S))
    table.row("most parts of a day", max(one.parts for one in minutes))
    table.row("journal at most, MiB", max(one.journal for one in minutes))
    table.row("oldest of the journal, s", max(one.oldest_s for one in minutes))
    table.row("drained after the last request, s", drained_s)


if __name__ == "__main__":
    main()
