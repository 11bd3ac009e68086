"""Read a line of a stack trace of any runtime. The beginning of the line decides which parsers try to read it.

At most MAX_LINE_CHARS characters of the line are read. The cost is linear in them.
"""

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from proto.stack_traces import dart, dotnet, elixir, go, javascript, jvm, native, php, python, ruby, rust
from proto.stack_traces.frames import MAX_LINE_CHARS, OTHER, Kind, Line

_TYPE: Final = re.compile(
    r"(?:Exception in thread \"[^\"]*\" |Unhandled exception\. |Uncaught |Fatal error: +Uncaught )?"
    r"([A-Za-z_$][\w.$\\:`+]*)(?:: |:?$)"
)
_INDENTED_TYPE: Final = re.compile(r"(?:[\w.$]{0,200}(?:Error|Exception))(?=: |$)")
_TYPE_NAME: Final = re.compile(r"[A-Za-z_$*][\w.$\\:`+/]*")
# The type that follows `Caused by: `. Any other text after it is free text, which also occurs in messages.
_CAUSE_TYPE: Final = re.compile(
    r"\*?(?:[\w$]++(?:\.|::|\\|/))++(?:(?=[\w$]*[A-Z]|[\w$]*(?:error|exception))|[a-z]{1,3}(?::?$|: ))"
    r"|(?=[\w$]*[A-Z])[\w$]++(?::?$|: | \()"
)
# Since Java 17, the earlier failure of a class that could not be initialized.
_INITIALIZER: Final = re.compile(r"java\.lang\.ExceptionInInitializerError: Exception ([\w.$]++)(?::| \[in thread )")
_MORE: Final = re.compile(r"\.\.\. (\d{1,6}) (?:more|common frames omitted)")
_ELIXIR_TYPE: Final = re.compile(r"\*\* \(([A-Z][\w.]*)\)")
_MEMBER: Final = re.compile(r"\+(?:-\+)?-+ \d+ -+")
_NEXT: Final = re.compile(r"Next ([A-Za-z_][\w\\]*)(?:: |$)")
_THREAD: Final = re.compile(r"goroutine \d+ |Thread \d+")


