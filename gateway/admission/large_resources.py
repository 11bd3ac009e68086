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

SMALL_BYTES: Final = 2**11
MIN_CHARGE_BYTES: Final = 2**12  # however little one has beyond SMALL: what is remembered of it costs memory as well
MAX_TRACKED: Final = 2**18  # of all projects and days; who was looked at longest ago is forgotten, and begins anew

_ProjectDay = tuple[int, int]  # a project and a day


class LargeResourceBudget:
    """The large resources and scopes that each project has had for each day. `per_day`: bytes of a project; 0: any
    number.
    """

    def __init__(self, bytes_per_day: int) -> None:
        self._bytes_per_day = bytes_per_day
        self._tracked = 0
        self._charged: OrderedDict[_ProjectDay, set[int]] = OrderedDict()
        self._remaining_bytes: dict[_ProjectDay, int] = {}

    def admit(self, project_id: int, days: Sequence[int], sizes: Mapping[int, int]) -> bool:
        """Whether those of `sizes` (by hash, each larger than SMALL) may be stored as they are; then they are charged
        to each of `days` that has not had them.
        """
        if not sizes or not self._bytes_per_day:
            return True
        charges = {hashed: max(size - SMALL_BYTES, MIN_CHARGE_BYTES) for hashed, size in sizes.items()}
        new = {(project_id, day): self._new_charges(charges, (project_id, day)) for day in days}
        if any(
            sum(of_day.values()) > self._remaining_bytes.get(day, self._bytes_per_day) for day, of_day in new.items()
        ):
            return False
        for day, of_day in new.items():
            self._charge(day, of_day)
        self._evict_oldest()
        return True

    def _new_charges(self, charges: Mapping[int, int], of: _ProjectDay) -> dict[int, int]:
        known = self._charged.get(of, ())
        return {hashed: charge for hashed, charge in charges.items() if hashed not in known}

    def _charge(self, of: _ProjectDay, new: Mapping[int, int]) -> None:
        self._charged.setdefault(of, set()).update(new)
        self._charged.move_to_end(of)
        self._remaining_bytes[of] = self._remaining_bytes.get(of, self._bytes_per_day) - sum(new.values())
        self._tracked += len(new)

    def _evict_oldest(self) -> None:
        while self._tracked > MAX_TRACKED:
            of, charged = self._charged.popitem(last=False)
            del self._remaining_bytes[of]
            self._tracked -= len(charged)


@lru_cache(1_024)
def with_small_resource_limits(policy: Policy) -> Policy:
    """`policy` for a request whose project has no allowance left for what is in it."""
    return msgspec.structs.replace(
        policy,
        max_resource_bytes=min(policy.max_resource_bytes or SMALL_BYTES, SMALL_BYTES),
        max_scope_bytes=min(policy.max_scope_bytes or SMALL_BYTES, SMALL_BYTES),
    )
