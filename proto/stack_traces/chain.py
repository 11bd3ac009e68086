"""Join the lines of a stack trace to a chain of exceptions, with the innermost cause first. A group of exceptions has a
chain for each of its members.

`arrange` is for all runtimes except Python. They print frames from the innermost outwards. Java and Node print a cause
after its wrapper, .NET prints a cause before the frames of its wrapper, and PHP and Go print it before the wrapper.

`arrange_python` is for Python. Python prints the reported exception last, and draws groups of exceptions as trees with
bars. A direct cause (`raise ... from`) comes before its wrapper. An exception that was being handled is not a cause.
Each exception of a group is a cause.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final

from proto.stack_traces import go, php, rust
from proto.stack_traces.frames import MAX_MEMBERS, Frame, Kind, Line, Memo, Raised, frame_line

_MAX_CHAIN: Final = 32


@dataclass(slots=True)
class _Printed:
    """An exception as it is printed. `link` is the kind of line before it, and `depth` is the number of enclosing
    groups.
    """

    link: Kind
    depth: int
    raised: Raised = field(default_factory=Raised)


def arrange_python(lines: Sequence[Line]) -> list[list[Raised]]:
    """The chain of the reported exception, or of each member of a group, with the innermost cause first."""
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
    """The begin and end of each exception of a group, including its causes and its own members."""
    starts = [start]
    for number in range(start + 1, end):
        if printed[number].link is Kind.MEMBER and printed[number].depth <= printed[starts[-1]].depth:
            starts.append(number)
    return list(zip(starts, [*starts[1:], end], strict=True))[:MAX_MEMBERS]


def _is_type(line: Line) -> bool:
    """Whether the line is the type of an exception. A bare dotted name could also be a Go function."""
    return line.kind is Kind.TYPE or (line.kind is Kind.FUNCTION and not line.family)


def _split(lines: Sequence[Line]) -> list[_Printed]:
    """The exceptions that have frames or a type, in the order of the text."""
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


MAX_CHAIN: Final = 32  # exceptions; of a longer chain, the outermost exceptions do not count
MAX_FRAMES: Final = 1_000  # of an exception, including frames that it shares with its wrapper
_JOINED_BYTES: Final = 4 * 2**20
_JOINED_ENTRY_BYTES: Final = 8_192
_LIST: Final = 1  # the number of a cause that is a list of exceptions
_MESSAGE: Final = 2  # the number of a cause that is a message without type

Join = Callable[[Sequence[Line]], Iterator[tuple[int, Line]]]


def arrange(lines: Sequence[Line], family: str) -> list[list[Raised]]:
    """The chain of the exception in the trace, or of each member of a group."""
    join = _JOINS.get(family)
    chain = _Chain()
    for index, line in join(lines) if join else enumerate(lines):
        if line.kind and (not line.family or line.family == family) and not chain.take(index, line):
            break
    return [*chain.members, chain.raised]


@dataclass(slots=True)
class _Chain:
    """The exceptions so far. `at` is the exception whose frames come next. `members`: the chains of earlier members."""

    members: list[list[Raised]] = field(default_factory=list)
    raised: list[Raised] = field(default_factory=lambda: [Raised()])
    _at: int = 0
    _suppressed: int = -1  # the indentation of a suppressed exception, whose lines are skipped
    _number: int = -1
    _group: Raised | None = None  # the group whose members are listed
    _is_list: bool = False  # a list of Node, whose members are not marked
    _last: int = -1  # the line of the last frame
    _is_shared: bool = False  # whether the frames that it shares with its wrapper are known

    def take(self, index: int, line: Line) -> bool:
        """Add a line. Returns whether the trace continues after this line."""
        if self._suppressed >= 0 and self._is_suppressed(line):
            return True
        current = self.raised[self._at]
        match line.kind:
            case Kind.FRAME:
                return self._take_frame(index, line, current)
            case Kind.CAUSE:
                self._begin_cause(index, line)
            case Kind.WRAPPER:
                self._end_cause()
            case Kind.SUPPRESSED:
                self._suppressed = line.indent
            case Kind.MORE:
                self._share_frames(line.number, current)
            case Kind.TYPE:
                return self._take_type(index, line, current)
            case Kind.MEMBER:
                return self._begin_member(index, line)
            case Kind.END:
                return not any(raised.frames for raised in self.raised)
        return True

    def _share_frames(self, count: int, current: Raised) -> None:
        """Add the last `count` frames of the wrapper once, because repeated frames would multiply with each cause."""
        wrapper = self.raised[self._at + 1].frames if self._at + 1 < len(self.raised) else []
        if not self._is_shared and count <= len(wrapper):
            room = MAX_FRAMES - len(current.frames)
            current.frames += wrapper[len(wrapper) - count :][:room]
        self._is_shared = True

    def _take_frame(self, index: int, line: Line, current: Raised) -> bool:
        if line.text and current.frames:  # Ruby: the frame that raised the next exception
            self._begin_cause(index, line)
            current = self.raised[self._at]
        elif self._is_list and current.frames and index > self._last + 1:  # the next exception of a list
            if not self._begin_member(index, line):
                return False
            current = self.raised[self._at]
        elif 0 <= line.number < self._number and current.frames:
            return False  # the numbers begin again: another thread
        self._number, self._last = line.number, index
        if line.frame is not None:
            current.frames.append(line.frame)
        return True

    def _take_type(self, index: int, line: Line, current: Raised) -> bool:
        if self._is_list and (current.frames or current.line >= 0):
            return self._begin_member(index, line)
        if line.family and (current.line >= 0 or current.frames):
            self._begin_cause(index, line)
        elif current.line < 0 and not current.frames:
            current.type, current.line = line.text, index
        return True

    def _begin_cause(self, index: int, line: Line) -> None:
        self.raised.insert(0, Raised(line.text, index if line.text or line.number == _MESSAGE else -1))
        del self.raised[MAX_CHAIN:]
        self._at, self._number, self._is_shared = 0, -1, False
        if line.number == _LIST:
            self._group, self._is_list = self.raised[1] if len(self.raised) > 1 else None, True

    def _begin_member(self, index: int, line: Line) -> bool:
        """Begin another exception of the group that was listed last, or of the exception whose frames were just
        read.
        """
        if len(self.members) >= MAX_MEMBERS - 1:
            return False
        if self._at and not self._is_list:
            self._group = self.raised[self._at]
        start = next((number for number, one in enumerate(self.raised) if one is self._group), len(self.raised))
        self.members.append(self.raised)
        self.raised = [Raised(line.text, index if line.text else -1), *self.raised[start:]]
        self._at, self._number, self._is_shared = 0, -1, False
        return True

    def _end_cause(self) -> None:
        self._at += 1
        if self.members and self._at < len(self.raised) and self.raised[self._at] is self._group:
            self._at += 1  # members end without a mark
        self._number, self._is_shared = -1, False
        if self._at >= len(self.raised):
            self.raised.append(Raised())
            del self.raised[:-MAX_CHAIN]
            self._at = len(self.raised) - 1

    def _is_suppressed(self, line: Line) -> bool:
        ends = line.kind is Kind.CAUSE and (line.indent < self._suppressed or not self._suppressed)
        ends = ends or (line.kind is Kind.FRAME and 0 < line.indent <= self._suppressed)
        if ends:
            self._suppressed = -1
        return not ends


def _join_go(lines: Sequence[Line]) -> Iterator[tuple[int, Line]]:
    """Join the lines of Go: a function and a file that follow one another are a frame, and a line between frames begins
    a wrapper. The first goroutine is the one that failed. The frames before it belong to the runtime.
    """
    function: Line | None = None
    last = -1  # the line of the last frame
    start = next((index for index, line in enumerate(lines) if line.kind is Kind.END), 0)
    for index, line in enumerate(lines[start:], start):
        if line.kind is Kind.FILE and line.family == go.FAMILY and function is not None:
            if 0 <= last < index - 2:
                yield index, Line(Kind.WRAPPER)
            yield index, frame_line(go.FAMILY, _FRAMES[go.FAMILY][function.text, line.text])
            last = index
        elif line.kind not in (Kind.OTHER, Kind.FILE, Kind.FUNCTION):
            yield index, line
        function = line if line.kind is Kind.FUNCTION and not line.family else None


def _join_rust(lines: Sequence[Line]) -> Iterator[tuple[int, Line]]:
    """Join the lines of Rust: the next line may have the file of a function. The lines after a bare `Caused by:` are
    messages.
    """
    messages: tuple[Kind, ...] = ()  # the kinds that the next line may have to count as a message
    for index, line in enumerate(lines):
        if line.kind is Kind.CAUSE and not line.text:
            messages = (Kind.FUNCTION, Kind.TYPE, Kind.OTHER)
        elif line.kind in messages:
            messages = (Kind.FUNCTION,) if line.kind is Kind.FUNCTION else ()
            yield index, Line(Kind.CAUSE, number=_MESSAGE)
        elif line.kind is Kind.FUNCTION and line.family == rust.FAMILY:
            following = lines[index + 1] if index + 1 < len(lines) else line
            file = following.text if following.kind is Kind.FILE and following.family == rust.FAMILY else ""
            yield index, frame_line(rust.FAMILY, _FRAMES[rust.FAMILY][line.text, file], number=line.number)
        elif line.kind in (Kind.CAUSE, Kind.END):
            yield index, line
        if line.kind is Kind.OTHER:
            messages = ()


def _join_php(lines: Sequence[Line]) -> Iterator[tuple[int, Line]]:
    """Join the lines of PHP: a line names a function and the place of its call. If the place of the exception is known,
    each function is joined with the place inside the function, which the previous line names.
    """
    inner: str | None = None
    for index, line in enumerate(lines):
        if line.kind is Kind.FUNCTION and line.family == php.FAMILY:
            file, function = php.split(line.text)
            place, inner = (file, None) if inner is None else (inner, file)
            if function != "{main}" or place:
                yield index, frame_line(php.FAMILY, _FRAMES[php.FAMILY][function, place])
        elif line.kind is Kind.FILE and line.family == php.FAMILY:
            inner, kind = php.split(line.text)
            yield index, Line(Kind.TYPE, "", None, kind)
        elif line.kind is Kind.WRAPPER:
            yield index, line
            inner = php.split(line.text)[0] or None
        elif line.kind in (Kind.TYPE, Kind.CAUSE):
            yield index, line


def _memo(join: Callable[[str, str], Frame]) -> Memo[tuple[str, str], Frame]:
    return Memo(lambda halves: join(*halves), _JOINED_BYTES, _JOINED_ENTRY_BYTES)


_FRAMES: Final = {go.FAMILY: _memo(go.join), rust.FAMILY: _memo(rust.join), php.FAMILY: _memo(php.join)}
_JOINS: Final[dict[str, Join]] = {go.FAMILY: _join_go, rust.FAMILY: _join_rust, php.FAMILY: _join_php}


def forget() -> None:
    """Clear the cache of frames that were joined from two lines."""
    for frames in _FRAMES.values():
        frames.forget()
