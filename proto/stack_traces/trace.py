"""Read a stack trace: the application's own frames of the innermost cause, and the texts of the causes."""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple
from weakref import WeakValueDictionary

from proto.stack_traces import chain, python, rust
from proto.stack_traces.frames import Frame, Kind, Line, Memo, Raised
from proto.stack_traces.lines import read_line

END_CHARS: Final = 16_384
MAX_LINES: Final = 400  # of either end
_LINES_BYTES: Final = 8 * 2**20
_LINE_BYTES: Final = 4_096
_TRACES_BYTES: Final = 16 * 2**20
_TRACE_BYTES: Final = 256 * 2**10
_GO_ARGUMENTS: Final = re.compile(r"\(\{{0,3}0x[^\n()]*\)$", re.MULTILINE)


class Trace(NamedTuple):
    """A parsed stack trace. `own`: the application's own frames of the innermost cause that has any, innermost first.
    `place`: how many of these frames belong to the place of the error, which are the frames up to the first call by a
    framework. `frames`: the same as `own`, or all frames if none is the application's. `cause`: the type of the
    innermost cause, or empty without causes. `causes`: the lines with type and message of the causes, the innermost
    first.

    For a group of exceptions, these fields belong to the first member in the order of the members' frames, and `others`
    has the other members. A group counts as a set, because its members are printed in the order in which they failed.
    """

    own: Sequence[Frame]
    frames: Sequence[Frame]
    place: int
    cause: str
    causes: Sequence[str]
    others: Sequence["Trace"] = ()


class _Shape(NamedTuple):
    """A trace without its texts: `causes` are numbers of lines."""

    own: Sequence[Frame]
    frames: Sequence[Frame]
    place: int
    cause: str
    causes: Sequence[int]


class _Own(NamedTuple):
    """The frames of an exception, the application's own of them, and how many of these are at its place."""

    frames: Sequence[Frame]
    own: Sequence[Frame]
    place: int


def read_trace(stacktrace: str) -> Trace:
    """The application's own frames, and the causes, of a stack trace of any runtime."""
    texts = _split(stacktrace)
    first, *others = _SHAPES[tuple(map(_LINES.__getitem__, texts))]
    return _tell(first, texts, tuple(_tell(one, texts) for one in others))


def _tell(shape: _Shape, texts: Sequence[str], others: Sequence[Trace] = ()) -> Trace:
    own, frames, place, cause, causes = shape
    return Trace(own, frames, place, cause, [texts[number].strip(" |\t\r") for number in causes], others)


def forget() -> None:
    """Clear the caches of lines and traces, as in a new process."""
    _LINES.forget()
    _SHAPES.forget()
    chain.forget()


def _split(stacktrace: str) -> list[str]:
    if len(stacktrace) > 2 * END_CHARS:
        stacktrace = f"{stacktrace[:END_CHARS]}\n\n{stacktrace[-END_CHARS:]}"
    if ".go:" in stacktrace:
        stacktrace = _GO_ARGUMENTS.sub("()", stacktrace)  # otherwise every line would be different
    texts = stacktrace.split("\n")
    return texts if len(texts) <= 2 * MAX_LINES else [*texts[:MAX_LINES], "", *texts[-MAX_LINES:]]


def _read(text: str) -> Line:
    """Read a line. Returns the same object for all texts that differ only in a message, because the line is a part of
    the key of a trace.
    """
    line = read_line(text)
    if line.kind in (Kind.OTHER, Kind.FRAME):
        return line
    return _DISTINCT.setdefault((line.kind, line.family, line.text, line.indent, line.number), line)


def _read_shapes(lines: tuple[Line, ...]) -> tuple[_Shape, ...]:
    """The shape of a trace, or the shapes of the members of a group, in an order that depends only on their frames."""
    known: dict[int, _Own] = {}  # members share the exceptions around them
    shapes = [_read_shape(chain, known) for chain in _arrange(lines)]
    if len(shapes) == 1:
        return (shapes[0],)
    distinct = {(id(one.own), one.cause) if one.own else (index, ""): one for index, one in enumerate(shapes)}
    return tuple(sorted(distinct.values(), key=_order))


def _order(shape: _Shape) -> tuple[bool, list[tuple[str, str, str]], str]:
    """The sort key of a member. Members with frames of the application come first."""
    frames = shape.frames[: max(shape.place, 1)]
    return not shape.own, [(frame.text, frame.location, frame.function) for frame in frames], shape.cause


def _read_shape(raised: Sequence[Raised], known: dict[int, _Own]) -> _Shape:
    frames: Sequence[Frame] = []
    causes = [one.line for one in raised[:-1] if one.line >= 0]
    cause = raised[0].type if len(raised) > 1 else ""
    for one in raised:
        if id(one) not in known:
            known[id(one)] = _read_own(one.frames)
        all_frames, own, place = known[id(one)]
        if own:
            return _Shape(own, own, place, cause, causes)
        frames = frames or all_frames
    return _Shape([], frames, 0, cause, causes)


def _read_own(frames: list[Frame]) -> _Own:
    frames = _after_panic(frames)
    own = [frame for frame in frames if frame.in_app]
    return _Own(frames, own, _count_place(frames) if own else 0)


def _count_place(frames: Sequence[Frame]) -> int:
    """The number of the application's frames up to the first frame of a framework that called them. Frames outside of
    that frame are middlewares in any order. Frames of the standard library do not count as a framework, because it
    calls back functions of the application at the same place.
    """
    count = 0
    for frame in frames:
        if frame.in_app:
            count += 1
        elif count and not frame.is_standard:
            break
    return count


def _arrange(lines: Sequence[Line]) -> list[list[Raised]]:
    """The chains of causes. One empty chain if there are no frames and causes. The runtime of most frames is used for
    the whole trace.
    """
    counts = Counter(line.family for line in lines if line.family and line.kind <= Kind.FILE)
    if not counts and not any(line.kind is Kind.CAUSE for line in lines):
        return [[]]
    family = max(counts, key=counts.__getitem__) if counts else rust.FAMILY
    if counts[python.FAMILY] and any(line.kind is Kind.TRACEBACK for line in lines):
        family = python.FAMILY  # traces of other processes are quoted in its messages
    return chain.arrange_python(lines) if family == python.FAMILY else chain.arrange(lines, family)


def _after_panic(frames: list[Frame]) -> list[Frame]:
    """The frames without the frames that raise or report a panic, which are printed before the frames that caused
    it.
    """
    for number in range(len(frames) - 1, -1, -1):
        if frames[number].is_panic:
            return frames[number + 1 :]
    return frames


_DISTINCT: Final[WeakValueDictionary[tuple[object, ...], Line]] = WeakValueDictionary()
_LINES: Final[Memo[str, Line]] = Memo(_read, _LINES_BYTES, _LINE_BYTES)
_SHAPES: Final[Memo[tuple[Line, ...], tuple[_Shape, ...]]] = Memo(_read_shapes, _TRACES_BYTES, _TRACE_BYTES)
