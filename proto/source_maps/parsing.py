"""Read an uploaded source map (ECMA-426), which may be hostile.

The cost is linear in the size of the map. JSON lists of millions of short texts take twenty times their size, so a map
is read in a process whose memory is limited (`control.code.source_maps.parser_process`).

A frame has the minified name of a function, and a map knows the original name at the place of each declaration.
`find_declarations` finds the declarations of a minified file. It uses patterns instead of a parser. A declaration that
is found by mistake does no harm, because the map has no name at its place.
"""

import re
from array import array
from collections.abc import Iterator, Sequence
from typing import Annotated, Final, NamedTuple

import msgspec

from proto.source_maps.compact_map import (
    COLUMNS,
    MAX_VALUE,
    InvalidSourceMap,
    Segment,
    StoredMap,
    decode_segments,
    place,
)

_EXPECTED: Final = re.compile(r"Expected `([^`]+)`(?:, got `([^`]+)`| ([<>]=) (-?\d+))")
_MISSING: Final = re.compile(r"Object missing required field `([^`]+)`")
_PLACE: Final = re.compile(r" - at `\$\.?([^`]+)`\Z")
_BOUNDS: Final = {">=": "at least", "<=": "at most"}
_TYPES: Final = {
    "str": "a string",
    "int": "an integer",
    "float": "a number with a fraction",
    "bool": "a boolean",
    "object": "an object",
    "array": "a list",
}


def type_fault(message: str) -> str:
    """The sentence for a message of msgspec. `[...]` in it is an entry of an object."""
    place = _PLACE.search(message)
    path = "" if place is None else place[1]
    name = f"`{path}`" if path else "The source map"
    if missing := _MISSING.match(message):
        return f"`{path}{'.' * bool(path)}{missing[1]}` is missing."
    if (expected := _EXPECTED.match(message)) is None:
        return f"{name} has a value that is not allowed."
    wanted, got, order, bound = expected.groups()
    if got is None:
        return f"{name} must be {_BOUNDS[order]} {bound}."
    return f"{name} must be {_in_words(wanted)}, not {_in_words(got)}."


def _in_words(types: str) -> str:
    return " or ".join(_TYPES.get(one, one) for one in types.split(" | "))


MAX_DECLARATIONS: Final = 100_000

_NAME: Final = r"[A-Za-z_$\u00aa-\uffff][\w$]{0,99}"
# function t(, function*t(, class t, t=function, t=async, t=class, t=e=>, t=(e,n)=>, t:function
_DECLARATION: Final = re.compile(
    rf"\b(?:function(?:\s+|\s*\*\s*)|class\s+)(?P<a>{_NAME})"
    rf"|(?<![\w$.])(?P<b>{_NAME})\s?[=:]\s?(?:async\b\s?)?(?:function\b|class\b|{_NAME}\s?=>|\([^()]{{0,200}}\)\s?=>)"
)
_ASTRAL: Final = re.compile("[\U00010000-\U0010ffff]")


def find_declarations(minified: str) -> dict[str, list[int]]:
    """By name, the line and the column of each declaration, as numbers in one list."""
    if not minified.isascii():
        minified = _ASTRAL.sub("  ", minified)  # columns count UTF-16 code units
    found: dict[str, list[int]] = {}
    count = 0
    for number, line in enumerate(minified.split("\n")):
        for match in _DECLARATION.finditer(line):
            group = "a" if match["a"] else "b"
            found.setdefault(match[group], []).extend((number, match.start(group)))
            count += 1
            if count == MAX_DECLARATIONS:
                return found
    return found


MAX_SOURCES: Final = 100_000
MAX_NAMES: Final = 1_000_000
MAX_SECTIONS: Final = 20_000
MAX_FUNCTIONS: Final = 200_000
MAX_MAPPINGS_BYTES: Final = 32 * 2**20
MAX_DELIMITERS: Final = 10_000_000  # commas and semicolons of all mappings: lines and segments
MAX_TEXT: Final = 300  # characters of a path or a name
PLACE_CHARS: Final = 1_024  # of mappings between two places to begin at
# A member of the map that only Sluice uses, as ECMA-426 allows: lines and columns of declarations by minified name.
FUNCTIONS_MEMBER: Final = "x_minified_functions"
VERSION: Final = 3

_Number = Annotated[int, msgspec.Meta(ge=0, le=MAX_VALUE)]
_UUID: Final = re.compile(r"[0-9a-fA-F]{8}(?:-[0-9a-fA-F]{4}){3}-[0-9a-fA-F]{12}")
_LAST_DELIMITER: Final = re.compile(r"[,;](?=[^,;]*\Z)")


