"""Frames of PHP: `#0 /var/www/app/src/Cart.php(12): App\\Cart->add(1)`."""

import re
from typing import Final

from proto.stack_traces.frames import OTHER, Frame, Kind, Line, make_frame

FAMILY: Final = "php"
_FRAME: Final = re.compile(
    r"#(\d{1,4}) (?:(\S.*?\.\w{3,6})\(\d+\)(?: : eval\(\)'d code(?:\(\d+\))?)?|\[internal function\]): ([^()]+)\(.*"
)
_MAIN: Final = re.compile(r"#(\d{1,4}) \{main\}")
_HEADER: Final = re.compile(r"(?:PHP )?(?:Fatal error: +Uncaught )?(?:([A-Za-z_][\w\\]*): )?")
_PLACE: Final = re.compile(r"(\S.*\.(?:php|phtml|inc|module)):\d+")
_CLOSURE: Final = re.compile(r"\{closure[^}]*\}")
_ANONYMOUS: Final = re.compile(r"@anonymous[^(]*?\$[0-9a-f]+")
_LIBRARY: Final = re.compile(r"[/\\]vendor[/\\]|^phar:|[/\\]wp-includes[/\\]|[/\\]wp-admin[/\\]includes[/\\]")
_SEPARATOR: Final = "\n"


def read(body: str, indent: int) -> Line:
    """Reads a numbered line. Its file is the place where the function was called."""
    match = _FRAME.fullmatch(body)
    if match:
        function = _ANONYMOUS.sub("@anonymous", _CLOSURE.sub("{closure}", match[3].strip()))
        return Line(Kind.FUNCTION, FAMILY, None, f"{match[2] or ''}{_SEPARATOR}{function}", indent, int(match[1]))
    match = _MAIN.fullmatch(body)
    return Line(Kind.FUNCTION, FAMILY, None, f"{_SEPARATOR}{{main}}", indent, int(match[1])) if match else OTHER


def read_header(body: str, _indent: int = 0) -> Line:
    """Reads `RuntimeException: no cart in /var/www/app/src/Cart.php:12`, with the place that created the exception."""
    text, _, place = body.rpartition(" in ")
    match = _PLACE.fullmatch(place)
    head = _HEADER.match(f"{text} ")
    return Line(Kind.FILE, FAMILY, None, f"{match[1]}{_SEPARATOR}{(head and head[1]) or ''}") if match else OTHER


def split(text: str) -> tuple[str, str]:
    """The file and the function of a frame, or the type of an exception."""
    file, _, function = text.partition(_SEPARATOR)
    return file, function


def join(function: str, file: str) -> Frame:
    """The frame of a function and a file. The file contains the function or its call."""
    in_app = bool(file) and not _LIBRARY.search(file)
    return make_frame(file or "[internal function]", function, in_app, is_standard=not file)
