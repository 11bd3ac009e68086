"""Frames of Python: `  File "/app/shop/cart.py", line 10, in add`."""

import re
from typing import Final

from proto.stack_traces.frames import OTHER, Line, frame_line, make_frame

FAMILY: Final = "python"
_FRAME: Final = re.compile(r'File "([^"]+)", line \d+(?:, in (.+))?')
_LIBRARY: Final = re.compile(
    r"[/\\](?:site-packages|dist-packages)[/\\]"
    r"|[/\\]lib(?:32|64)?[/\\](?:python|pypy)\d[\d.t]*(?:\.zip)?[/\\]"
    r"|[/\\](?:python|pypy|miniconda|anaconda|miniforge)[\d.-]*(?:-32|-64)?[/\\](?:lib[/\\]|python\d+\.zip[/\\])"
    r"|[/\\]hostedtoolcache[/\\](?:windows[/\\])?python[/\\][\d.]+[/\\]x\d\d[/\\]lib[/\\]",
    re.IGNORECASE,
)
_INTERACTIVE: Final = ("<stdin", "<ipython", "<console", "<input")
# Their frames exist in some versions of Python alone; the function that has them is the next frame.
_INLINED: Final = ("<listcomp>", "<dictcomp>", "<setcomp>")


def read(body: str, indent: int) -> Line:
    """Reads a line without its indentation."""
    match = _FRAME.match(body)
    if not match:
        return OTHER
    file, function = match[1], match[2] or ""
    generated = file.startswith("<") and not file.startswith(_INTERACTIVE)
    if file.startswith("<ipython"):
        file = "<ipython>"
    in_app = not (generated or function in _INLINED or _LIBRARY.search(file))
    return frame_line(FAMILY, make_frame(file, function, in_app), indent)
