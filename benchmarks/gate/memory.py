"""What each service holds with nothing to do, and the gateway once it has stored a hundred requests: gateway, query and
control as processes of their own, so that the engine's memory, which is not ours, is not in it.
"""

import shutil
import time
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from typing import Final

from benchmarks.gate.ingest import KINDS, apart
from benchmarks.gate.sides import Bench, Measure, Pair, Pairs, held_bytes, serving
from benchmarks.gate.trees import Tree
from benchmarks.gateway.bodies import bodies
from benchmarks.gateway.rivals import Endpoint, endpoint
from benchmarks.report import MIB, Void
from tests.e2e.product import APART, Sluice

FIGURES: Final = {**{f"memory-{service}": "MiB" for service in APART}, "memory-gateway-loaded": "MiB"}
_REQUESTS: Final = 100
_SETTLED_S: Final = 1.5  # after a start
_KIND: Final = KINDS["cpu-gzip"]


@contextmanager
def session(bench: Bench) -> Iterator[Measure]:
    """Both set up, and started before."""
    directory = bench.directory / "memory"
    directory.mkdir()
    with endpoint(directory) as sink:
        sides = {tree.name: (tree, apart(tree, directory / tree.name, sink)) for tree in bench.trees}
        starts = _Starts(sink, sides)
        starts.pairs()
        yield lambda _number, _figures: starts.pairs()


class _Starts:
    def __init__(self, sink: Endpoint, sides: Mapping[str, tuple[Tree, Sluice]]) -> None:
        self._sink = sink
        self._sides = sides
        self._accepted = dict.fromkeys((f"{name}.spans" for name in sides), 0)

    def pairs(self) -> Pairs:
        """Both at the same time: what they share with each other they share alike."""
        with ExitStack() as stack:
            running = {
                name: stack.enter_context(serving(tree, *(sluice.services[service] for service in APART)))
                for name, (tree, sluice) in self._sides.items()
            }
            time.sleep(_SETTLED_S)
            taken = {name: [held_bytes(process) for process in processes] for name, processes in running.items()}
            for name, (_, sluice) in self._sides.items():
                self._load(name, sluice)
            self._sink.wait_until_arrived(self._accepted)
            for name, (gateway, *_) in running.items():
                taken[name].append(held_bytes(gateway))
        for _, sluice in self._sides.values():
            # The endpoint keeps no rows: the next start would look for those of these batches, and store them anew.
            shutil.rmtree(sluice.writer.data / "journal")
        values = zip(FIGURES, taken["base"], taken["head"], strict=True)
        return {figure: Pair(base / MIB, head / MIB) for figure, base, head in values}

    def _load(self, name: str, sluice: Sluice) -> None:
        for body in bodies(_KIND)[:_REQUESTS]:
            answer = sluice.export("traces", body, Content_Encoding="gzip")
            if answer.status != 200:
                raise Void(f"{name} answered {answer.status} {answer.body!r}")
            self._accepted[f"{name}.spans"] += _KIND.items
