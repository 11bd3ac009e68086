"""Parse textual stack traces: the frames of the application's own code, innermost first, in a stable form.

The entry point is `trace.read_trace`. `lines` reads each line with the parser of its runtime (`python`, `jvm`,
`javascript`, `go`, `rust`, `dotnet`, `ruby`, `php`, `elixir`, `dart`, `native`). `chain` joins the lines to the chain
of causes. A frame's text is `file or class:function` without line, directory and other parts that a build changes.

Limits: `trace.END_CHARS` characters and `trace.MAX_LINES` lines at either end of the text, and 512 characters of a
line. The cost is linear in them. Lines and traces are cached in limited memory, so that repeated ones cost only a
look-up. Results never depend on the caches.
"""

import re
from typing import Final, NamedTuple

from proto.stack_traces.frames import stable_text
from proto.stack_traces.trace import read_trace


class SourceFrame(NamedTuple):
    """A frame of the application's own code: the path of its source file as in the trace, and its function."""

    file: str
    function: str


def in_app_frames(stacktrace: str) -> list[str]:
    """Stable texts of the application's own frames, innermost first. Texts of all frames if none is the
    application's.
    """
    return [frame.text or stable_text(frame.location, frame.function) for frame in read_trace(stacktrace).frames]


def source_frames(stacktrace: str) -> list[SourceFrame]:
    """The application's own frames with the paths of their files, innermost first. All frames if none is the
    application's.

    Paths name the place where the code was built or installed, with `/`, without drive, scheme and host. For a class
    without a file, the path is derived from the outermost class by the conventions of its language.
    """
    return [
        SourceFrame(_source_path(frame.file or frame.location), frame.function)
        for frame in read_trace(stacktrace).frames
    ]


_ORIGIN: Final = re.compile(r"^(?:[A-Za-z][A-Za-z0-9+.-]*://[^/]*|[A-Za-z]:(?=[/\\])|file:|webpack:)")


def _source_path(text: str) -> str:
    """Remove the part before the path: `webpack://shop/./src/cart.js` becomes `/./src/cart.js`."""
    return _ORIGIN.sub("", text.split("?", 1)[0]).replace("\\", "/")
