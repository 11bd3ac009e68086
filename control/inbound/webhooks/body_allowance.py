"""How many bytes of bodies an organization may store, between two runs of housekeeping.

Housekeeping bounds what is stored in the end (`control.inbound.webhooks.task`); until it runs, this does. A delivery
beyond is applied all the same, but without its body it cannot be processed again.
"""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

BURST_BYTES: Final = 64 * 2**20
BYTES_PER_S: Final = 256 * 2**10
MAX_ORGANIZATIONS: Final = 10_000  # remembered; one that is forgotten has its burst again


class BodyAllowance:
    """A token bucket for each organization, in this process."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._buckets: OrderedDict[str, tuple[float, float]] = OrderedDict()  # when it was used, and what was left

    def take(self, org_id: str, size: int) -> bool:
        """Whether a body of so many bytes may be stored."""
        now = self._clock()
        used_at, left = self._buckets.pop(org_id, (now, float(BURST_BYTES)))
        left = min(float(BURST_BYTES), left + (now - used_at) * BYTES_PER_S)
        is_allowed = size <= left
        self._buckets[org_id] = now, left - size if is_allowed else left
        if len(self._buckets) > MAX_ORGANIZATIONS:
            self._buckets.popitem(last=False)
        return is_allowed
