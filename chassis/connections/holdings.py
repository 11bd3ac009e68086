"""How much memory request heads take in a process, and which connection is closed when it is too much.

The one that holds most is, by powers of two; of several the one that has held so much for longest. An honest client
holds a head for a moment, and it is short. One that has shown a good credential counts for a sixteenth.
"""

from collections import OrderedDict
from typing import Final, Protocol

VOUCHED: Final = 4  # powers of two


class Holder(Protocol):
    """A connection."""

    @property
    def vouched(self) -> bool:
        """Whether it has shown a good credential."""

    def shed(self) -> None:
        """Close at once, and hold nothing."""


class Holdings:
    """Of all connections together, `most` bytes."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._held: dict[Holder, tuple[int, int]] = {}  # bytes, and where it is found
        self._ranks: dict[int, OrderedDict[Holder, None]] = {}
        self.total = 0

    def hold(self, holder: Holder, count: int) -> None:
        """`holder` holds so many bytes now. Whoever has to go for them is told; that may be itself."""
        rank = max(0, count.bit_length() - (VOUCHED if holder.vouched else 0))
        before, rank_before = self._held.get(holder, (0, -1))
        if not count or rank != rank_before:
            self.release(holder)
            before = 0
        if not count:
            return
        self._held[holder] = count, rank
        self._ranks.setdefault(rank, OrderedDict())[holder] = None  # where it was, if it was there
        self.total += count - before
        while self.total > self._most:
            self._shed_one()

    def release(self, holder: Holder) -> None:
        """It holds nothing any more."""
        count, rank = self._held.pop(holder, (0, 0))
        if count:
            self.total -= count
            alike = self._ranks[rank]
            del alike[holder]
            if not alike:
                del self._ranks[rank]

    def _shed_one(self) -> None:
        holder = next(iter(self._ranks[max(self._ranks)]))
        self.release(holder)
        holder.shed()