class _Offset(msgspec.Struct):
    line: _Number
    column: _Number


class _Map(msgspec.Struct):
    """A map, or the map of a section. Unknown members are skipped, also `sourcesContent`, which is never stored."""

    version: int
    mappings: str = ""
    sources: list[str | None] = []
    names: list[str] = []
    source_root: str | None = msgspec.field(name="sourceRoot", default=None)
    sections: None = None  # the map of a section has no sections


class _Section(msgspec.Struct):
    offset: _Offset
    map: _Map


class _IndexMap(msgspec.Struct):
    """A map that may have sections."""

    version: int
    mappings: str | None = None
    sources: list[str | None] = []
    names: list[str] = []
    source_root: str | None = msgspec.field(name="sourceRoot", default=None)
    sections: list[_Section] | None = None
    debug_id: str = msgspec.field(name="debugId", default="")
    old_debug_id: str = msgspec.field(name="debug_id", default="")
    functions: dict[str, list[_Number]] = msgspec.field(name=FUNCTIONS_MEMBER, default_factory=dict)


class ReadMap(NamedTuple):
    """A map as it is stored, and the debug id (a UUID) that the map shares with its minified file, if it has one."""

    stored: StoredMap
    debug_id: str | None


def read_source_map(raw: bytes) -> ReadMap:
    """Read a map. Raises InvalidSourceMap."""
    try:
        found = msgspec.json.decode(_unguarded(raw), type=_IndexMap)
    except msgspec.ValidationError as error:
        raise InvalidSourceMap(type_fault(str(error))) from error
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise InvalidSourceMap("The source map is not valid JSON.") from error
    if found.version != VERSION or any(one.map.version != VERSION for one in found.sections or ()):
        raise InvalidSourceMap("The source map's version is not 3.")
    builder = _Builder(_declared(found.functions))
    if found.sections is not None:
        if len(found.sections) > MAX_SECTIONS:
            raise InvalidSourceMap(f"The source map has more than {MAX_SECTIONS} sections.")
        for section in found.sections:
            builder.add(section.map, section.offset.line << 32 | section.offset.column)
    elif found.mappings is None:
        raise InvalidSourceMap("The source map has neither mappings nor sections.")
    else:
        builder.add(_Map(VERSION, found.mappings, found.sources, found.names, found.source_root), 0)
    return ReadMap(builder.build(), parse_debug_id(found.debug_id or found.old_debug_id))


def _unguarded(raw: bytes) -> bytes:
    """Remove a byte order mark, and the first line that prevents scripts from reading the map."""
    raw = raw.removeprefix(b"\xef\xbb\xbf")
    return raw.partition(b"\n")[2] if raw.startswith(b")]}'") else raw


def parse_debug_id(text: str) -> str | None:
    """The UUID in lower case. None for other texts."""
    return text.lower() if _UUID.fullmatch(text) else None


def _declared(functions: dict[str, list[int]]) -> dict[int, str]:
    """Minified names by the position of their declarations. Raises InvalidSourceMap."""
    declared: dict[int, str] = {}
    for name, numbers in functions.items():
        if len(numbers) % 2 or not 0 < len(name) <= MAX_TEXT:
            raise InvalidSourceMap(
                f"{FUNCTIONS_MEMBER} must map each function name to a list of numbers: a line, a column, and so on."
            )
        declared.update({line << 32 | column: name for line, column in zip(*[iter(numbers)] * 2, strict=True)})
    if len(declared) > MAX_FUNCTIONS:
        raise InvalidSourceMap(f"{FUNCTIONS_MEMBER} has more than {MAX_FUNCTIONS} positions.")
    return declared


