"""CPU a span over HTTP: both gateways in mode `journal`, in front of one endpoint that counts rows and keeps none.

A pair is a few short stretches of load on each in turns, and then the wait until every accepted span and what is
derived from them has arrived; what a gateway does meanwhile is charged to its own process. The load is so many
requests a second, a third of what a core takes: both have the same to do in batches alike, and nothing is read from
the journal again.
"""

from collections.abc import Collection, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Final, NamedTuple

import psutil  # type: ignore[import-untyped]  # it has no types

from benchmarks.gate.sides import Bench, Measure, Pair, Pairs, at, in_turns, serving
from benchmarks.gate.trees import Tree, grpc_settings
from benchmarks.gateway.bodies import Kind
from benchmarks.gateway.rivals import Endpoint, endpoint
from benchmarks.overload.offering import Load, exports, offer
from benchmarks.processes import cpu_s
from benchmarks.report import Void
from tests.e2e.product import Sluice, set_up_apart

KINDS: Final[Mapping[str, Kind]] = {
    "cpu-gzip": Kind("traces", "protobuf gzip"),
    "cpu-json": Kind("traces", "JSON"),
    "cpu-four-spans": Kind("traces", "protobuf", 4),
}
FIGURES: Final = dict.fromkeys(KINDS, "us a span")
_RATES: Final = {"cpu-gzip": 200, "cpu-json": 100, "cpu-four-spans": 800}  # requests a second: a third of a core
_CONNECTIONS: Final = 16
_STRETCHES: Final = 4  # of a side in a pair
_STRETCH_S: Final = 0.8


class _Side(NamedTuple):
    process: psutil.Process
    port: int
    key: str
    table: str


def apart(tree: Tree, directory: Path, sink: Endpoint) -> Sluice:
    """The services of a tree, set up with a database of their own at the endpoint, and not started."""
    directory.mkdir()
    url = f"http://127.0.0.1:{sink.port}/{tree.name}"
    with at(tree):
        database_url = f"sqlite:///{directory / 'shared.db'}"
        return set_up_apart(directory, url, database_url, SLUICE_DURABILITY="journal", **grpc_settings(tree))


@contextmanager
def session(bench: Bench) -> Iterator[Measure]:
    """Both gateways, warm."""
    directory = bench.directory / "ingest"
    directory.mkdir()
    with ExitStack() as stack:
        sink = stack.enter_context(endpoint(directory))
        sides = {}
        for tree in bench.trees:
            sluice = apart(tree, directory / tree.name, sink)
            (process,) = stack.enter_context(serving(tree, sluice.writer))
            sides[tree.name] = _Side(process, sluice.writer.port, sluice.key, f"{tree.name}.spans")
        load = _Load(bench, sink, sides)
        load.pairs(0, KINDS)
        yield load.pairs


class _Load:
    def __init__(self, bench: Bench, sink: Endpoint, sides: Mapping[str, _Side]) -> None:
        self._senders = bench.senders
        self._sink = sink
        self._sides = sides
        self._accepted = {side.table: 0 for side in sides.values()}

    def pairs(self, number: int, figures: Collection[str]) -> Pairs:
        """One of each figure. Raises Void."""
        return {figure: self._pair(number, figure) for figure in KINDS if figure in figures}

    def _pair(self, number: int, figure: str) -> Pair:
        before = {name: cpu_s(side.process.pid) for name, side in self._sides.items()}
        items = dict.fromkeys(self._sides, 0)
        for stretch in range(_STRETCHES):
            for name, side in in_turns(number + stretch, self._sides):
                items[name] += self._sent(side, figure)
        self._sink.wait_until_arrived(self._accepted)
        spent = {name: cpu_s(side.process.pid) - before[name] for name, side in self._sides.items()}
        return Pair(*(spent[name] / items[name] * 1e6 for name in ("base", "head")))

    def _sent(self, side: _Side, figure: str) -> int:
        kind = KINDS[figure]
        load = Load(side.port, exports(kind, side.key), _RATES[figure], _STRETCH_S, _CONNECTIONS)
        outcome = self._senders.submit(offer, load).result()
        items = outcome.count(200) * kind.items
        if len(outcome.seconds) != 1 or not items:
            raise Void(f"{side.table}: requests were not accepted, by status: {outcome.statuses}")
        self._accepted[side.table] += items
        return items
