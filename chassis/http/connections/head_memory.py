"""The memory of request heads in a process, and which connection is closed when it exceeds the limit.

The connection that holds most is closed, compared by powers of two; of equals, the one that has held so much for
longest. A legitimate client holds a short head for a moment. What a connection with a valid credential holds counts a
sixteenth.
"""

from collections import OrderedDict
from typing import Final, Protocol

AUTHENTICATED_RANK_OFFSET: Final = 4  # in powers of two: a sixteenth


class HeadMemoryHolder(Protocol):
    """A connection that holds heads."""

    @property
    def is_authenticated(self) -> bool:
        """Whether the connection has presented a valid credential."""

    def close_for_memory(self) -> None:
        """Close at once and drop the held bytes."""


class HeadMemoryLimit:
    """Limits the bytes held by all connections together to `max_bytes`."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held: dict[HeadMemoryHolder, tuple[int, int]] = {}  # bytes, and the key in `_ranks`
        self._ranks: dict[int, OrderedDict[HeadMemoryHolder, None]] = {}
        self.total = 0

    def set_held(self, holder: HeadMemoryHolder, count: int) -> None:
        """Record that `holder` holds `count` bytes. Over the limit, holders are closed, possibly `holder` itself."""
        rank = max(0, count.bit_length() - (AUTHENTICATED_RANK_OFFSET if holder.is_authenticated else 0))
        before, rank_before = self._held.get(holder, (0, -1))
        if not count or rank != rank_before:
            self.release(holder)
            before = 0
        if not count:
            return
        self._held[holder] = count, rank
        self._ranks.setdefault(rank, OrderedDict())[holder] = None  # keeps its position if it is in this rank already
        self.total += count - before
        while self.total > self._max_bytes:
            self._close_largest()

    def release(self, holder: HeadMemoryHolder) -> None:
        """Record that `holder` holds nothing."""
        count, rank = self._held.pop(holder, (0, 0))
        if count:
            self.total -= count
            same_rank = self._ranks[rank]
            del same_rank[holder]
            if not same_rank:
                del self._ranks[rank]

    def _close_largest(self) -> None:
        holder = next(iter(self._ranks[max(self._ranks)]))
        self.release(holder)
        holder.close_for_memory()
