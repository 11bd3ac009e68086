"""Recursion counts once: how often an error's functions had called one another when it was raised says nothing."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

from proto.stack_traces.frames import Frame

FINGERPRINT_FRAMES: Final = 5  # the deeper ones change with the callers

_KIND: Final = re.compile(r"Recursion|StackOverflow|SystemStack|^InternalError$")
_RANGE_ERROR: Final = "RangeError"  # of browsers: a full stack, and much else, which V8 says in the first line
_TRACE: Final = re.compile(r"stack overflow|call stack|stack level too deep|goroutine stack exceeds", re.IGNORECASE)
_TRACE_CHARS: Final = 300
_INNER: Final = re.compile(r"<genexpr>$|\{closure\}$")  # within a function, beside those without name
_SELDOM: Final = 4  # what is this much rarer than the most frequent function is where the cycle ended


def fold(frames: Sequence[Frame], kind: str, stacktrace: str) -> list[str]:
    """The texts of the five innermost functions, in the order of the alphabet, because functions that call one another
    come in any order; of those that recur together all. If the stack was full, as the type or the first lines say, they
    alone count.
    """
    texts = [frame.text for frame in frames]
    distinct = list(dict.fromkeys(texts))
    if len(distinct) == len(texts):
        return sorted(distinct[:FINGERPRINT_FRAMES])
    cycle = _overflown(texts, kind, stacktrace)
    if cycle:
        return [" ".join(sorted(cycle))]
    return sorted(_innermost(distinct, _cycles(texts), _passed_by(frames)))


def _overflown(texts: Sequence[str], kind: str, stacktrace: str) -> set[str]:
    """The functions of an endless recursion; none if the stack was not full."""
    counts = Counter(texts)
    most = max(counts.values())
    cycle = {text for text, count in counts.items() if count > max(1, most // _SELDOM)}
    if _KIND.search(kind) or _TRACE.search(stacktrace[:_TRACE_CHARS]):
        return cycle
    is_full = kind == _RANGE_ERROR and texts[0] in cycle and not stacktrace.lstrip().startswith(_RANGE_ERROR)
    return cycle if is_full else set()


def _innermost(distinct: Sequence[str], cycles: dict[str, set[str]], passed_by: set[str]) -> set[str]:
    """So many functions, of a cycle all."""
    found: set[str] = set()
    for text in distinct:
        if len(found) >= FINGERPRINT_FRAMES:
            break
        if text not in passed_by:
            found |= cycles.get(text, {text}) - passed_by
    return found


def _cycles(texts: Sequence[str]) -> dict[str, set[str]]:
    """The functions between the first and the last call of a function, by each of them."""
    ends = {text: number for number, text in enumerate(texts)}
    found: dict[str, set[str]] = {}
    cycle: set[str] = set()
    end = -1
    for number, text in enumerate(texts):
        if number > end:
            cycle, end = set(), number
        end = max(end, ends[text])
        cycle.add(text)
        found[text] = cycle
    return found


def _passed_by(frames: Sequence[Frame]) -> set[str]:
    """Lambdas and the like through which a function has only called itself: without recursion they are not there."""
    inner = {frame.text for frame in frames if not frame.is_named or _INNER.search(frame.text)}
    if not inner:
        return inner
    path: dict[str, None] = {}  # from the outermost function to the innermost one, without what came round again
    for frame in reversed(frames):
        if frame.text in path:
            while next(reversed(path)) != frame.text:
                path.popitem()
        path[frame.text] = None
    return inner - path.keys()
