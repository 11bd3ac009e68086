"""The chain of causes in a traceback of Python, where the reported exception comes last, and groups of exceptions are
trees that are drawn with bars.

A direct cause (`raise ... from`) comes before its wrapper; an exception that was handled meanwhile is no cause. Of a
group the first exception counts as its cause.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from proto.stack_traces.frames import Kind, Line, Raised

_MAX_CHAIN: Final = 32


@dataclass(slots=True)
class _Printed:
    """An exception as it is printed: `link` is what stands before it, `depth` how many groups it is in."""

    link: Kind
    depth: int
    raised: Raised = field(default_factory=Raised)


def arrange(lines: Sequence[Line]) -> list[Raised]:
    """The chain, innermost cause first."""
    printed = _split(lines)
    start, end = 0, len(printed)
    chain: list[Raised] = []
    while start < end and len(chain) < _MAX_CHAIN:
        depth = min(one.depth for one in printed[start:end])
        last = max(number for number in range(start, end) if printed[number].depth == depth)
        chain.insert(0, printed[last].raised)
        if last + 1 < end:  # a group: its first exception, with the causes of that
            start, end = last + 1, _end_of_first(printed, last + 1, end)
        elif printed[last].link is Kind.WRAPPER:
            end = last
        else:
            break
    return chain


def _end_of_first(printed: Sequence[_Printed], start: int, end: int) -> int:
    depth = printed[start].depth
    for number in range(start + 1, end):
        if printed[number].link is Kind.MEMBER and printed[number].depth <= depth:
            return number
    return end


def _is_type(line: Line) -> bool:
    """A dotted name alone could be a function of Go, too."""
    return line.kind is Kind.TYPE or (line.kind is Kind.FUNCTION and not line.family)


def _split(lines: Sequence[Line]) -> list[_Printed]:
    """The exceptions in the order of the text, those that have frames or a type."""
    printed = [_Printed(Kind.OTHER, 1)]
    for index, line in enumerate(lines):
        kind, current = line.kind, printed[-1]
        if kind in (Kind.WRAPPER, Kind.CONTEXT, Kind.MEMBER):
            printed.append(_Printed(kind, max(line.number, 1)))
        elif kind is Kind.TRACEBACK and current.raised.line >= 0:
            printed.append(_Printed(Kind.CONTEXT, max(line.number, 1)))
        elif kind is Kind.FRAME and line.frame is not None:
            if current.raised.line < 0:
                current.raised.frames.append(line.frame)
            current.depth = max(line.number, 1) if len(current.raised.frames) == 1 else current.depth
        elif _is_type(line) and current.raised.line < 0 and not line.indent:
            current.raised.type, current.raised.line = line.text, index
    kept = [one for one in printed if one.raised.frames or one.raised.line >= 0]
    for one in kept:
        one.raised.frames.reverse()
    return kept
