"""The limiter inside the process: exact for one process, and lost when it ends."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from chassis.limits import gcra
from chassis.limits.gcra import Rule
from chassis.limits.limiter import Bucket, LimitClass, LimitResult, limit_result

MAX_BUCKETS: Final = 10_000  # of each class; a bucket takes about 250 bytes


class LocalLimiter:
    """At most `max_buckets` buckets of each class, so that a flood in one class evicts nothing of another.

    A full bucket holds no information and is dropped once it is the least recently used one. Beyond the limit the least
    recently used bucket is dropped in any state: its holder starts with a full one.
    """

    def __init__(
        self,
        max_buckets: int = MAX_BUCKETS,
        *,
        monotonic: Callable[[], int] = time.monotonic_ns,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """Both in nanoseconds: `monotonic` is used for counting, `clock` (since 1970) for times sent to clients."""
        self._max_buckets = max_buckets
        self._monotonic = monotonic
        self._clock = clock
        self._full_at: dict[LimitClass, OrderedDict[str, int]] = {limit: OrderedDict() for limit in LimitClass}

    async def take(self, bucket: Bucket, rule: Rule) -> LimitResult:
        """Count one request, unless it is rejected."""
        now = self._monotonic()
        buckets = self._full_at[bucket.limit]
        state = gcra.take(buckets.get(bucket.holder, now), now, rule)
        buckets[bucket.holder] = state.full_at
        buckets.move_to_end(bucket.holder)
        self._drop_unused(buckets, now)
        return limit_result(state, now, self._clock(), rule)

    async def peek(self, bucket: Bucket, rule: Rule) -> LimitResult:
        """The result that one request would get, without counting it; stores nothing."""
        now = self._monotonic()
        full_at = self._full_at[bucket.limit].get(bucket.holder, now)
        return limit_result(gcra.peek(full_at, now, rule), now, self._clock(), rule)

    @property
    def bucket_count(self) -> int:
        """Number of buckets in memory."""
        return sum(map(len, self._full_at.values()))

    def _drop_unused(self, buckets: OrderedDict[str, int], now: int) -> None:
        while len(buckets) > self._max_buckets or next(iter(buckets.values())) <= now:
            buckets.popitem(last=False)
