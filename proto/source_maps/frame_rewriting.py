"""Rewrite the frames of a JavaScript stack trace: frames of V8 (`    at t (https://shop.example/a.js:1:2)`), and frames
of Firefox and Safari (`t@https://shop.example/a.js:1:2`). Other lines are not changed.

At most MAX_LINES lines of MAX_LINE characters are read.
"""

import re
from collections.abc import Callable
from functools import lru_cache
from typing import Final, NamedTuple, Protocol

from proto.source_maps.compact_map import OriginalFrame, OriginalPosition

MAX_LINES: Final = 200
MAX_LINE: Final = 2_000
MAX_PATH: Final = 1_024


class Frames(Protocol):
    """Looks up the frames of a minified file, as `CompactMap` does."""

    def frame(self, function: str, line: int, column: int) -> OriginalFrame | None:
        """The frame in the sources for a frame of the minified file."""


FindMap = Callable[[str], Frames | None]  # by the path of the minified file

_PLACE: Final = r"(?P<file>[^()\s]{1,1500}?):(?P<line>[1-9]\d{0,8}):(?P<column>[1-9]\d{0,8})"
_V8: Final = re.compile(rf"(?P<begin>\s*at )(?:(?P<async>async )?(?P<function>[^()]{{1,300}}?) \({_PLACE}\))\s*\Z")
_V8_BARE: Final = re.compile(rf"(?P<begin>\s*at )(?P<async>async )?(?P<function>){_PLACE}\s*\Z")
_GECKO: Final = re.compile(rf"(?P<begin>\s*)(?P<async>async\*)?(?:(?P<function>[^@\s]{{0,300}})@)?{_PLACE}\s*\Z")
_ORIGIN: Final = re.compile(
    r"(?:file:(?://[^/?#]*)?)?/?[A-Za-z]:(?=[/\\])|[A-Za-z][A-Za-z0-9+.-]*://[^/?#]*", re.IGNORECASE
)


class _Frame(NamedTuple):
    """A line that is a frame. Line and column count from 1."""

    begin: str
    is_async: str
    function: str
    path: str
    line: int
    column: int
    is_v8: bool


def url_path(url: str) -> str:
    """The path of a URL or a file, without origin, drive, query and fragment. Maps are found by this path."""
    found = _ORIGIN.match(url)
    path = re.split("[?#]", url[found.end() if found else 0 :], maxsplit=1)[0].replace("\\", "/")
    return path if path.startswith("/") else f"/{path}"


def resolve_stack_trace(text: str, find_map: FindMap) -> str | None:
    """The text with the frames of the sources. None if no frame has changed."""
    changed = False
    lines = text.split("\n", MAX_LINES)
    for number, line in enumerate(lines[:MAX_LINES]):
        frame = _parse(line) if len(line) <= MAX_LINE else None
        resolved = None if frame is None else _resolve(frame, find_map)
        if resolved is not None:
            lines[number] = resolved
            changed = True
    return "\n".join(lines) if changed else None


@lru_cache(maxsize=1_024)  # errors repeat; lines have MAX_LINE characters at most
def _parse(line: str) -> _Frame | None:
    if not line.rstrip().rstrip(")")[-1:].isdigit():
        return None
    match = _V8.match(line) or _V8_BARE.match(line)
    is_v8 = match is not None
    match = match or _GECKO.match(line)
    if match is None:
        return None
    path = url_path(match["file"])
    if len(path) > MAX_PATH:
        return None
    return _Frame(
        match["begin"],
        match["async"] or "",
        match["function"] or "",
        path,
        int(match["line"]),
        int(match["column"]),
        is_v8,
    )


def _resolve(frame: _Frame, find_map: FindMap) -> str | None:
    """The line of the frame in the sources."""
    found = find_map(frame.path)
    original = None if found is None else found.frame(frame.function, frame.line - 1, frame.column - 1)
    return None if original is None else _format(frame, *original)


def _format(frame: _Frame, position: OriginalPosition, function: str) -> str:
    place = f"{position.source}:{position.line + 1}:{position.column + 1}"
    if not frame.is_v8:
        return f"{frame.begin}{frame.is_async}{function}@{place}"
    return f"{frame.begin}{frame.is_async}{function} ({place})" if function else f"{frame.begin}{frame.is_async}{place}"
