"""Recursion counts once: how often an error's functions had called one another when it was raised says nothing."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

_KIND: Final = re.compile(r"Recursion|StackOverflow|SystemStack|^InternalError$")
_RANGE_ERROR: Final = "RangeError"  # of browsers: a full stack, and much else, which V8 says in the first line
_TRACE: Final = re.compile(r"stack overflow|call stack|stack level too deep|goroutine stack exceeds", re.IGNORECASE)
_TRACE_CHARS: Final = 300
_SELDOM: Final = 4  # what is this much rarer than the most frequent function is where the cycle ended


def fold(frames: Sequence[str], kind: str, stacktrace: str) -> list[str]:
    """The distinct frames; those that recur are one, in the order of the alphabet, because the recursion may end at any
    of them. If the stack was full, as the type or the first lines say, they alone count.
    """
    if len(set(frames)) == len(frames):
        return list(frames)
    counts = Counter(frames)
    most = max(counts.values())
    cycle = {frame for frame, count in counts.items() if count > max(1, most // _SELDOM)}
    whole = " ".join(sorted(cycle))
    if _KIND.search(kind) or _TRACE.search(stacktrace[:_TRACE_CHARS]):
        return [whole]
    if kind == _RANGE_ERROR and frames[0] in cycle and not stacktrace.lstrip().startswith(_RANGE_ERROR):
        return [whole]
    return list(dict.fromkeys(whole if frame in cycle else frame for frame in counts))
