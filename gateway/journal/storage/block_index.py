"""A sparse index of the requests in a segment. Readers skip blocks that are finished or of the other lane, and find
the requests of a batch. It takes 33 bytes of memory per block of 256 KiB.
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
    start: int  # offsets in the segment
    end: int
    received_s: int  # receive time of the first of them, seconds since 1970
    lanes: int  # FRESH, SLOW or both
    items: int  # accepted items of the requests that were intact when they were indexed


class BlockIndex:
    """The index of one segment. A new block begins after 256 KiB, or with a new second of the receive time."""

    def __init__(self) -> None:
        self._firsts = array("Q")
        self._starts = array("Q")
        self._seconds = array("Q")
        self._lanes = array("B")
        self._items = array("Q")
        self._full_at = -1  # offset at which the next block begins
        self._second = -1

    def __len__(self) -> int:
        return len(self._firsts)

    def add(self, sequence: int, offset: int, received_ns: int, items: int, *, slow: bool) -> None:
        """Add the next request of the segment."""
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
        """The number of the block that has a sequence, or would have it."""
        return max(bisect_right(self._firsts, sequence) - 1, 0)

    def get(self, number: int, last: int, end: int) -> SegmentBlock:
        """The block with this number. `last`, `end`: of the segment, for its last block."""
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
