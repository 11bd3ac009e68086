"""Prints exports and explores side by side.

First what the gateway takes at most, for five seconds; then `share` of it alone, then the same with twenty heavy
explores at once. The senders share the machine with what they measure.
"""

import asyncio
from argparse import Namespace
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import Executor, Future
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final

from benchmarks.command import command
from benchmarks.mixed.explores import AT_ONCE, Asked, ask
from benchmarks.mixed.ingest import SPANS, dated_requests
from benchmarks.overload.offering import Load, Outcome, offer
from benchmarks.processes import spawned
from benchmarks.report import Table, by_status, print_machine, quantiles_ms
from tests.e2e.product import Sluice, running

_SLICE_S: Final = 5.0  # of the search for what the gateway takes
_SENDERS: Final = 24  # enough that the gateway, not the wait for an answer, is what limits
_CONNECTIONS: Final = 256  # of a steady rate, however long the answers take


def main() -> None:
    """Starts the product, measures, stops it."""
    parser = command(__package__, __doc__, seconds=60.0, settings=True)
    parser.add_argument("--share", type=float, default=0.6, help="of what the gateway takes at most")
    parser.add_argument("--rate", type=float, default=0.0, help="exports a second, instead of a share")
    arguments = parser.parse_args()
    print_machine()
    with TemporaryDirectory(prefix="sluice-mixed-") as directory, spawned() as sender:
        # The limits of one principal are not what is measured: twenty people would have one each.
        settings = {"SLUICE_ANALYSIS_RATE": "0", "SLUICE_API_RATE": "0", **arguments.settings}
        sluice = running(Path(directory) / "data", Path(directory) / "log", **settings)
        try:
            _measure(sluice, sender, arguments)
            sluice.stop()
        finally:
            sluice.kill()


def _measure(sluice: Sluice, sender: Executor, arguments: Namespace) -> None:
    def sending(rate: float, seconds: float, connections: int = _CONNECTIONS) -> Future[Outcome]:
        requests = partial(dated_requests, sluice.key)
        return sender.submit(offer, Load(sluice.writer.port, requests, rate, seconds, connections))

    sending(0, _SLICE_S, _SENDERS).result()  # connections, caches, the first parts
    outcome = sending(0, _SLICE_S, _SENDERS).result()
    most = outcome.count(200) / outcome.elapsed_s
    rate = arguments.rate or most * arguments.share
    print(f"at most {most:.0f} exports a second of {SPANS} spans; {rate:.0f} are sent: {rate * SPANS:.0f} spans/s")
    table = Table({"exports": "", "asked": "", "by status": "", "p50, p99, longest ms": ".0f"})
    _print(table, "exports alone", sending(rate, arguments.seconds).result().seconds)
    url = f"{sluice.query_url}/orgs/{sluice.org}/projects/{sluice.project}/explore"
    beside = sending(rate, arguments.seconds)
    asked = asyncio.run(ask(url, sluice.token, arguments.seconds))
    _print(table, f"exports beside {AT_ONCE} explores at once", beside.result().seconds)
    _print(table, f"explores, {AT_ONCE} at once", _by_status(asked))
    for name in dict.fromkeys(one.name for one in asked):
        _print(table, f"- {name}", _by_status(one for one in asked if one.name == name))


def _by_status(asked: Iterable[Asked]) -> dict[int, list[float]]:
    seconds: dict[int, list[float]] = {}
    for one in asked:
        seconds.setdefault(one.status, []).append(one.seconds)
    return seconds


def _print(table: Table, what: str, seconds: Mapping[int, Sequence[float]]) -> None:
    counts = {status: len(times) for status, times in seconds.items()}
    table.row(what, sum(counts.values()), by_status(counts), quantiles_ms(seconds.get(200, ()), 0.5, 0.99, 1))


if __name__ == "__main__":
    main()
