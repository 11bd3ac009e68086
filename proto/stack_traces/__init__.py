"""Parses textual stack traces: the frames of the application's own code, innermost first, in a stable form.

`read_trace` is the way in. `lines` reads each line with the parser of its runtime (`python`, `jvm`, `javascript`, `go`,
`rust`, `dotnet`, `ruby`, `php`, `elixir`, `dart`, `native`); `chain` and `python_chain` put the lines together to the
chain of causes. A frame's text is `file or class:function` without line, directory or anything else that a build
changes.

Bounds: END_CHARS characters and MAX_LINES lines at either end of the text, 512 characters of a line. Cost is linear in
them. Lines that were seen before are remembered, in a bounded memory, so that they cost a look-up; results never
depend on it.
"""

import re
from collections import Counter
from collections.abc import Sequence
from typing import Final, NamedTuple

from proto.stack_traces import chain, python, python_chain
from proto.stack_traces.frames import MAX_LINE_CHARS, Frame, Kind, Line, Raised, stable_text
from proto.stack_traces.lines import read_line
from proto.stack_traces.memo import Memo

END_CHARS: Final = 16_384
MAX_LINES: Final = 400  # of either end
MEMO_BYTES: Final = 8 * 2**20

_LINES: Final[Memo[str, Line]] = Memo(read_line, MEMO_BYTES, MAX_LINE_CHARS)


class SourceFrame(NamedTuple):
    """A frame of the application's own code: the path of its source file as the trace has it, and its function."""

    file: str
    function: str


class Trace(NamedTuple):
    """What a stack trace says. `own`: the application's own frames of the innermost cause that has any, innermost
    first. `frames`: the same, or all frames where none is the application's. `cause`: the type of the innermost cause,
    empty without causes. `causes`: the lines with type and message of the causes, the innermost first.
    """

    own: Sequence[Frame]
    frames: Sequence[Frame]
    cause: str
    causes: Sequence[str]


def read_trace(stacktrace: str) -> Trace:
    """The application's own frames, and the causes, of a stack trace of any runtime."""
    texts = _split(stacktrace)
    lines = list(map(_LINES.__getitem__, texts))
    raised = [Raised(one.type, one.line, _after_panic(one.frames)) for one in _arrange(lines)]
    own = next((found for one in raised if (found := [frame for frame in one.frames if frame.in_app])), [])
    frames = own or next((one.frames for one in raised if one.frames), [])
    causes = [texts[one.line].strip(" |\t") for one in raised[:-1] if one.line >= 0]
    return Trace(own, frames, raised[0].type if len(raised) > 1 else "", causes)


def in_app_frames(stacktrace: str) -> list[str]:
    """Stable texts of the application's own frames, innermost first; of all frames if it has none."""
    return [frame.text or stable_text(frame.location, frame.function) for frame in read_trace(stacktrace).frames]


def source_frames(stacktrace: str) -> list[SourceFrame]:
    """The application's own frames with the paths of their files, innermost first; all frames if it has none.

    Paths are those of where the code was built or installed, with `/`, without drive, scheme and host. Of a class
    without file, the path is that of its outermost class by the conventions of its language.
    """
    frames = read_trace(stacktrace).frames
    return [SourceFrame(_source_path(frame.file or frame.location), frame.function) for frame in frames]


def forget_lines() -> None:
    """Forgets the lines that were seen, as in a new process."""
    _LINES.forget()
    chain.forget_frames()


def _split(stacktrace: str) -> list[str]:
    if len(stacktrace) > 2 * END_CHARS:
        stacktrace = f"{stacktrace[:END_CHARS]}\n\n{stacktrace[-END_CHARS:]}"
    texts = stacktrace.split("\n")
    return texts if len(texts) <= 2 * MAX_LINES else [*texts[:MAX_LINES], "", *texts[-MAX_LINES:]]


def _arrange(lines: Sequence[Line]) -> list[Raised]:
    """The chain of causes; empty without frames. The runtime of most frames is that of the trace."""
    counts = Counter(line.family for line in lines if line.family and line.kind <= Kind.FILE)
    if not counts:
        return []
    if counts[python.FAMILY] and any(line.kind is Kind.TRACEBACK for line in lines):
        return python_chain.arrange(lines)
    family = max(counts, key=counts.__getitem__)
    return python_chain.arrange(lines) if family == python.FAMILY else chain.arrange(lines, family)


def _after_panic(frames: list[Frame]) -> list[Frame]:
    """Without the frames that raise or report a panic, which are printed before those that caused it."""
    for number in range(len(frames) - 1, -1, -1):
        if frames[number].is_panic:
            return frames[number + 1 :]
    return frames


_ORIGIN: Final = re.compile(r"^(?:[A-Za-z][A-Za-z0-9+.-]*://[^/]*|[A-Za-z]:(?=[/\\])|file:|webpack:)")


def _source_path(text: str) -> str:
    """Without what precedes the path: `webpack://shop/./src/cart.js` is `/./src/cart.js`."""
    return _ORIGIN.sub("", text.split("?", 1)[0]).replace("\\", "/")
