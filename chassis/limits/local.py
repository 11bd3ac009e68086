"""The limiter inside the process: exact, and gone with it."""

import time
from collections import OrderedDict
from collections.abc import Callable
from typing import Final

from chassis.limits import gcra
from chassis.limits.gcra import Rule
from chassis.limits.limiter import Bucket, LimitClass, LimitResult, limit_result

MAX_BUCKETS: Final = 10_000  # of each class; a bucket takes about 250 bytes


class LocalLimiter:
    """At most `max_buckets` buckets of each class, so that strangers push out only strangers.

    A bucket that is full says nothing and is dropped as soon as it is the one longest unused. Over the bound the one
    longest unused goes as it is: its holder gets a full one.
    """

    def __init__(
        self,
        max_buckets: int = MAX_BUCKETS,
        *,
        monotonic: Callable[[], int] = time.monotonic_ns,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """Nanoseconds both: `monotonic` is counted with, `clock` (since 1970) is told to clients."""
        self._max_buckets = max_buckets
        self._monotonic = monotonic
        self._clock = clock
        self._full_at: dict[LimitClass, OrderedDict[str, int]] = {limit: OrderedDict() for limit in LimitClass}

    async def take(self, bucket: Bucket, rule: Rule) -> LimitResult:
        """One request: counted, or refused and then not counted."""
        now = self._monotonic()
        kept = self._full_at[bucket.limit]
        level = gcra.take(kept.get(bucket.holder, now), now, rule)
        kept[bucket.holder] = level.full_at
        kept.move_to_end(bucket.holder)
        self._drop_unused(kept, now)
        return limit_result(level, now, self._clock(), rule)

    async def peek(self, bucket: Bucket, rule: Rule) -> LimitResult:
        """The verdict that one request would get, without counting it; keeps nothing."""
        now = self._monotonic()
        full_at = self._full_at[bucket.limit].get(bucket.holder, now)
        return limit_result(gcra.peek(full_at, now, rule), now, self._clock(), rule)

    @property
    def bucket_count(self) -> int:
        """Buckets in memory."""
        return sum(map(len, self._full_at.values()))

    def _drop_unused(self, kept: OrderedDict[str, int], now: int) -> None:
        while len(kept) > self._max_buckets or next(iter(kept.values())) <= now:
            kept.popitem(last=False)
