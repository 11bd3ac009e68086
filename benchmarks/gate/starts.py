"""The cost of a start: `sluice up` on data that is there, from its command until `/readyz` says so."""

import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Final

from benchmarks.gate.sides import Bench, Measure, Pair, Pairs, at, in_turns
from benchmarks.gate.trees import Tree, grpc_settings
from benchmarks.processes import cpu_s, pid_of
from benchmarks.report import Void
from tests.e2e.product import START_SECONDS, Service, is_ready

FIGURES: Final = {"start-time": "s", "start-cpu": "s"}
_LOOK_S: Final = 0.002


@contextmanager
def session(bench: Bench) -> Iterator[Measure]:
    """Both have been started before, twice: once on nothing, and once on what that had made."""
    directory = bench.directory / "starts"
    directory.mkdir()
    sides = {
        tree.name: (
            tree,
            Service("up", directory / tree.name, directory / f"{tree.name}.log", grpc_settings(tree)),
        )
        for tree in bench.trees
    }
    try:
        for tree, service in (*sides.values(), *sides.values()):
            _started(tree, service)
        yield lambda number, _: _pairs(number, sides)
    finally:
        for _, service in sides.values():
            service.kill()


def _pairs(number: int, sides: Mapping[str, tuple[Tree, Service]]) -> Pairs:
    taken = {name: _started(*side) for name, side in in_turns(number, sides)}
    base, head = taken["base"], taken["head"]
    return {figure: Pair(base[place], head[place]) for place, figure in enumerate(FIGURES)}


def _started(tree: Tree, service: Service) -> tuple[float, float]:
    """Seconds, and those of CPU. Raises Void."""
    began = time.perf_counter()
    with at(tree):
        service.begin()
    while not is_ready(service.url):
        if service.ended() or time.perf_counter() - began > START_SECONDS:
            raise Void(f"{tree.name} is not ready:\n{service.log.read_text()}")
        time.sleep(_LOOK_S)
    taken = time.perf_counter() - began
    cpu = cpu_s(pid_of(service))
    service.stop()
    return taken, cpu
