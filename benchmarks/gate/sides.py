"""The processes of both sides: each is started in its own tree, with the interpreter and packages of this one."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from concurrent.futures import Executor
from contextlib import ExitStack, chdir, contextmanager
from pathlib import Path
from typing import NamedTuple, TypeVar

import psutil  # type: ignore[import-untyped]  # it has no types

from benchmarks.gate.trees import Tree
from benchmarks.processes import pid_of
from tests.e2e.product import Service

T = TypeVar("T")


class Pair(NamedTuple):
    """One figure of both."""

    base: float
    head: float

    @property
    def ratio(self) -> float:
        """Above 1: worse."""
        return self.head / self.base


Pairs = Mapping[str, Pair]
# The n-th pair of the figures that are wanted, and of others perhaps.
Measure = Callable[[int, Collection[str]], Pairs]


class Bench(NamedTuple):
    """The values that all measurements share. `senders` is one process."""

    base: Tree
    head: Tree
    directory: Path
    senders: Executor

    @property
    def trees(self) -> Sequence[Tree]:
        """Both, the base first."""
        return self.base, self.head


def in_turns(number: int, sides: Mapping[str, T]) -> Sequence[tuple[str, T]]:
    """Both sides by name, each first every other time."""
    names = ("base", "head") if number % 2 else ("head", "base")
    return [(name, sides[name]) for name in names]


def held_bytes(process: psutil.Process) -> float:
    """Memory of its own, and its share of what it has in common with others."""
    return float(process.memory_full_info().pss)


@contextmanager
def at(tree: Tree) -> Iterator[None]:
    """What is started meanwhile is of that tree: `python -m` looks there first."""
    with chdir(tree.directory):
        yield


@contextmanager
def serving(tree: Tree, *services: Service) -> Iterator[list[psutil.Process]]:
    """Start services at once, wait until they are ready, and end them."""
    with ExitStack() as stack:
        for service in services:
            stack.callback(service.kill)
            with at(tree):
                service.begin()
        for service in services:
            service.wait_until_ready()
        yield [psutil.Process(pid_of(service)) for service in services]
        for service in services:
            service.stop()
