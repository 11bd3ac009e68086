"""Frames of Dart and Flutter: `#0      Cart.add (package:shop/cart.dart:12:5)`."""

import re
from typing import Final

from proto.stack_traces.frames import OTHER, Line, frame_line, make_frame
from proto.stack_traces.libraries import DART

FAMILY: Final = "dart"
_FRAME: Final = re.compile(
    r"#(\d{1,4}) +(.+) \(((?:package|dart|file|org-dartlang-sdk|https?):[^()\s]+?|[^():\s]+\.dart)(?::\d+){0,2}\)"
)
_TERSE: Final = re.compile(r"((?:package|dart|file):\S+|\S+\.dart) (?:\d+:\d+)? +(\S.*)")
_CLOSURE: Final = re.compile(r"\.?<(?:anonymous closure|fn)>")


def read(body: str, indent: int) -> Line:
    """Reads a numbered line."""
    match = _FRAME.fullmatch(body)
    return _line(match[3], match[2], indent, int(match[1])) if match else OTHER


def read_terse(body: str, indent: int) -> Line:
    """Reads a line of the package stack_trace: `package:shop/cart.dart 12:5  Cart.add`."""
    match = _TERSE.fullmatch(body)
    return _line(match[1], match[2], indent, -1) if match else OTHER


def _line(file: str, function: str, indent: int, number: int) -> Line:
    scheme, _, path = file.partition(":")
    library = scheme in ("dart", "org-dartlang-sdk") or (scheme == "package" and path.partition("/")[0] in DART)
    library = library or "/.pub-cache/" in file
    function = _CLOSURE.sub(".<fn>", function).replace("new ", "", 1)
    location = path if scheme in ("package", "file") else file
    return frame_line(
        FAMILY, make_frame(location, function, not library, file=location, is_standard=scheme == "dart"), indent, number
    )
