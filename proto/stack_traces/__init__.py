"""Parses textual stack traces: the frames of the application's own code, innermost first, in a stable form.

`trace.read_trace` is the way in. `lines` reads each line with the parser of its runtime (`python`, `jvm`, `javascript`,
`go`, `rust`, `dotnet`, `ruby`, `php`, `elixir`, `dart`, `native`); `chain` puts the lines together to the chain of
causes. A frame's text is `file or class:function` without line, directory or anything else that a build
changes.

Bounds: `trace.END_CHARS` characters and `trace.MAX_LINES` lines at either end of the text, 512 characters of a line.
Cost is linear in them. Lines and traces that were seen before are kept, in bounded memory, so that they cost a look-up;
results never depend on it.
"""

import re
from typing import Final, NamedTuple

from proto.stack_traces.frames import stable_text
from proto.stack_traces.trace import read_trace


class SourceFrame(NamedTuple):
    """A frame of the application's own code: the path of its source file as the trace has it, and its function."""

    file: str
    function: str


def in_app_frames(stacktrace: str) -> list[str]:
    """Stable texts of the application's own frames, innermost first; of all frames if it has none."""
    return [frame.text or stable_text(frame.location, frame.function) for frame in read_trace(stacktrace).frames]


def source_frames(stacktrace: str) -> list[SourceFrame]:
    """The application's own frames with the paths of their files, innermost first; all frames if it has none.

    Paths are those of where the code was built or installed, with `/`, without drive, scheme and host. Of a class
    without file, the path is that of its outermost class by the conventions of its language.
    """
    return [
        SourceFrame(_source_path(frame.file or frame.location), frame.function)
        for frame in read_trace(stacktrace).frames
    ]


_ORIGIN: Final = re.compile(r"^(?:[A-Za-z][A-Za-z0-9+.-]*://[^/]*|[A-Za-z]:(?=[/\\])|file:|webpack:)")


def _source_path(text: str) -> str:
    """Without what precedes the path: `webpack://shop/./src/cart.js` is `/./src/cart.js`."""
    return _ORIGIN.sub("", text.split("?", 1)[0]).replace("\\", "/")
