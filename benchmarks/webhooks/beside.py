"""CPU that the gateway spends per exported span, with webhooks delivered to the same deployment and without.

One gateway in mode `journal` in front of an endpoint that counts rows and keeps none, and the control service over the
same SQLite database. The load is that of `benchmarks.gate`; webhooks come as fast as control takes them, or not at all,
in turns.
"""

from collections.abc import Iterator
from concurrent.futures import Executor
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

from benchmarks.gate.ingest import KINDS
from benchmarks.gateway.rivals import Endpoint, endpoint
from benchmarks.overload.offering import Load, exports, offer
from benchmarks.processes import cpu_s, pid_of, spawned
from benchmarks.report import Table, spread
from benchmarks.webhooks.sending import Maker, new_integration, push, send
from tests.e2e.product import Sluice, set_up_apart

PAIRS: Final = 8
_KIND: Final = "cpu-gzip"
_RATE: Final = 60  # requests a second: senders, gateway and control share two cores
_STRETCH_S: Final = 3.0
_CONNECTIONS: Final = 8


class _Beside:
    """A running deployment and who sends to it."""

    def __init__(self, sluice: Sluice, sink: Endpoint, table: str, exporter: Executor, sender: Executor) -> None:
        self._sluice = sluice
        self._sink = sink
        self._table = table
        self._exporter = exporter
        self._sender = sender
        self._accepted = 0
        self._gateway = pid_of(sluice.services["gateway"])
        url = f"{sluice.control_url}/orgs/{sluice.org}/integrations"
        self._webhook = partial(push, *new_integration(url, sluice.token, "github"))
        self._sent = 0

    def cost(self, *, beside: bool) -> tuple[float, float]:
        """Microseconds of CPU per span, and webhooks accepted a second meanwhile."""
        begun = cpu_s(self._gateway)
        webhooks = None
        if beside:
            port = self._sluice.services["control"].port
            webhooks = self._sender.submit(send, port, partial(_from, self._webhook, self._sent), _STRETCH_S)
            self._sent += 1_000_000
        kind = KINDS[_KIND]
        gateway = self._sluice.services["gateway"].port
        load = Load(gateway, exports(kind, self._sluice.key), _RATE, _STRETCH_S, _CONNECTIONS)
        items = self._exporter.submit(offer, load).result().count(200) * kind.items
        self._accepted += items
        self._sink.wait_until_arrived({self._table: self._accepted})
        sent = None if webhooks is None else webhooks.result()
        if sent is not None and set(sent.statuses) != {200}:
            raise SystemExit(f"webhooks: answered {sent.statuses}")
        rate = 0.0 if sent is None else sent.statuses[200] / sent.seconds
        return (cpu_s(self._gateway) - begun) / items * 1e6, rate


def measure(directory: Path) -> None:
    """Prints the ratio of each pair, and the median."""
    with _deployed(directory) as beside:
        beside.cost(beside=True)
        ratios, rates = [], []
        for number in range(PAIRS):
            costs = {}
            for with_webhooks in (number % 2 == 0, number % 2 == 1):
                costs[with_webhooks], rate = beside.cost(beside=with_webhooks)
                rates += [rate] if with_webhooks else []
            ratios.append(costs[True] / costs[False])
    columns = {"CPU of the gateway per exported span, beside GitHub pushes to without": "", "pushes/s": ".0f"}
    Table({**columns, "each pair": ".3f"}).row(spread(ratios), median(rates), tuple(sorted(ratios)))


@contextmanager
def _deployed(directory: Path) -> Iterator[_Beside]:
    with ExitStack() as stack:
        sink = stack.enter_context(endpoint(directory))
        database = f"sqlite:///{directory / 'shared.db'}"
        settings = {"SLUICE_DURABILITY": "journal", "SLUICE_WEBHOOK_RATE": "0"}
        sluice = set_up_apart(directory, f"http://127.0.0.1:{sink.port}/sluice", database, **settings)
        for name in ("gateway", "control"):
            stack.callback(sluice.services[name].kill)
            sluice.services[name].start()
        exporter, sender = (stack.enter_context(spawned()) for _ in range(2))
        yield _Beside(sluice, sink, "sluice.spans", exporter, sender)
        for name in ("gateway", "control"):
            sluice.services[name].stop()


def _from(maker: Maker, first: int, number: int) -> tuple[str, str, dict[str, str], bytes]:
    """The delivery with this number after the first."""
    return maker(first + max(number, 0))
