"""Resources and scopes that are large: how much of them, all different, a project may have stored for a day.

They are dictionary entries, and a merge holds the dictionaries of all parts that it reads: 4.6 bytes of memory for each
byte, and up to 8 192 entries a part (docs/adr/016-engine-memory.md). A fleet has few large ones that come again and
again, or many small ones. Many large ones of one day cannot be merged within the memory of the engine, and where parts
are not merged, inserts end up refused, everybody's. So a project has an allowance for each day that its items are of,
for what its distinct large ones hold beyond SMALL bytes. A request that would pass it is stored with no more than SMALL
bytes of any resource and scope: what does not fit is dropped and counted.

Each process counts for itself, and anew after a start.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from proto.otlp.policy import Policy

SMALL: Final = 2**11
LEAST_CHARGE: Final = 2**12  # however little one has beyond SMALL: what is remembered of it costs memory as well
MOST_REMEMBERED: Final = 2**18  # of all projects and days; who was looked at longest ago is forgotten, and begins anew

_Of = tuple[int, int]  # a project and a day


class LargeOrigins:
    """The large resources and scopes that each project has had for each day. `per_day`: bytes of a project; 0: any
    number.
    """

    def __init__(self, per_day: int) -> None:
        self._per_day = per_day
        self._remembered = 0
        self._charged: OrderedDict[_Of, set[int]] = OrderedDict()
        self._left: dict[_Of, int] = {}

    def admit(self, project_id: int, days: Sequence[int], sizes: Mapping[int, int]) -> bool:
        """Whether those of `sizes` (by hash, each larger than SMALL) may be stored as they are; then they are charged
        to each of `days` that has not had them.
        """
        if not sizes or not self._per_day:
            return True
        charges = {hashed: max(size - SMALL, LEAST_CHARGE) for hashed, size in sizes.items()}
        new = {(project_id, day): self._new(charges, (project_id, day)) for day in days}
        if any(sum(of_day.values()) > self._left.get(day, self._per_day) for day, of_day in new.items()):
            return False
        for day, of_day in new.items():
            self._charge(day, of_day)
        self._forget_the_oldest()
        return True

    def _new(self, charges: Mapping[int, int], of: _Of) -> dict[int, int]:
        known = self._charged.get(of, ())
        return {hashed: charge for hashed, charge in charges.items() if hashed not in known}

    def _charge(self, of: _Of, new: Mapping[int, int]) -> None:
        self._charged.setdefault(of, set()).update(new)
        self._charged.move_to_end(of)
        self._left[of] = self._left.get(of, self._per_day) - sum(new.values())
        self._remembered += len(new)

    def _forget_the_oldest(self) -> None:
        while self._remembered > MOST_REMEMBERED:
            of, charged = self._charged.popitem(last=False)
            del self._left[of]
            self._remembered -= len(charged)


@lru_cache(1_024)
def without_large_ones(policy: Policy) -> Policy:
    """`policy` for a request whose project has no allowance left for what is in it."""
    return msgspec.structs.replace(
        policy,
        max_resource_bytes=min(policy.max_resource_bytes or SMALL, SMALL),
        max_scope_bytes=min(policy.max_scope_bytes or SMALL, SMALL),
    )
