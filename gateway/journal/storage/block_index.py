"""Where the requests of a segment are, about: what is finished, or in the other lane, is passed over unread, and those
of a batch are found again, at 33 bytes of memory for a quarter of a megabyte.
"""

from array import array
from bisect import bisect_right
from typing import Final, NamedTuple

BLOCK_BYTES: Final = 256 * 2**10
FRESH: Final = 1
SLOW: Final = 2
_SECOND_NS: Final = 10**9


class SegmentBlock(NamedTuple):
    """Requests of a segment that are read together: those with sequences from `first` to `last`, in file order."""

    first: int
    last: int
    start: int  # offsets
    end: int
    received_s: int  # when the first of them was received, since 1970
    lanes: int  # FRESH, SLOW or both
    items: int  # accepted ones of the requests that were whole when they were counted


class BlockIndex:
    """Of one segment. A block ends when it is large, or a second old."""

    def __init__(self) -> None:
        self._firsts = array("Q")
        self._starts = array("Q")
        self._seconds = array("Q")
        self._lanes = array("B")
        self._items = array("Q")
        self._full_at = -1  # the next block begins there
        self._second = -1

    def __len__(self) -> int:
        return len(self._firsts)

    def add(self, sequence: int, offset: int, received_ns: int, items: int, *, slow: bool) -> None:
        """The next request of the segment."""
        second = received_ns // _SECOND_NS
        if offset >= self._full_at or second != self._second:
            self._firsts.append(sequence)
            self._starts.append(offset)
            self._seconds.append(second)
            self._lanes.append(0)
            self._items.append(0)
            self._full_at, self._second = offset + BLOCK_BYTES, second
        self._lanes[-1] |= SLOW if slow else FRESH
        self._items[-1] += items

    def find(self, sequence: int) -> int:
        """The number of the block that has this sequence, or would have it."""
        return max(bisect_right(self._firsts, sequence) - 1, 0)

    def get(self, number: int, last: int, end: int) -> SegmentBlock:
        """A block. `last`, `end`: of the segment, and so of its last block."""
        if number + 1 < len(self._firsts):
            last, end = self._firsts[number + 1] - 1, self._starts[number + 1]
        return SegmentBlock(
            self._firsts[number],
            last,
            self._starts[number],
            end,
            self._seconds[number],
            self._lanes[number],
            self._items[number],
        )
