"""A source map as it is stored: its unchanged mappings, with a place at every kilobyte from which decoding can begin.

A decoded map of one megabyte would take a hundred megabytes, so a look-up decodes only one kilobyte. Mappings are
base64 VLQ numbers, and each number is the difference to the previous segment (ECMA-426, section 5).

Names of functions are shown without the parts that change with each build.
"""

import re
import sys
from array import array
from bisect import bisect_right
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Final, NamedTuple, Self

import msgspec

MAX_VALUE: Final = 2**31 - 1  # of a line, a column or an index
_MAX_DIGITS: Final = 7  # of one number, which has 32 bits with its sign
_ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_DIGITS: Final = {digit: value for value, digit in enumerate(_ALPHABET)}
_CONTINUES: Final = 32
_LENGTHS: Final = (1, 4, 5)


class InvalidSourceMap(ValueError):
    """The source map cannot be used. The message is one sentence."""


# A segment describes the minified file from a position up to the next segment: key, hasSource, hasName, source, line,
# column, name. The key is the position: line * 2**32 + column. `source` and `name` are indexes. If a segment has no
# source or name, its numbers are the numbers from which the next segment counts. Segments are plain tuples, because a
# map has millions of them.
Segment = tuple[int, bool, bool, int, int, int, int]


@lru_cache(maxsize=16_384)
def _fields(segment: str) -> tuple[int, ...]:
    """The 1, 4 or 5 numbers of a segment. Raises InvalidSourceMap."""
    fields: list[int] = []
    value = shift = 0
    for digit in segment:
        number = _DIGITS.get(digit)
        if number is None or shift >= 5 * _MAX_DIGITS:
            raise InvalidSourceMap("The mappings of the source map are not base64 VLQ.")
        value |= (number & 31) << shift
        if number & _CONTINUES:
            shift += 5
            continue
        fields.append(-(value >> 1) if value & 1 else value >> 1)
        value = shift = 0
    if shift or len(fields) not in _LENGTHS:
        raise InvalidSourceMap("The source map has a segment that does not have 1, 4 or 5 numbers.")
    return tuple(fields)


def decode_segments(text: str, before: Segment, last: int | None = None) -> list[Segment]:
    """The segments of a part of `mappings` that begins after a comma or semicolon, or at the start. `before` is the
    segment before the part. Each line begins with a segment without source. Raises InvalidSourceMap, also if the
    segments of a line are not in the order of their columns. With `last`, segments after this key may be omitted.
    """
    found: list[Segment] = []
    key, _, _, source, line, column, name = before
    for number, of_line in enumerate(text.split(";")):
        if last is not None and key > last:
            break
        if number:
            key = (key >> 32) + 1 << 32
            found.append((key, False, False, source, line, column, name))
        for segment in of_line.split(","):
            if not segment:
                continue
            if last is not None and key > last:
                break
            fields = _fields(segment)
            count = len(fields)
            if fields[0] < 0:
                raise InvalidSourceMap("The segments of the source map are not in the order of their columns.")
            key += fields[0]
            if count == 1:
                found.append((key, False, False, source, line, column, name))
                continue
            source += fields[1]
            line += fields[2]
            column += fields[3]
            if count == 5:
                name += fields[4]
            found.append((key, True, count == 5, source, line, column, name))
    return found


MAX_SHORT_NAME: Final = 3  # characters of a variable's name that a minifier has probably made
MAX_SHORT_PROPERTY: Final = 2  # of a property's name, which minifiers keep by default

_CALL: Final = re.compile(
    r"(?P<new>new )?(?P<receivers>(?:[\w$]+\.)*)(?P<own>[\w$]+)(?: \[as (?P<alias>[^\[\]]{1,300})\])?"
)
_IDENTIFIER: Final = re.compile(r"(?<![\w$.])[A-Za-z_$][\w$]*")
# Receivers that V8 prints for any function.
_RECEIVERS: Final = frozenset(("Object", "Module", "Function", "global", "window", "exports"))
_KEYWORDS: Final = frozenset(
    ("new", "as", "get", "set", "async", "static", "Object", "global", "code", "module", "eval")
)


def original_function(minified: str, original: Callable[[str], str | None], *, renames: bool) -> str:
    """The original name of the function of a frame. `original` returns the names that the map has. A name that a
    minifier has made and that the map does not have is omitted, because it changes with the next build. `renames`:
    whether the build has identifiers that differ from the identifiers in the sources.
    """

    def known(match: re.Match[str]) -> str:
        return match[0] if match[0] in _KEYWORDS else original(match[0]) or match[0]

    if not renames:
        return _IDENTIFIER.sub(known, minified)
    # Firefox includes the enclosing functions in the name of a function: setup/t/<
    parts = [
        _stable(part, original) if _CALL.fullmatch(part) else _IDENTIFIER.sub(known, part)
        for part in minified.split("/")
    ]
    return "/".join(filter(None, parts)) if any(part.strip("<") for part in parts) else ""


