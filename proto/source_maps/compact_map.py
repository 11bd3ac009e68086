"""A source map as it is stored: its mappings as they are, with a place to begin at every kilobyte.

Decoded, a map of a megabyte takes a hundred; a look-up decodes one kilobyte instead.
"""

import sys
from array import array
from bisect import bisect_right
from collections.abc import Sequence
from operator import itemgetter
from typing import Final, NamedTuple, Self

import msgspec

from proto.source_maps.function_names import original_function
from proto.source_maps.vlq import Segment, decode_segments

COLUMNS: Final = 8  # of a place in `places`: its offset in `mappings`, and the segment before it
MAX_LOADED_BYTES: Final = 64 * 2**20  # of a map; one that would take more is not stored
_FUNCTION_BYTES: Final = 80  # of a declaration: two numbers in two lists


class OriginalPosition(NamedTuple):
    """A position in a source file; line and column count from 0. `name`: the original identifier there, if any."""

    source: str
    line: int
    column: int
    name: str | None


class OriginalFrame(NamedTuple):
    """What a frame of the minified file was made of. `function` is empty if its name is not known."""

    position: OriginalPosition
    function: str


class StoredMap(msgspec.Struct, array_like=True, frozen=True):
    """The stored form, encoded as MessagePack. `places`: signed 64-bit numbers in the byte order of x86-64 and arm64,
    COLUMNS for each. `functions`: by minified name, where functions of that name are declared (keys of segments,
    ascending) and the indexes of their original names.
    """

    sources: list[str]
    names: list[str]
    mappings: bytes
    places: bytes
    functions: dict[str, tuple[list[int], list[int]]]


class CompactMap:
    """Looks positions up. Immutable, so threads can share it."""

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
        """Raises msgspec.MsgspecError for bytes that are no StoredMap."""
        return cls(msgspec.msgpack.decode(content, type=StoredMap))

    def frame(self, function: str, line: int, column: int) -> OriginalFrame | None:
        """What a frame of this function at a position of the minified file was made of."""
        position = self.find(line, column)
        if position is None:
            return None

        def original(minified: str) -> str | None:
            return self.function(minified, line, column)

        return OriginalFrame(position, original_function(function, original, renames=bool(self._stored.names)))

    def find(self, line: int, column: int) -> OriginalPosition | None:
        """What a position of the minified file was made of; None if nothing is known to be there."""
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
