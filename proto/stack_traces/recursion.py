"""Recursion counts once: how often an error's functions had called one another when it was raised says nothing."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

_KIND: Final = re.compile(r"Recursion|StackOverflow|SystemStack|^(?:InternalError|RangeError)$")
_TRACE: Final = re.compile(r"stack overflow|call stack|stack level too deep|goroutine stack exceeds", re.IGNORECASE)
_TRACE_CHARS: Final = 300
_MIN_TURNS: Final = 8  # a cycle that was run so often at the innermost frames has overflown
_SELDOM: Final = 4  # what is this much rarer than the most frequent function is where the cycle ended


def says_overflow(kind: str, stacktrace: str) -> bool:
    """Whether the exception may say that the stack is full, by its type or the first lines of its trace."""
    return bool(_KIND.search(kind) or _TRACE.search(stacktrace[:_TRACE_CHARS]))


def fold(frames: Sequence[str], *, overflow: bool) -> list[str]:
    """The distinct frames. If the stack was full, those of the cycle alone and in the order of the alphabet: it is full
    at any function of the cycle.
    """
    counts = Counter(frames)
    most = max(counts.values(), default=0)
    if most > 1 and (overflow or (most >= _MIN_TURNS and counts[frames[0]] > most // 2)):
        return sorted(frame for frame, count in counts.items() if count > most // _SELDOM)
    return list(counts)
