"""Of several recipients of one delivery, who has it and who is refused for good: remembered from attempt to attempt.

Addresses are secrets of the channel, so marks are kept in their place, which are different in each delivery.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from control.deliveries.outcome import Outcome

FOR_GOOD: Final = 500  # SMTP codes from here on
_MARK: Final = 16  # characters; with its sign, of 20 recipients, they fit `taken` of the delivery


@dataclass(frozen=True, slots=True)
class Recipients:
    """`all` as the config has them; `codes`: what was said to those who are put off."""

    delivery_id: str
    all: Sequence[str]
    having: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    codes: tuple[int, ...] = ()

    @classmethod
    def remembered(cls, delivery_id: str, addresses: Sequence[str], taken: str) -> "Recipients":
        """`taken` as an outcome before this attempt had it; what it has of others than `addresses` is forgotten."""
        marks = set(taken.split())
        having = frozenset(one for one in addresses if "+" + _mark(delivery_id, one) in marks)
        refused = frozenset(one for one in addresses if "-" + _mark(delivery_id, one) in marks)
        return cls(delivery_id, addresses, having, refused)

    @property
    def left(self) -> list[str]:
        """Who is still to get it."""
        return [one for one in self.all if one not in self.having | self.refused]

    def after(self, codes: Mapping[str, int]) -> "Recipients":
        """After an attempt for those left, of whom these were refused."""
        having = self.having | frozenset(one for one in self.left if one not in codes)
        refused = self.refused | frozenset(one for one, code in codes.items() if code >= FOR_GOOD)
        return replace(self, having=having, refused=refused, codes=tuple(codes.values()))

    def outcome(self) -> Outcome:
        """Of all attempts so far."""
        code = f" (SMTP {min(self.codes)})" if self.codes else ""
        some = f"Delivered to {len(self.having)} of {len(self.all)} recipients"
        if self.left:
            detail = f"{some}; the others are tried again{code}." if self.having else self._refusal(code)
            return Outcome(False, detail, taken=self._marks())
        if not self.having:
            return Outcome(False, self._refusal(code), permanent=True, taken=self._marks())
        return Outcome(True, "Delivered." if not self.refused else f"{some}.", taken=self._marks())

    def _refusal(self, code: str) -> str:
        return f"The mail server refuses every recipient{code}."

    def _marks(self) -> str:
        signs = {one: "+" if one in self.having else "-" for one in self.having | self.refused}
        return " ".join(sign + _mark(self.delivery_id, one) for one, sign in sorted(signs.items()))


def _mark(delivery_id: str, address: str) -> str:
    return hashlib.sha256(f"{delivery_id}\0{address}".encode()).hexdigest()[:_MARK]
