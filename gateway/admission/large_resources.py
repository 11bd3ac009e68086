"""Limits the distinct large resources and scopes that a project may store per day.

They are dictionary entries, and a merge holds the dictionaries of all parts that it reads: 4.6 bytes of memory for each
byte, and up to 8 192 entries a part (docs/adr/016-engine-memory.md). A fleet has few large ones that recur, or many
small ones. Many large ones of one day cannot be merged within the memory of the engine, and if parts are not merged,
ClickHouse finally refuses the inserts of all projects. So a project has an allowance for each day of its items, for the
bytes of its distinct large resources and scopes beyond SMALL_BYTES each. A request that would exceed it is stored with
at most SMALL_BYTES of any resource and scope: attributes that do not fit are dropped and counted.

Each process counts for itself, and starts from zero.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from proto.otlp.policy import Policy

SMALL_BYTES: Final = 2**11
MIN_CHARGE_BYTES: Final = 2**12  # however little one exceeds SMALL_BYTES: tracking it costs memory as well
MAX_TRACKED: Final = 2**18  # of all projects and days; beyond it the least recently used is evicted, and starts over

_ProjectDay = tuple[int, int]  # project id, day since 1970-01-01


class LargeResourceBudget:
    """Tracks the large resources and scopes of each project and day. `bytes_per_day`: allowance of a project; 0: no
    limit.
    """

    def __init__(self, bytes_per_day: int) -> None:
        self._bytes_per_day = bytes_per_day
        self._tracked = 0
        self._charged: OrderedDict[_ProjectDay, set[int]] = OrderedDict()
        self._remaining_bytes: dict[_ProjectDay, int] = {}

    def admit(self, project_id: int, days: Sequence[int], sizes: Mapping[int, int]) -> bool:
        """Whether the resources and scopes in `sizes` (bytes by hash, each above SMALL_BYTES) may be stored unabridged;
        if so, they are charged to each of `days` that does not have them yet.
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

    def _new_charges(self, charges: Mapping[int, int], project_day: _ProjectDay) -> dict[int, int]:
        known = self._charged.get(project_day, ())
        return {hashed: charge for hashed, charge in charges.items() if hashed not in known}

    def _charge(self, project_day: _ProjectDay, new: Mapping[int, int]) -> None:
        self._charged.setdefault(project_day, set()).update(new)
        self._charged.move_to_end(project_day)
        self._remaining_bytes[project_day] = self._remaining_bytes.get(project_day, self._bytes_per_day) - sum(
            new.values()
        )
        self._tracked += len(new)

    def _evict_oldest(self) -> None:
        while self._tracked > MAX_TRACKED:
            project_day, charged = self._charged.popitem(last=False)
            del self._remaining_bytes[project_day]
            self._tracked -= len(charged)


@lru_cache(1_024)
def with_small_resource_limits(policy: Policy) -> Policy:
    """`policy` with at most SMALL_BYTES of a resource and a scope, for a request that exceeds the allowance."""
    return msgspec.structs.replace(
        policy,
        max_resource_bytes=min(policy.max_resource_bytes or SMALL_BYTES, SMALL_BYTES),
        max_scope_bytes=min(policy.max_scope_bytes or SMALL_BYTES, SMALL_BYTES),
    )
