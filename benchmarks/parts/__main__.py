"""Prints inserts, parts and time to the answer for each scenario.

The scenarios take turns, round after round, so that whatever else the machine does meets all of them; what is printed
is the median round, and of parts the most of any.
"""

import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import Future, wait
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final, NamedTuple

from benchmarks.command import command, is_wanted
from benchmarks.overload.deployment import make_keys
from benchmarks.overload.offering import Load, Outcome, offer
from benchmarks.parts.load import SCENARIOS, Scenario
from benchmarks.processes import spawned
from benchmarks.report import Table, by_status, print_machine, quantiles_ms
from tests.e2e.product import Service, Sluice, clean_environment, started
from tests.faults.deployment import metric

_WARM_UP_S: Final = 3.0
_SAMPLE_S: Final = 0.5
_CONNECTIONS: Final = 1_000  # however long the answers take
_TABLES: Final = ("spans", "trace_index", "attribute_keys", "ingest_outcomes")


class _Server(Service):
    """`sluice up` in the way of `benchmarks.parts.server`."""

    def begin(self) -> None:
        """Start it and do not wait."""
        whole = [sys.executable, "-m", "benchmarks.parts.server", self.command, "--data", str(self.data)]
        with self.log.open("ab") as out:
            self.process = subprocess.Popen(
                [*whole, "--port", str(self.port)], stdout=out, stderr=out, env=clean_environment(self.environment)
            )


class Round(NamedTuple):
    """What one round of a scenario showed: outcomes by stream; by table inserts, and the most active parts of a day."""

    outcomes: Sequence[Outcome]
    inserts: Sequence[float]
    parts: Sequence[float]


def main() -> None:
    """Measures."""
    arguments = command(__package__, __doc__, seconds=10.0, rounds=3, only="").parse_args()
    print_machine()
    chosen = [scenario for scenario in SCENARIOS if is_wanted(scenario.name, arguments.only)]
    seen: dict[str, list[Round]] = {scenario.name: [] for scenario in chosen}
    for _ in range(arguments.rounds):
        for scenario in chosen:
            seen[scenario.name].append(_measured(scenario, arguments.seconds))
    columns = {"what is sent": "", "answered": "", "p50, p99, longest ms": ".0f"}
    columns |= {f"parts made a second: {', '.join(_TABLES)}": ".1f", "most parts of a day": ".0f"}
    table = Table(columns)
    for scenario in chosen:
        rounds = seen[scenario.name]
        inserts = tuple(median(each) / arguments.seconds for each in zip(*(one.inserts for one in rounds), strict=True))
        most = max(max(one.parts) for one in rounds)
        for number, stream in enumerate(scenario.streams):
            name = f"{scenario.name}: {stream.name}, {stream.rate:g}/s of {stream.spans} spans"
            table.row(name, *_answers([one.outcomes[number] for one in rounds]), inserts, most)


def _measured(scenario: Scenario, seconds: float) -> Round:
    """One round against a product of its own."""
    with tempfile.TemporaryDirectory(prefix="sluice-parts-") as directory:
        data = Path(directory) / "data"
        service = _Server("up", data, Path(directory) / "log", {"SLUICE_LOG_LEVEL": "error", **scenario.settings})
        sluice = started(service, data)
        try:
            keys = make_keys(f"sqlite:///{data}/sluice.db", sluice.org, scenario.projects)
            found = _round(scenario, sluice, keys, seconds)
            sluice.stop()
        finally:
            sluice.kill()
    return found


def _round(scenario: Scenario, sluice: Sluice, keys: Sequence[str], seconds: float) -> Round:
    with spawned(len(scenario.streams)) as senders:

        def sending(seconds: float) -> list[Future[Outcome]]:
            port, streams = sluice.writer.port, scenario.streams
            loads = [Load(port, partial(each.requests, keys), each.rate, seconds, _CONNECTIONS) for each in streams]
            return [senders.submit(offer, load) for load in loads]

        wait(sending(_WARM_UP_S))
        before, most, sent = _inserts(sluice), [0.0] * len(_TABLES), sending(seconds)
        while not all(one.done() for one in sent):
            most = [max(pair) for pair in zip(most, _of_tables(sluice, "sluice_gateway_parts"), strict=True)]
            time.sleep(_SAMPLE_S)
        inserts = [after - earlier for earlier, after in zip(before, _inserts(sluice), strict=True)]
        return Round([one.result() for one in sent], inserts, most)


def _inserts(sluice: Sluice) -> list[float]:
    """By table; each makes one part, as a block is of one day."""
    return _of_tables(sluice, "sluice_gateway_insert_rows_count")


def _of_tables(sluice: Sluice, name: str) -> list[float]:
    return [metric(sluice.base_url, name, table=table) for table in _TABLES]


def _answers(outcomes: Sequence[Outcome]) -> tuple[str, tuple[float, ...]]:
    """How all requests ended, and milliseconds to the acknowledgement in the median round."""
    statuses = sum((Counter(one.statuses) for one in outcomes), Counter[int]())
    times = [quantiles_ms(one.seconds.get(200, ()), 0.5, 0.99, 1) for one in outcomes]
    return by_status(statuses), tuple(map(median, zip(*times, strict=True)))


if __name__ == "__main__":
    main()
