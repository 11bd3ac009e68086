"""Frames of Ruby: `app/models/cart.rb:12:in `add'`. If Rails has cleaned the backtrace, the gem is before the file."""

import re
from typing import Final

from proto.stack_traces.frames import OTHER, Line, frame_line, make_frame

FAMILY: Final = "ruby"
_FRAME: Final = re.compile(
    r"(?:from |\d+: from )?(?:([\w.-]+) \(([\w.-]+)\) )?([^:\s](?:[^:]|:(?=\\))*):\d+:in [`']([^']*)'(?:: (.*))?"
)
_LIBRARY: Final = re.compile(
    r"[/\\]gems[/\\]|[/\\]lib[/\\]ruby[/\\]|^<internal:|[/\\]vendor[/\\]bundle[/\\]|^\(eval|^bin[/\\]|[/\\]bin[/\\]\w+$"
    r"|[/\\](?:ruby|truffleruby|jruby)-[\d.]+[/\\]lib[/\\]"
)
_GEMS: Final = re.compile(r"[/\\]gems[/\\]|[/\\]vendor[/\\]bundle[/\\]")
_BLOCK: Final = re.compile(r"^(?:(?:block|rescue|ensure|else)(?: \(\d+ levels\))? in )+")
_TEMPLATE: Final = re.compile(r"__+\d+_\d+$")
_TYPE: Final = re.compile(r"\(([A-Z][\w:]*)\)$")


def read(body: str, indent: int) -> Line:
    """Reads a line without its indentation."""
    match = _FRAME.fullmatch(body)
    if not match:
        return OTHER
    file = match[3]
    library = match[1] is not None or _LIBRARY.search(file)
    is_standard = library and match[1] is None and not _GEMS.search(file)
    function = _TEMPLATE.sub("", _BLOCK.sub("", match[4]))
    function = re.split(r"[#.]", function)[-1] or function  # Ruby 3.4 also names the class
    kind = _TYPE.search(match[5]) if match[5] else None
    text = "" if match[5] is None else kind[1] if kind else "?"
    is_named = not (function.startswith("<") and _BLOCK.match(match[4]))  # the blocks of a script, such as its routes
    frame = make_frame(file, function, not library, is_standard=is_standard, is_named=is_named)
    return frame_line(FAMILY, frame, indent, -1, text)
