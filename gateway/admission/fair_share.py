"""Shares a capacity between holders with a dynamic threshold, so that no holder starves the others."""

from collections.abc import Hashable
from typing import Generic, TypeVar

H = TypeVar("H", bound=Hashable)


class FairShare(Generic[H]):
    """A `capacity` in any unit. A holder may hold as much as is left free: one alone half of it, two a third each. A
    newcomer may take all that the others leave; then the next one is refused until some of it is given back. While
    nothing is taken, any amount is permitted.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.taken = 0
        self._held: dict[H, int] = {}

    def permits(self, holder: H, amount: int) -> bool:
        """Whether `holder` may take `amount` more; 0 and negative amounts are always permitted."""
        if amount <= 0 or not self.taken:
            return True
        held = self._held.get(holder, 0)
        free = self.capacity - self.taken - amount
        return free >= (held + amount if held else 0)

    def held(self, holder: H) -> int:
        """The amount that `holder` holds."""
        return self._held.get(holder, 0)

    def take(self, holder: H, amount: int) -> bool:
        """Take `amount` if it is permitted; returns whether it was."""
        permitted = self.permits(holder, amount)
        if permitted:
            self.change(holder, amount)
        return permitted

    def change(self, holder: H, amount: int) -> None:
        """Take `amount` unconditionally, or give it back (negative)."""
        self.taken += amount
        held = self._held.get(holder, 0) + amount
        if held:
            self._held[holder] = held
        else:
            self._held.pop(holder, None)