def _stable(part: str, original: Callable[[str], str | None]) -> str:
    """The parts that do not change between builds of a name such as `new t` or `Object.t [as onClick]`. Empty if all
    parts change.
    """
    call = _CALL.fullmatch(part)
    if call is None:
        raise LookupError(part)
    receivers: list[str] = call["receivers"].split(".")[:-1]
    own: str = call["own"]
    alias: str | None = call["alias"] if len(call["alias"] or "") > MAX_SHORT_PROPERTY else None
    renamed = original(receivers[0] if receivers else own)
    if not receivers and renamed:
        return (call["new"] or "") + renamed
    kept = [one for one in receivers[1 if renamed else 0 :] if len(one) > MAX_SHORT_NAME]
    kept = [renamed, *kept] if renamed else kept
    if len(own) <= (MAX_SHORT_NAME if alias or not receivers else MAX_SHORT_PROPERTY):
        if alias is None:
            return ""
        kept, own, alias = [one for one in kept if one not in _RECEIVERS], alias, None
    return (call["new"] or "") + ".".join([*kept, own]) + (f" [as {alias}]" if alias else "")


COLUMNS: Final = 8  # numbers of a place in `places`: its offset in `mappings`, and the segment before it
MAX_LOADED_BYTES: Final = 64 * 2**20  # of a loaded map; a map that would take more is not stored
_FUNCTION_BYTES: Final = 80  # of a declaration, which is two numbers in two lists


class OriginalPosition(NamedTuple):
    """A position in a source file. Line and column count from 0. `name`: the original identifier there, if any."""

    source: str
    line: int
    column: int
    name: str | None


class OriginalFrame(NamedTuple):
    """The frame in the sources for a frame of the minified file. `function` is empty if its name is not known."""

    position: OriginalPosition
    function: str


class StoredMap(msgspec.Struct, array_like=True, frozen=True):
    """The stored form, encoded as MessagePack. `places`: signed 64-bit numbers in the byte order of x86-64 and arm64,
    COLUMNS numbers for each place. `functions`: for each minified name, the places where functions of that name are
    declared (keys of segments, ascending), and the indexes of their original names.
    """

    sources: list[str]
    names: list[str]
    mappings: bytes
    places: bytes
    functions: dict[str, tuple[list[int], list[int]]]


class CompactMap:
    """Looks up positions. Immutable, so threads can share it."""

    def __init__(self, stored: StoredMap) -> None:
        places = array("q")
        places.frombytes(stored.places)
        self._stored = stored
        self._offsets = places[0::COLUMNS]
        self._keys = places[1::COLUMNS]
        self._places = places
        self._mappings = stored.mappings.decode("ascii")
        texts = sum(map(sys.getsizeof, (*stored.sources, *stored.names, *stored.functions)))
        functions = sum(_FUNCTION_BYTES * len(keys) for keys, _ in stored.functions.values())
        self.memory_bytes = len(self._mappings) + 2 * len(stored.places) + texts + functions

    @classmethod
    def decode(cls, content: bytes) -> Self:
        """Decode a StoredMap. Raises msgspec.MsgspecError for other bytes."""
        return cls(msgspec.msgpack.decode(content, type=StoredMap))

    def frame(self, function: str, line: int, column: int) -> OriginalFrame | None:
        """The frame in the sources for a frame of this function at a position of the minified file."""
        position = self.find(line, column)
        if position is None:
            return None

        def original(minified: str) -> str | None:
            return self.function(minified, line, column)

        return OriginalFrame(position, original_function(function, original, renames=bool(self._stored.names)))

    def find(self, line: int, column: int) -> OriginalPosition | None:
        """The source position for a position of the minified file. None if the map has no source for the position."""
        segment = self._segment(line << 32 | column)
        if segment is None:
            return None
        key, has_source, has_name, source, original_line, original_column, name = segment
        if not has_source or key >> 32 != line or not self._stored.sources[source]:
            return None
        identifier = self._stored.names[name] if has_name else None
        return OriginalPosition(self._stored.sources[source], original_line, original_column, identifier)

    def function(self, minified: str, line: int, column: int) -> str | None:
        """The original name of the function with this minified name that is declared last before a position."""
        declared = self._stored.functions.get(minified)
        if declared is None:
            return None
        keys, names = declared
        number = bisect_right(keys, line << 32 | column)
        return self._stored.names[names[number - 1]] if number else None

    def _segment(self, key: int) -> Segment | None:
        """The last segment at or before a position."""
        at = bisect_right(self._keys, key) - 1
        if at < 0:
            return None
        end = self._offsets[at + 1] if at + 1 < len(self._offsets) else len(self._mappings)
        before = _segment_of(self._places[at * COLUMNS : (at + 1) * COLUMNS])
        found = decode_segments(self._mappings[self._offsets[at] : end], before, key)
        number = bisect_right(found, key, key=itemgetter(0))
        return found[number - 1] if number else before


def place(offset: int, before: Segment) -> tuple[int, ...]:
    """The numbers of a place."""
    return (offset, *before)


def _segment_of(numbers: Sequence[int]) -> Segment:
    _, key, has_source, has_name, source, line, column, name = numbers
    return key, bool(has_source), bool(has_name), source, line, column, name
