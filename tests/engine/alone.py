"""A function in a process of its own: what the embedded engine is started with holds for its process."""

import multiprocessing
from collections.abc import Callable
from typing import ParamSpec, TypeVar

P = ParamSpec("P")
T = TypeVar("T")


def in_a_process(function: Callable[P, T], *args: P.args, **_none: P.kwargs) -> T:
    """What `function`, of the top level of a module, returns there."""
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        return pool.apply(function, args)
