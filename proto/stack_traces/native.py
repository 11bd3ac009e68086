"""Frames of Swift, C++ and C, as debuggers, sanitizers, `backtrace_symbols`, `std::stacktrace` and crash reports write
them. Addresses, offsets and arguments are removed. A mangled name is not changed.
"""

import re
from typing import Final

from proto.stack_traces.frames import OTHER, Line, frame_line, make_frame
from proto.stack_traces.libraries import NATIVE_FUNCTIONS, NATIVE_IMAGES

FAMILY: Final = "native"
_NUMBER: Final = re.compile(r"#?(\d{1,4})[#>]? +")
_ADDRESS: Final = re.compile(
    r"(?:\[ra\] |\[inlined\] )*(?:0x[0-9a-f]+ |\.\.\. )?(?:\[ra\] |\[inlined\] |\[async\] )*(?:in )?"
)
_SYSTEM_FILES: Final = (
    "/usr/include/", "/usr/lib/", "/build/glibc", "../sysdeps/", "./nptl/", "./stdlib/", "/Applications/Xcode",
)  # fmt: skip
_FILE: Final = re.compile(
    r" (?:at )?((?:/|[A-Za-z]:[/\\]|\.{1,2}/|\w)[^ ():]*\.(?:swift|cpp|cc|cxx|c|hpp|hh?|hxx|mm?|ipp|inl)):\d+(?::\d+)?$"
)
_WINDOWS: Final = re.compile(r"(\S.*\.\w{1,4})\(\d+\): ([\w.-]+)!(.+?)(?:\+0x[0-9A-Fa-f]+)?")
_APPLE: Final = re.compile(r"(\S+) +0x[0-9a-f]+ (.+?)(?: \+ \d+)?(?: \((.+?\.\w+):\d+\))?")
_SYMBOLS: Final = re.compile(r"([^\s()]+)\(([^()+]*)(?:\+0x[0-9a-f]+)?\) ?\[0x[0-9a-f]+\]")
_IMAGE: Final = re.compile(r" (?:from|in) ([^\s():]+)$| \(([^\s()]+?)(?:\+0x[0-9a-f]+)?\)(?: \(BuildId: \w+\))?$")
_CLONE: Final = re.compile(  # by compilers
    r"(?:\.(?:cold|part|constprop|isra|llvm|lto_priv)(?:\.\d+)?)+$| \[clone [^\]]*\]"
)  # by compilers
_CLOSURE: Final = re.compile(r"closure #\d+")  # numbered in the order of the source
_GLOG: Final = re.compile(r"@ +0x[0-9a-f]+ +(?:\(unknown\)|(\S.*))")
_OFFSET: Final = re.compile(r"\+0x[0-9a-f]+$| \+ \d+$")


def read(body: str, indent: int) -> Line:
    """Reads a numbered line."""
    match = _NUMBER.match(body)
    if not match:
        return OTHER
    number, rest = int(match[1]), body[match.end() :]
    if (windows := _WINDOWS.fullmatch(rest)) is not None:
        return _line(windows[3], windows[2], windows[1], indent, number)
    if (apple := _APPLE.fullmatch(rest)) is not None and not rest.startswith("0x"):
        return _line(apple[2], apple[1], apple[3] or "", indent, number)
    is_numbered = body.startswith("#") or "# " in body[:6] or "0x" in rest
    if not is_numbered and "::" not in rest and " at /" not in rest:
        return OTHER
    text = rest[_ADDRESS.match(rest).end() :]  # type: ignore[union-attr]  # it matches everywhere
    file = ""
    if (found := _FILE.search(text)) is not None:
        file, text = found[1], text[: found.start()]
    image = ""
    if (found := _IMAGE.search(text)) is not None:
        image, text = found[1] or found[2], text[: found.start()]
    if not image and "!" in text:
        image, _, text = text.partition("!")
    if not text and not image:
        return OTHER
    return _line(text or "??", image, file, indent, number)


def read_glog(body: str, indent: int) -> Line:
    """Reads `@     0x55d2f3a41  shop::Cart::price()`."""
    match = _GLOG.fullmatch(body)
    return _line(match[1] or "??", "", "", indent, -1) if match else OTHER


def read_symbol(body: str, indent: int) -> Line:
    """Reads `./shop(_ZN4shop4Cart3addEi+0x1d) [0x55d0c8a0b1c9]`."""
    match = _SYMBOLS.fullmatch(body)
    return _line(match[2] or "??", match[1], "", indent, -1) if match else OTHER


def _line(function: str, image: str, file: str, indent: int, number: int) -> Line:
    function = _without_arguments(_OFFSET.sub("", function.strip()))
    name = image.rpartition("/")[2].rpartition("\\")[2]
    function = _CLOSURE.sub("closure", _CLONE.sub("", function))
    is_standard = function.startswith(NATIVE_FUNCTIONS) or function in ("??", "")
    in_app = not (
        is_standard or name.startswith(NATIVE_IMAGES) or file.startswith(_SYSTEM_FILES) or "/swift/stdlib/" in file
    )
    return frame_line(FAMILY, make_frame("", function, in_app, file=file, is_standard=is_standard), indent, number)


def _without_arguments(function: str) -> str:
    """The name without arguments: `shop::Cart::add` for `shop::Cart::add(int) const` and for
    `shop::Cart::add (this=0x7f, id=3)`.
    """
    start = function.find("(", 1)
    while start > 0 and function.startswith(("(anonymous", "()"), start) and function[start : start + 2] != "()":
        start = function.find("(", start + 1)
    if function.endswith("operator()"):
        return function
    return function[:start].rstrip() if start > 0 else function
