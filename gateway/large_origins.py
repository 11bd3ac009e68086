"""Resources and scopes that are large: how much of them, all different, a project may have stored in a day.

They are dictionary entries, and a merge holds the dictionaries of all parts that it reads: 4.6 bytes of memory for each
byte, and up to 8 192 entries a part (docs/adr/016-engine-memory.md). A fleet has few large ones that come again and
again, or many small ones. Many large ones in one day cannot be merged within the memory of the engine, and where parts
are not merged, inserts end up refused, everybody's. So a project has an allowance a day for what its distinct ones hold
beyond SMALL bytes. Once it is used up, new ones are stored without the attributes that do not fit into SMALL bytes.

Each process counts for itself, and anew after a start.
"""

from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import Final

import msgspec

from proto.otlp.policy import NANOS_PER_DAY, Policy

SMALL: Final = 2**11
LEAST_CHARGE: Final = 256  # however little one has beyond SMALL: what is remembered of it costs memory as well
MOST_REMEMBERED: Final = 2**20  # of all projects


class LargeOrigins:
    """The large resources and scopes that each project has had today. `per_day`: bytes of a project; 0: any number."""

    def __init__(self, per_day: int, clock: Callable[[], int]) -> None:
        self._per_day = per_day
        self._clock = clock
        self._day = -1
        self._remembered = 0
        self._seen: dict[int, set[int]] = {}
        self._left: dict[int, int] = {}

    def admit(self, project_id: int, texts: Sequence[bytes]) -> bool:
        """Whether all of `texts` (each longer than SMALL) may be stored as they are; then they are remembered."""
        if not texts or not self._per_day:
            return True
        self._turn_over()
        seen = self._seen.setdefault(project_id, set())
        new = {hash(text): max(len(text) - SMALL, LEAST_CHARGE) for text in texts}
        for known in seen.intersection(new):
            del new[known]
        left = self._left.get(project_id, self._per_day) - sum(new.values())
        if new and (left < 0 or self._remembered + len(new) > MOST_REMEMBERED):
            return False
        self._left[project_id] = left
        self._remembered += len(new)
        seen.update(new)
        return True

    def _turn_over(self) -> None:
        day = self._clock() // NANOS_PER_DAY
        if day != self._day:
            self._day, self._remembered = day, 0
            self._seen.clear()
            self._left.clear()


@lru_cache(1_024)
def without_large_ones(policy: Policy) -> Policy:
    """`policy` for a request whose project has no allowance left for what is in it."""
    return msgspec.structs.replace(
        policy,
        max_resource_bytes=min(policy.max_resource_bytes or SMALL, SMALL),
        max_scope_bytes=min(policy.max_scope_bytes or SMALL, SMALL),
    )
