"""Frames of JavaScript: V8 (Node, Deno, Chrome), SpiderMonkey and JavaScriptCore (Firefox, Safari, Bun), Hermes.

`at add (/app/src/cart.js:10:5)`, `at https://shop.example/app.js:10:5`, `add@https://shop.example/app.js:10:5`.
"""

import re
from typing import Final

from proto.stack_traces.frames import OTHER, Line, frame_line, make_frame

FAMILY: Final = "javascript"
_NATIVE: Final = ("<anonymous>", "native code", "native:", "[native code]", "index ", "eval at ", "unknown location")
# Node up to version 15 prints its own files without `node:`. An application may also have a directory `internal`.
_OLD_NODE: Final = (
    r"^internal/(?:(?:modules|main|process|streams|bootstrap|per_context|webstreams|deps)/[\w/-]+"
    r"|timers|errors|child_process|stream_base_commons|event_target|async_hooks|fs/(?:promises|streams|utils))\.js$"
)
_LIBRARY: Final = re.compile(
    r"(?:^|[/\\])node_modules[/\\]|^(?:node|ext|deno|bun|native|internal):|^evalmachine\.<anonymous>"
    rf"|{_OLD_NODE}"
    r"|-extension:|(?:^|[/\\])webpack[/\\](?:runtime|bootstrap)|/deno\.land/|/esm\.sh/|^<anonymous>|InternalBytecode\.js"
    r"|\.yarn[/\\](?:cache|__virtual__)[/\\]|\(native\)"
)
_ORIGIN: Final = re.compile(r"^(?:[A-Za-z][A-Za-z0-9+.-]*:)?//[^/]*/?")
_ALIAS: Final = re.compile(r" \[as [^\]]*\]$")
_NEXT_BUILD: Final = re.compile(r"(_next/static/)(?!chunks/|css/|media/)[^/]+(?=/)")
_FILE: Final = re.compile(r"(.*?)((?:\.(?:chunk|bundle|min|module|prod|legacy))*\.(?:[mc]?[jt]sx?|bundle|jsbundle))$")
_HEX: Final = re.compile(r"(?=\d*[a-f])(?![a-f]+\d{0,2}$)[0-9a-f]{6,64}")
_DIGITS: Final = re.compile(r"\d{6,64}")  # in the name of a source file they are a date or a number
# With a number as its name.
_CHUNK: Final = re.compile(r"(?<![A-Za-z])(chunk|bundle|vendors?)([._~-])\d+(?![A-Za-z0-9])")
_HASH: Final = re.compile(r"[A-Za-z0-9_-]{8,10}|[A-Z0-9]{8}|[A-Za-z0-9_-]{16,64}")
_WORDS: Final = re.compile(
    r"[A-Z]?[a-z]{2,}(?:[A-Z][a-z]{2,})*\d?(?:[_-][A-Za-z][a-z]*\d?)*|[a-z]+(?:[_-][a-z]+)*\d{0,2}"
)
_LONGEST_MINIFIED: Final = 2
_SHORT_HASH: Final = 8  # characters, as Rollup and esbuild make them
_BUNDLERS: Final = ("assets", "chunks", "nodes", "_nuxt", "immutable", "entry")  # directories that bundlers write
_SEPARATOR: Final = re.compile(r"[.~_-]")
_HASH_CHARS: Final = 80  # characters at the end of a name in which a hash is searched for
_MAX_STARTS: Final = 8


def read_v8(body: str, indent: int) -> Line:
    """Reads a line that begins with `at `."""
    text = body[3:].removeprefix("async ").removeprefix("new ")
    function, place = "", text
    if text.endswith(")"):
        function, _, place = text[:-1].partition(" (")
        if not place:
            function, place = "", text
    return _read(function, place.removeprefix("address at "), indent)


def read_at_sign(body: str, indent: int) -> Line:
    """Reads `function@place`, as Firefox and Safari print it."""
    function, _, place = body.partition("@")
    function = function.rpartition("*")[2]  # `promise callback*load`, `async*load`
    if " " in function and function not in ("global code", "module code", "eval code"):
        return OTHER
    if "://" not in place and place.count("@"):  # a scope of a package in the function's name
        function, _, place = body.rpartition("@")
    function = function.rstrip("/<").replace("/<", "")
    return _read("" if function.endswith(" code") else function, place, indent)


def read_place(body: str, indent: int) -> Line:
    """Reads the URL of a function without a name, as Safari prints it."""
    return _read("", body, indent) if "://" in body[:9] and " " not in body else OTHER


