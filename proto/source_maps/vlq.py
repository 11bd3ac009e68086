"""The segments of `mappings`: base64 VLQ numbers, each the difference to the segment before (ECMA-426, section 5)."""

from functools import lru_cache
from typing import Final

MAX_VALUE: Final = 2**31 - 1  # of a line, a column or an index
_MAX_DIGITS: Final = 7  # of one number: 32 bits with sign
_ALPHABET: Final = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/"
_DIGITS: Final = {digit: value for value, digit in enumerate(_ALPHABET)}
_CONTINUES: Final = 32
_LENGTHS: Final = (1, 4, 5)


class InvalidSourceMap(ValueError):
    """The source map cannot be used; the message is one sentence."""


# What is at a position of the minified file, and up to the next segment: key, hasSource, hasName, source, line, column,
# name. The key is the position: line * 2**32 + column. `source` and `name` are indexes. Without source or name, their
# numbers are those that the next segment counts from. A plain tuple: a map has millions.
Segment = tuple[int, bool, bool, int, int, int, int]


@lru_cache(maxsize=16_384)
def _fields(segment: str) -> tuple[int, ...]:
    """The 1, 4 or 5 numbers of a segment. Raises InvalidSourceMap."""
    fields: list[int] = []
    value = shift = 0
    for digit in segment:
        number = _DIGITS.get(digit)
        if number is None or shift >= 5 * _MAX_DIGITS:
            raise InvalidSourceMap("Its mappings are not base64 VLQ.")
        value |= (number & 31) << shift
        if number & _CONTINUES:
            shift += 5
            continue
        fields.append(-(value >> 1) if value & 1 else value >> 1)
        value = shift = 0
    if shift or len(fields) not in _LENGTHS:
        raise InvalidSourceMap("Its mappings have a segment that is not of 1, 4 or 5 numbers.")
    return tuple(fields)


def decode_segments(text: str, before: Segment, last: int | None = None) -> list[Segment]:
    """The segments of a part of `mappings` that begins after a comma or semicolon, or at the start; `before` is the
    segment before it. Each line begins with a segment without source. Raises InvalidSourceMap, also for segments of a
    line that are not in the order of their columns. With `last`, what is behind the segments up to this key may be
    left out.
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
                raise InvalidSourceMap("Its segments are not in the order of their columns.")
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
