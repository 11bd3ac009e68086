"""The chains of causes in a traceback of Python, where the reported exception comes last, and groups of exceptions are
trees that are drawn with bars.

A direct cause (`raise ... from`) comes before its wrapper; an exception that was handled meanwhile is no cause. Of a
group each exception is a cause.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Final

from proto.stack_traces.frames import MAX_MEMBERS, Kind, Line, Raised

_MAX_CHAIN: Final = 32


@dataclass(slots=True)
class _Printed:
    """An exception as it is printed: `link` is what stands before it, `depth` how many groups it is in."""

    link: Kind
    depth: int
    raised: Raised = field(default_factory=Raised)


def arrange(lines: Sequence[Line]) -> list[list[Raised]]:
    """The chain of each exception that is in no group or is the member of one, innermost cause first."""
    printed = _split(lines)
    chains: list[list[Raised]] = []
    pending: list[tuple[int, int, list[Raised]]] = [(0, len(printed), [])]
    while pending and len(chains) < MAX_MEMBERS:
        start, end, outer = pending.pop()
        if start >= end or len(outer) >= _MAX_CHAIN:
            chains.append(outer)
            continue
        depth = min(one.depth for one in printed[start:end])
        last = max(number for number in range(start, end) if printed[number].depth == depth)
        chain = [printed[last].raised, *outer]
        if last + 1 < end:  # a group
            pending += [(*member, chain) for member in reversed(_members(printed, last + 1, end))]
        elif printed[last].link is Kind.WRAPPER:
            pending.append((start, last, chain))
        else:
            chains.append(chain)
    return chains


def _members(printed: Sequence[_Printed], start: int, end: int) -> list[tuple[int, int]]:
    """Where the exceptions of a group begin and end, with their causes and their own members."""
    starts = [start]
    for number in range(start + 1, end):
        if printed[number].link is Kind.MEMBER and printed[number].depth <= printed[starts[-1]].depth:
            starts.append(number)
    return list(zip(starts, [*starts[1:], end], strict=True))[:MAX_MEMBERS]


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
