"""How much memory request heads take in a process, and which connection is closed when it is too much.

The one that holds most is, by powers of two; of several the one that has held so much for longest. An honest client
holds a head for a moment, and it is short. One that has shown a good credential counts for a sixteenth.
"""

from collections import OrderedDict
from typing import Final, Protocol

AUTHENTICATED_RANK_OFFSET: Final = 4  # powers of two


class HeadMemoryHolder(Protocol):
    """A connection."""

    @property
    def is_authenticated(self) -> bool:
        """Whether it has shown a good credential."""

    def close_for_memory(self) -> None:
        """Close at once, and hold nothing."""


class HeadMemoryLimit:
    """Of all connections together, `most` bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._held: dict[HeadMemoryHolder, tuple[int, int]] = {}  # bytes, and where it is found
        self._ranks: dict[int, OrderedDict[HeadMemoryHolder, None]] = {}
        self.total = 0

    def set_held(self, holder: HeadMemoryHolder, count: int) -> None:
        """`holder` holds so many bytes now. Whoever has to go for them is told; that may be itself."""
        rank = max(0, count.bit_length() - (AUTHENTICATED_RANK_OFFSET if holder.is_authenticated else 0))
        before, rank_before = self._held.get(holder, (0, -1))
        if not count or rank != rank_before:
            self.release(holder)
            before = 0
        if not count:
            return
        self._held[holder] = count, rank
        self._ranks.setdefault(rank, OrderedDict())[holder] = None  # where it was, if it was there
        self.total += count - before
        while self.total > self._max_bytes:
            self._close_largest()

    def release(self, holder: HeadMemoryHolder) -> None:
        """It holds nothing any more."""
        count, rank = self._held.pop(holder, (0, 0))
        if count:
            self.total -= count
            alike = self._ranks[rank]
            del alike[holder]
            if not alike:
                del self._ranks[rank]

    def _close_largest(self) -> None:
        holder = next(iter(self._ranks[max(self._ranks)]))
        self.release(holder)
        holder.close_for_memory()