class _Builder:
    """Joins the maps of sections into one map."""

    def __init__(self, declared: dict[int, str]) -> None:
        self._declared = declared
        self._sources: list[str] = []
        self._names: list[str] = []
        self._mappings: list[str] = []
        self._length = 0
        self._delimiters = 0
        self._places = array("q")
        self._functions: dict[str, tuple[list[int], list[int]]] = {}
        self._last_key = 0

    def add(self, found: _Map, key: int) -> None:
        """Append a map that begins at a position. Raises InvalidSourceMap."""
        if key < self._last_key:
            raise InvalidSourceMap("The sections of the source map are not in the order of their offsets.")
        if not found.mappings.isascii():
            raise InvalidSourceMap("The mappings of the source map are not base64 VLQ.")
        self._count(found.mappings)
        before: Segment = (key, False, False, len(self._sources), 0, 0, len(self._names))
        first_source, first_name = len(self._sources), len(self._names)
        self._sources += [source_path(one, found.source_root) for one in found.sources]
        self._names += [_clean(one) for one in found.names]
        bounds = range(first_source, len(self._sources)), range(first_name, len(self._names))
        if len(self._sources) > MAX_SOURCES or len(self._names) > MAX_NAMES:
            raise InvalidSourceMap(f"The source map has more than {MAX_SOURCES} sources or {MAX_NAMES} names.")
        for text in _parts(found.mappings):
            self._places.extend(place(self._length, before))
            segments = decode_segments(text, before)
            self._check(segments, *bounds)
            self._mappings.append(text)
            self._length += len(text)
            before = segments[-1] if segments else before
        if self._length > MAX_MAPPINGS_BYTES:
            raise InvalidSourceMap(f"The mappings of the source map have more than {MAX_MAPPINGS_BYTES} bytes.")
        self._last_key = before[0]

    def _count(self, mappings: str) -> None:
        """Raises InvalidSourceMap for more lines or segments than can be read in time."""
        self._delimiters += mappings.count(";") + mappings.count(",")
        if self._delimiters > MAX_DELIMITERS:
            raise InvalidSourceMap(
                f"The mappings of the source map have more than {MAX_DELIMITERS} lines and segments."
            )

    def _check(self, segments: Sequence[Segment], sources: range, names: range) -> None:
        for key, has_source, has_name, source, line, column, name in segments:
            if has_source and not (source in sources and 0 <= line <= MAX_VALUE and 0 <= column <= MAX_VALUE):
                raise InvalidSourceMap("`mappings` refers to a source or position that does not exist.")
            if has_name:
                if name not in names:
                    raise InvalidSourceMap("`mappings` refers to a name that does not exist.")
                if key in self._declared:
                    self._declare(self._declared[key], key, name)
        if segments and segments[-1][0] >= (MAX_VALUE << 32):
            raise InvalidSourceMap(f"The mappings of the source map have more than {MAX_VALUE} lines.")

    def _declare(self, minified: str, key: int, name: int) -> None:
        keys, names = self._functions.setdefault(minified, ([], []))
        if not keys or keys[-1] < key:
            keys.append(key)
            names.append(name)

    def build(self) -> StoredMap:
        """The result. Raises InvalidSourceMap for a map without mappings."""
        if not len(self._places) // COLUMNS:
            raise InvalidSourceMap("The source map has no mappings.")
        mappings = "".join(self._mappings).encode("ascii")
        return StoredMap(self._sources, self._names, mappings, self._places.tobytes(), self._functions)


def _parts(mappings: str) -> Iterator[str]:
    """`mappings` in parts of about PLACE_CHARS, each cut after a comma or a semicolon."""
    begin = 0
    while begin < len(mappings):
        end = begin + PLACE_CHARS
        if end < len(mappings):
            found = _LAST_DELIMITER.search(mappings, begin, end)
            if found is None:  # no segment is so long
                raise InvalidSourceMap("The mappings of the source map are not base64 VLQ.")
            end = found.end()
        yield mappings[begin:end]
        begin = end


_BUNDLER: Final = re.compile(r"^(?:webpack|webpack-internal|turbopack|rollup|vite|ng|app)://[^/]*/")
_VARIANT: Final = re.compile(r"\?[0-9a-zA-Z]{0,32}$")  # webpack numbers sources with the same name
_UNSAFE: Final = re.compile(
    r"[\x00-\x20\x7f-\xa0\u061c\u1680\u2000-\u200f\u2028-\u202f\u205f\u2066-\u2069\u3000\ufeff]"
)
_BALANCED: Final = re.compile(r"(?:[^()]|\([^()]*\))*")


def source_path(source: str | None, root: str | None) -> str:
    """The path of a source as frames show it, without prefixes of bundlers and without white space. Empty if the map
    does not have it.
    """
    if not source:
        return ""
    text = source[: 4 * MAX_TEXT]
    if root and not re.match(r"[A-Za-z][\w+.-]*:|/", text):
        text = f"{root[:MAX_TEXT].rstrip('/')}/{text}"
    text = _BUNDLER.sub("", _VARIANT.sub("", text))
    text = _UNSAFE.sub("_", text if "://" in text else _without_dots(text))[-MAX_TEXT:]
    return text if _BALANCED.fullmatch(text) else text.replace("(", "_").replace(")", "_")


def _without_dots(path: str) -> str:
    """Resolve `.` and `..` in a path. `..` that leads out of the folder of the build is dropped."""
    parts: list[str] = []
    for part in path.split("/"):
        if part != "..":
            parts += [part] if part != "." else []
        elif parts and parts[-1]:
            parts.pop()
    return "/".join(parts)


def _clean(name: str) -> str:
    return _UNSAFE.sub("_", name[:MAX_TEXT])
