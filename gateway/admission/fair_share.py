"""An amount that several share, and how much of it one of them may hold, so that nobody starves the rest."""

from collections.abc import Hashable
from typing import Generic, TypeVar

H = TypeVar("H", bound=Hashable)


class FairShare(Generic[H]):
    """`most` of something. Who holds some of it may take as much as is left free: one alone half of it, two a third
    each. Who holds nothing may take what they leave, to the last bit; then the next is refused until some of it is
    given back. While nobody holds anything, any amount may be taken.
    """

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.taken = 0
        self._held: dict[H, int] = {}

    def permits(self, holder: H, amount: int) -> bool:
        """Whether `holder` may take so much more; less than it has it may always have."""
        if amount <= 0 or not self.taken:
            return True
        held = self._held.get(holder, 0)
        free = self.capacity - self.taken - amount
        return free >= (held + amount if held else 0)

    def held(self, holder: H) -> int:
        """How much somebody holds."""
        return self._held.get(holder, 0)

    def take(self, holder: H, amount: int) -> bool:
        """Take so much if it is permitted; whether it was."""
        permitted = self.permits(holder, amount)
        if permitted:
            self.change(holder, amount)
        return permitted

    def change(self, holder: H, amount: int) -> None:
        """Take so much without asking, or give it back (negative)."""
        self.taken += amount
        held = self._held.get(holder, 0) + amount
        if held:
            self._held[holder] = held
        else:
            self._held.pop(holder, None)
