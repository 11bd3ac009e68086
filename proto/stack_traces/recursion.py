"""Recursion counts once: how often an error's functions had called one another when it was raised says nothing."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final

_OVERFLOW: Final = re.compile(
    r"recursion|stack ?overflow|call stack|stack level too deep|stack exceeds|SystemStackError|too much recursion",
    re.IGNORECASE,
)
_MIN_TURNS: Final = 8  # a cycle that was run so often at the innermost frames has overflown
_SELDOM: Final = 4  # what is this much rarer than the most frequent function is where the cycle ended


def says_overflow(kind: str, message: str) -> bool:
    """Whether the exception says that the stack is full."""
    return bool(_OVERFLOW.search(kind) or _OVERFLOW.search(message[:200]))


def fold(frames: Sequence[str], *, overflow: bool) -> list[str]:
    """The distinct frames. If the stack was full, those of the cycle alone and in the order of the alphabet: it is full
    at any function of the cycle.
    """
    counts = Counter(frames)
    most = max(counts.values(), default=0)
    if most > 1 and (overflow or (most >= _MIN_TURNS and counts[frames[0]] > most // 2)):
        return sorted(frame for frame, count in counts.items() if count > most // _SELDOM)
    return list(counts)