def _read(function: str, place: str, indent: int) -> Line:
    if place == "native" or place.startswith(_NATIVE):
        return frame_line(FAMILY, make_frame("<native>", function, False, is_standard=True), indent)
    start = len(place.rstrip("0123456789:"))
    start = place.find(":", start)
    is_path = " " not in place or "://" in place or place.startswith(("/", "\\")) or place[1:2] == ":"
    if start < 0 or place.endswith(":") or not is_path:
        return OTHER
    file = re.split(r"[?#]", place[:start], maxsplit=1)[0]
    if " > " in file:  # Firefox: code of eval, in the file before
        return frame_line(FAMILY, make_frame(file, function, False), indent)
    in_app = not _LIBRARY.search(file)
    function = _stable_function(function)
    if not in_app:
        return frame_line(FAMILY, make_frame(file, function, False, is_standard="node_modules" not in file), indent)
    location, is_hashed = _stable_location(file)
    is_remote = "://" in file and not file.startswith("file:")
    if is_hashed or is_remote or ".min." in file or file.endswith("bundle"):
        function = _named_parts(function)
        return frame_line(FAMILY, make_frame(location, function, True, file=file, is_named=bool(function)), indent)
    function = _named_receiver(function)
    return frame_line(FAMILY, make_frame(location, function, True, file=file), indent)


def _stable_function(function: str) -> str:
    function = _ALIAS.sub("", function).removeprefix("async ").removeprefix("new ").removesuffix("/<")
    if function in ("Object.<anonymous>", "<anonymous>", "anonymous", "eval", "?", "Module.<anonymous>"):
        return "<anonymous>"
    return function.replace("Object.", "", 1) if function.startswith("Object.") else function


def _named_parts(function: str) -> str:
    """The parts of a name that were not made by a minifier: `render` for `t.render`, nothing for `Q`."""
    if function == "<anonymous>":
        return ""
    parts = re.split(r"[./$]", function)
    return ".".join(part for part in parts if not (_is_minified(part) or part.startswith("<")))


def _named_receiver(function: str) -> str:
    """The name of a function in a source without a minified receiver. A class keeps its minified name if the map has no
    original name.
    """
    receiver, _, name = function.rpartition(".")
    return name if 0 < len(receiver) <= _LONGEST_MINIFIED else function


def _is_minified(name: str) -> bool:
    """Whether a name in a bundle was made by a minifier. Three lower-case letters may be a word, such as `add`."""
    is_word = name.isalpha() and name.islower()
    return len(name) <= _LONGEST_MINIFIED or (len(name) == _LONGEST_MINIFIED + 1 and not is_word)


def _stable_location(file: str) -> tuple[str, bool]:
    """The path without host and without hashes of bundlers, and whether it had a hash."""
    path = _ORIGIN.sub("", file).removeprefix("./")
    path, found = _NEXT_BUILD.subn(r"\1<build>", path)
    directory, slash, name = path.rpartition("/")
    match = _FILE.fullmatch(name)
    if not match:
        return path, bool(found)
    stem = _stable_stem(_CHUNK.sub(r"\1\2<n>", match[1]), directory.rpartition("/")[2], is_remote="://" in file)
    return f"{directory}{slash}{stem}{match[2]}", bool(found) or stem != match[1]


def _stable_stem(stem: str, directory: str, *, is_remote: bool) -> str:
    """The name of a file such as `index-DbQ2xY9p`, `main.3f2a1b9c` or `chunk-ABCD1234`, without the part that changes
    with each build.
    """
    if stem.isdigit():
        return "<n>"
    shift = max(0, len(stem) - _HASH_CHARS)
    starts = [shift + match.end() for match in _SEPARATOR.finditer(stem[shift:])][-_MAX_STARTS:]
    short = len(stem) - _SHORT_HASH  # a short hash may contain separators, so it is searched for first
    for start in (*([short] if short in starts else ()), *starts, 0):
        may_be_digits = is_remote or directory in _BUNDLERS or stem[start - 1 : start] == "."
        is_digits = may_be_digits and _DIGITS.fullmatch(stem, start)
        if is_digits or _is_hash(stem[start:], directory, is_whole=start == 0):
            prefix = stem[:start]
            return ("<n>" + prefix[-1:] if prefix[:-1].isdigit() else prefix) + "<hash>"
    return stem


def _is_hash(text: str, directory: str, *, is_whole: bool) -> bool:
    is_bundlers = directory in _BUNDLERS
    if _HEX.fullmatch(text):
        return True
    if text.isdigit() or not _HASH.fullmatch(text) or (is_whole and not is_bundlers):
        return False
    varies = text != text.lower() or any(one.isdigit() for one in text)
    if len(text) == _SHORT_HASH and is_bundlers and not is_whole:
        return varies  # every file in these directories has a hash
    if _WORDS.fullmatch(text):
        return False
    return varies if len(text) == _SHORT_HASH else text != text.lower() and any(one.isdigit() for one in text)
