"""Frames of Python: `  File "/app/shop/cart.py", line 10, in add`."""

import re
from typing import Final

from proto.stack_traces.frames import OTHER, PASSED_OVER, Line, frame_line, make_frame

FAMILY: Final = "python"
_FRAME: Final = re.compile(r'File "([^"]+)", line \d+(?:, in (.+))?')
_LIBRARY: Final = re.compile(
    r"[/\\](?:site-packages|dist-packages)[/\\]"
    r"|[/\\]lib(?:32|64)?[/\\](?:python|pypy)\d[\d.t]*(?:\.zip)?[/\\]"
    r"|[/\\](?:python|pypy|miniconda|anaconda|miniforge)[\d.-]*(?:-32|-64)?[/\\](?:lib[/\\]|python\d+\.zip[/\\])"
    r"|[/\\]hostedtoolcache[/\\](?:windows[/\\])?python[/\\][\d.]+[/\\]x\d\d[/\\]lib[/\\]"
)
_PACKAGES: Final = re.compile(r"[/\\](?:site|dist)-packages[/\\]")
_NOTEBOOK: Final = "ipykernel_"  # the cells of a notebook are files with random names
_INTERACTIVE: Final = ("<stdin", "<ipython", "<console", "<input")
# Only some versions of Python have frames for these. The next frame is the function that contains them.
_INLINED: Final = ("<listcomp>", "<dictcomp>", "<setcomp>")


def read(body: str, indent: int) -> Line:
    """Reads a line without its indentation."""
    match = _FRAME.match(body)
    if not match:
        return OTHER
    file, function = match[1], match[2] or ""
    if file.startswith("<") and not file.startswith("<frozen "):
        if not file.startswith(_INTERACTIVE):
            return PASSED_OVER
        file = file.partition("-")[0]
    elif _NOTEBOOK in file:
        file = "<ipython"
    if function in _INLINED:
        return PASSED_OVER
    path = file.lower()
    may_be = "lib" in path or "-packages" in path or ".zip" in path  # most frames need no pattern
    library = may_be and _LIBRARY.search(path)
    is_standard = file.startswith("<frozen ") or (library and not _PACKAGES.search(path))
    return frame_line(FAMILY, make_frame(file, function, not (library or is_standard), is_standard=is_standard), indent)
