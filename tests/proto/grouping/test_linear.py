"""The cost of every pattern is linear in a hostile text: what four times the text costs is not sixteen times as much.

The hostile texts repeat the literals of all patterns of both packages, and what stands between them.
"""

import importlib
import pkgutil
import re
import time
from collections.abc import Callable, Iterator

import pytest

import proto.grouping
import proto.stack_traces
from proto.grouping.messages import MAX_MESSAGE_CHARS, normalize_message
from proto.stack_traces import trace
from proto.stack_traces.frames import MAX_LINE_CHARS
from proto.stack_traces.lines import read_line

GROWTH = 4
MAX_RATIO = 10  # of a quadratic cost it is 16, of a linear one 4
SHARE = 20  # what is so much cheaper than the most expensive text is not measured again
ATTEMPTS = 6
UNITS = (
    "a", "1", "A", "a1", "(", ")", "(0x", "(0x)", "(a)", "-", "_", ".", "a.", ".a", "1.", "1:", ":", "::", "-1", "a-",
    "_a", "<a>", "<", ">", "[", "]", "{", "}", "/", "\\", "/a", "'", '"', "`", "@", "a@", "#", ";", ",",
)  # fmt: skip


def patterns() -> Iterator[re.Pattern[str]]:
    for package in (proto.grouping, proto.stack_traces):
        for info in pkgutil.iter_modules(package.__path__, f"{package.__name__}."):
            if not info.name.endswith(".version_1"):
                for value in vars(importlib.import_module(info.name)).values():
                    yield from (one for one in (value, *_parts(value)) if isinstance(one, re.Pattern))


def _parts(value: object) -> Iterator[object]:
    if isinstance(value, tuple):
        for one in value:
            yield one
            yield from _parts(one)


def literals() -> list[str]:
    """The texts in the patterns, without operators and classes."""
    found: set[str] = set()
    for pattern in patterns():
        plain = re.sub(r"\[[^\]]*\]|\\[A-Za-z]|\(\?<?[=!:a-zA-Z]+>?|\{\d*,?\d*\}", "|", pattern.pattern)
        found.update(part.replace("\\", "") for part in re.findall(r"(?:\\[^\w\s]|[^\\()\[\]{}?*+|^$\n])+", plain))
    return sorted(one for one in found if 0 < len(one) <= 24)


def cost(read: Callable[[str], object], unit: str, chars: int) -> float:
    """Seconds of processor time."""
    text = unit * (chars // len(unit)) + "!"
    trace.forget()
    start = time.thread_time()
    read(text)
    return time.thread_time() - start


@pytest.mark.parametrize(
    ("read", "chars"),
    [
        pytest.param(lambda text: trace.read_trace(f"x.go:\n{text}"), 2 * trace.END_CHARS - 8, id="text"),
        pytest.param(lambda text: trace.read_trace(f"x\n at {text}\n"), 2 * trace.END_CHARS - 8, id="frame"),
        pytest.param(read_line, MAX_LINE_CHARS, id="line"),
        pytest.param(lambda text: read_line(f"    at {text}"), MAX_LINE_CHARS - 8, id="at"),
        pytest.param(lambda text: read_line(f"#1 0x1 {text}"), MAX_LINE_CHARS - 8, id="number"),
        pytest.param(normalize_message, MAX_MESSAGE_CHARS, id="message"),
    ],
)
def test_the_cost_is_linear(read: Callable[[str], object], chars: int) -> None:
    units = sorted({*literals(), *UNITS})
    assert len(units) > 200
    costs = {unit: cost(read, unit, chars) for unit in units}
    dear = [unit for unit in units if costs[unit] * SHARE >= max(costs.values())]
    quadratic = {unit: ratio for unit in dear if (ratio := _ratio(read, unit, chars)) > MAX_RATIO}
    assert quadratic == {}


def _ratio(read: Callable[[str], object], unit: str, chars: int) -> float:
    """By the least of several attempts of either; as soon as it is small, that is enough."""
    small, large = [], []
    for _ in range(ATTEMPTS):
        small.append(cost(read, unit, chars // GROWTH))
        large.append(cost(read, unit, chars))
        if min(large) <= MAX_RATIO * min(small):
            break
    return min(large) / max(min(small), 1e-9)
