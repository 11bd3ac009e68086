"""Recursion counts once: how often an error's functions had called one another when it was raised says nothing."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

_KIND: Final = re.compile(r"Recursion|StackOverflow|SystemStack|^(?:InternalError|RangeError)$")
_TRACE: Final = re.compile(r"stack overflow|call stack|stack level too deep|goroutine stack exceeds", re.IGNORECASE)
_TRACE_CHARS: Final = 300
_SELDOM: Final = 4  # what is this much rarer than the most frequent function is where the cycle ended


def says_overflow(kind: str, stacktrace: str) -> bool:
    """Whether the exception may say that the stack is full, by its type or the first lines of its trace."""
    return bool(_KIND.search(kind) or _TRACE.search(stacktrace[:_TRACE_CHARS]))


def fold(frames: Sequence[str], *, overflow: bool) -> list[str]:
    """The distinct frames; those that recur are one, in the order of the alphabet, because the recursion may end at any
    of them. If the stack was full, they alone count.
    """
    counts = Counter(frames)
    most = max(counts.values(), default=0)
    if most < 2:
        return list(counts)
    cycle = {frame for frame, count in counts.items() if count > max(1, most // _SELDOM)}
    whole = " ".join(sorted(cycle))
    if overflow:
        return [whole]
    return list(dict.fromkeys(whole if frame in cycle else frame for frame in counts))