def read_line(line: str) -> Line:
    """Parse a line. Within a group of exceptions of Python, `number` is the depth of the group."""
    text = line[:MAX_LINE_CHARS].rstrip()
    body = text.lstrip()
    if not body:
        return OTHER
    indent = len(text) - len(body)
    if body[0] == "|":
        inner = body[1:].removeprefix(" ")
        found = _read_body(inner.lstrip(), len(inner) - len(inner.lstrip()))
        return found if found is OTHER else replace(found, number=indent // 2)
    if body[0] == "+":
        if body.startswith("+ Exception Group Traceback"):
            return Line(Kind.TRACEBACK, python.FAMILY, number=indent // 2)
        if _MEMBER.fullmatch(body):
            return Line(Kind.MEMBER, python.FAMILY, number=indent // 2 + body.startswith("+-+"))
    return _read_body(body, indent)


def _read_body(body: str, indent: int) -> Line:
    if not body:
        return OTHER
    for begin, read in _BY_FIRST.get(body[0], ()):
        if body.startswith(begin) and (found := read(body, indent)) is not OTHER:
            return found
    if body[0].isdigit() and (found := _read_numbered(body, indent)) is not OTHER:
        return found
    for part, read in _PARTS:
        if part in body and (found := read(body, indent)) is not OTHER:
            return found
    return _read_rest(body, indent)


def _read_at(body: str, indent: int) -> Line:
    head, parenthesis, inside = body[3:].partition("(")
    found = OTHER
    if parenthesis and " " not in head:
        closed = inside.find(")")
        found = jvm.read(head, inside[:closed], indent) if closed >= 0 and head else OTHER
        if found is OTHER:
            found = dotnet.read(head or body[3:], inside, indent)
    elif parenthesis and "[0x" in inside:
        found = dotnet.read(head, inside, indent)
    if found is OTHER:
        found = rust.read_file(body, indent)
    return javascript.read_v8(body.rstrip(" {,"), indent) if found is OTHER else found


def _read_hash(body: str, indent: int) -> Line:
    for read in (dart.read, php.read, native.read):
        if (found := read(body, indent)) is not OTHER:
            return found
    return OTHER


def _read_numbered(body: str, indent: int) -> Line:
    for read in (ruby.read, rust.read_function, native.read):
        if (found := read(body, indent)) is not OTHER:
            return found
    return OTHER


def _read_cause(body: str, indent: int) -> Line:
    _, _, text = body.partition(":")
    text = text.strip()
    if text.startswith("[CIRCULAR"):
        return OTHER
    initializer = _INITIALIZER.match(text)
    if initializer:
        return Line(Kind.CAUSE, "", None, initializer[1], indent)
    family = "" if not text or _CAUSE_TYPE.match(text) else rust.FAMILY
    return Line(Kind.CAUSE, family, None, _type_of(text), indent)


def _read_arrow(body: str, indent: int) -> Line:
    """Read a line of .NET with an arrow: `---> System.ArgumentException: no id`, `---> (Inner Exception #1) ...`."""
    text = body[5:].strip()
    if text.startswith("(Inner Exception #"):
        return Line(Kind.MEMBER, dotnet.FAMILY, None, _type_of(text.partition(") ")[2]), indent)
    return Line(Kind.CAUSE, dotnet.FAMILY, None, _type_of(text), indent)


def _read_node_cause(body: str, indent: int) -> Line:
    return Line(Kind.CAUSE, javascript.FAMILY, None, _type_of(body.partition(":")[2].strip()), indent)


def _read_next(body: str, _indent: int) -> Line:
    return Line(Kind.WRAPPER, php.FAMILY, None, php.read_header(body[5:]).text) if _NEXT.match(body) else OTHER


def _read_elixir_type(body: str, indent: int) -> Line:
    match = _ELIXIR_TYPE.match(body)
    return Line(Kind.TYPE, elixir.FAMILY, None, match[1], indent) if match else OTHER


def _read_more(body: str, indent: int) -> Line:
    match = _MORE.match(body)
    return Line(Kind.MORE, "", None, "", indent, int(match[1])) if match else OTHER


def _read_thread(body: str, _indent: int) -> Line:
    return Line(Kind.END) if _THREAD.match(body) else OTHER


def _always(line: Line) -> "Reader":
    return lambda _body, indent: replace(line, indent=indent)


def _type_of(text: str) -> str:
    match = _TYPE_NAME.match(text)
    return match[0].rstrip(":") if match else ""


def _read_go_file(body: str, indent: int) -> Line:
    return go.read_file(body, indent) if indent else OTHER


def _read_rest(body: str, indent: int) -> Line:
    if indent == 0:
        match = _TYPE.match(body)
        if match and ("." not in match[1] or match.end() < len(body) or body.endswith(":")):
            arrow = body.rpartition(" ---> ")
            if arrow[1]:  # .NET Framework writes a chain in one line
                return Line(Kind.CAUSE, dotnet.FAMILY, None, _type_of(arrow[2]))
            return Line(Kind.TYPE, "", None, match[1].rstrip(":"))
        return go.read_function(body)
    match = _INDENTED_TYPE.match(body) if "Error" in body or "Exception" in body else None
    return Line(Kind.TYPE, "", None, match[0], indent) if match else OTHER


Reader = Callable[[str, int], Line]
_BEGINNINGS: Final[tuple[tuple[str, Reader], ...]] = (
    ("at ", _read_at),
    ('File "', python.read),
    ("#", _read_hash),
    ("... ", _read_more),
    ("Caused by:", _read_cause),
    ("caused by:", _read_cause),
    ("Suppressed: ", _always(Line(Kind.SUPPRESSED))),
    ("Traceback (most recent call last)", _always(Line(Kind.TRACEBACK, python.FAMILY))),
    ("Exception Group Traceback (most recent", _always(Line(Kind.TRACEBACK, python.FAMILY))),
    ("The above exception was the direct cause", _always(Line(Kind.WRAPPER, python.FAMILY))),
    ("During handling of the above exception", _always(Line(Kind.CONTEXT, python.FAMILY))),
    ("---> ", _read_arrow),
    ("--- End of inner exception", _always(Line(Kind.WRAPPER, dotnet.FAMILY))),
    ("Wrapped by: ", _always(Line(Kind.WRAPPER))),
    ("[cause]: ", _read_node_cause),
    ("[errors]: [", _always(Line(Kind.CAUSE, javascript.FAMILY, number=1))),
    ("Next ", _read_next),
    ("** (", _read_elixir_type),
    ("goroutine ", _read_thread),
    ("Thread ", _read_thread),
    ("(", elixir.read),
    ("@ ", native.read_glog),
    ("http", javascript.read_place),
    ("package:", dart.read_terse),
    ("dart:", dart.read_terse),
)
_BY_FIRST: Final = {
    first: tuple((begin, read) for begin, read in _BEGINNINGS if begin[0] == first)
    for first in {begin[0] for begin, _ in _BEGINNINGS}
}
_PARTS: Final[tuple[tuple[str, Reader], ...]] = (
    ("Traceback (most recent call last)", _always(Line(Kind.TRACEBACK, python.FAMILY))),
    (":in ", ruby.read),
    (".go:", _read_go_file),
    (".s:", _read_go_file),
    (".ex", elixir.read),
    ("@", javascript.read_at_sign),
    ("[0x", native.read_symbol),
    (" in ", php.read_header),
    (".dart ", dart.read_terse),
)
