"""Tracks the recipients of one delivery over its attempts: who has received it, and who is refused for good.

Addresses are secrets of the channel, so marks are stored instead; an address has another mark in each delivery.
"""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from control.notify.deliveries.outcome import AttemptOutcome

MIN_PERMANENT_CODE: Final = 500  # SMTP codes from here on are permanent
_MARK_LENGTH: Final = 16  # characters; the marks of 20 recipients, with their signs, fit `deliveries.taken`


@dataclass(frozen=True, slots=True)
class Recipients:
    """`addresses` in the order of the config; `codes`: SMTP codes of the recipients refused in the last attempt."""

    delivery_id: str
    addresses: Sequence[str]
    delivered: frozenset[str] = frozenset()
    refused: frozenset[str] = frozenset()
    codes: tuple[int, ...] = ()

    @classmethod
    def restore(cls, delivery_id: str, addresses: Sequence[str], recipient_progress: str) -> "Recipients":
        """Restore from an earlier outcome's `recipient_progress`; marks of others than `addresses` are ignored."""
        marks = set(recipient_progress.split())
        delivered = frozenset(one for one in addresses if "+" + _mark(delivery_id, one) in marks)
        refused = frozenset(one for one in addresses if "-" + _mark(delivery_id, one) in marks)
        return cls(delivery_id, addresses, delivered, refused)

    @property
    def pending(self) -> list[str]:
        """Recipients that have neither received it nor been refused for good."""
        return [one for one in self.addresses if one not in self.delivered | self.refused]

    def with_results(self, codes: Mapping[str, int]) -> "Recipients":
        """After an attempt for the pending recipients, of which `codes` were refused."""
        delivered = self.delivered | frozenset(one for one in self.pending if one not in codes)
        refused = self.refused | frozenset(one for one, code in codes.items() if code >= MIN_PERMANENT_CODE)
        return replace(self, delivered=delivered, refused=refused, codes=tuple(codes.values()))

    def outcome(self) -> AttemptOutcome:
        """The outcome of all attempts so far."""
        code = f" (SMTP {min(self.codes)})" if self.codes else ""
        some = f"Delivered to {len(self.delivered)} of {len(self.addresses)} recipients"
        if self.pending:
            detail = f"{some}; the others are retried{code}." if self.delivered else self._refusal_detail(code)
            return AttemptOutcome(False, detail, recipient_progress=self._marks())
        if not self.delivered:
            return AttemptOutcome(False, self._refusal_detail(code), permanent=True, recipient_progress=self._marks())
        return AttemptOutcome(True, "Delivered." if not self.refused else f"{some}.", recipient_progress=self._marks())

    def _refusal_detail(self, code: str) -> str:
        return f"The mail server rejected every recipient{code}."

    def _marks(self) -> str:
        signs = {one: "+" if one in self.delivered else "-" for one in self.delivered | self.refused}
        return " ".join(sign + _mark(self.delivery_id, one) for one, sign in sorted(signs.items()))


def _mark(delivery_id: str, address: str) -> str:
    return hashlib.sha256(f"{delivery_id}\0{address}".encode()).hexdigest()[:_MARK_LENGTH]
