"""The limiter that processes share: one script in Redis, by Redis's clock.

A bucket there is two numbers: when it was last asked (microseconds of the server), and how far ahead of then it would
be full (nanoseconds); the arithmetic is that of `gcra`. What Redis cannot say in time the limiter of the process says,
as long as the class allows it.

Two things are answered without a round trip. A bucket that refused, for as long as it said that it would: nobody else
can fill it sooner. And classes in bulk: the process takes several permits at once and spends them within HOLD_NS. So
over all processes, however many, never more than `burst + rate * (t + HOLD)` requests pass in any stretch of t, as long
as Redis keeps what it holds.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter

from chassis.errors import ServiceUnavailable
from chassis.limits import gcra
from chassis.limits.gcra import SECOND_NS, BucketState, Rule
from chassis.limits.limiter import (
    UNAVAILABLE_POLICIES,
    Bucket,
    LimitClass,
    Limiter,
    LimitResult,
    UnavailablePolicy,
    limit_result,
)
from chassis.limits.local import MAX_BUCKETS
from chassis.redis import Redis, RedisUnavailable, Script

LEASE_NS: Final = SECOND_NS // 10  # permits taken in bulk are void after it
MIN_RETRY_NS: Final = SECOND_NS // 50  # a bucket in bulk that refused is asked again no sooner
BURST_DIVISOR: Final = 16  # of a burst, one process takes one part at once at most
LEASED_CLASSES: Final = frozenset({LimitClass.OTLP})  # one round trip for each request would be too dear
PREFIX: Final = "sluice:limit"

# KEYS: the bucket. ARGV: interval (ns), burst, permits wanted (0: only look). Returns permits granted, and how far
# ahead of now the bucket is full. Numbers are doubles: exact below 2^53, so for buckets that are full within 104 days.
# A clock that was turned back takes nothing and gives nothing; the bucket begins to empty again from there.
TAKE_SCRIPT: Final = Script(
    """
local interval, burst, wanted = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local time = redis.call('TIME')
local now = time[1] * 1000000 + time[2]
local ahead, turned = 0, false
local at, kept = string.match(redis.call('GET', KEYS[1]) or '', '^(%d+) (%d+)$')
if at then
  ahead = math.max(0, kept - math.max(0, now - at) * 1000)
  turned = tonumber(at) > now
end
local granted = math.max(0, math.min(wanted, math.floor((burst * interval - ahead) / interval)))
if granted > 0 or turned then
  ahead = ahead + granted * interval
  redis.call('SET', KEYS[1], string.format('%.0f %.0f', now, ahead), 'PX', math.ceil(ahead / 1000000) + 1000)
end
return {granted, string.format('%.0f', ahead)}
"""
)


class ScriptResult(NamedTuple):
    """What Redis said, and when it was asked (ns): permits granted, nanoseconds until the bucket is full."""

    granted: int
    ahead_ns: int
    asked_at: int


class RedisLimiter:
    """Buckets in `redis`; `local` counts while it is away."""

    def __init__(
        self,
        redis: Redis,
        local: Limiter,
        registry: CollectorRegistry | None = None,
        *,
        unavailable_policies: Mapping[LimitClass, UnavailablePolicy] = UNAVAILABLE_POLICIES,
        script: Script = TAKE_SCRIPT,
        monotonic: Callable[[], int] = time.monotonic_ns,
        clock: Callable[[], int] = time.time_ns,
    ) -> None:
        """Nanoseconds both: `monotonic` measures what is kept in memory, `clock` (since 1970) is told to clients."""
        self._redis = redis
        self._local = local
        self._unavailable_policies = unavailable_policies
        self._script = script
        self._monotonic = monotonic
        self._clock = clock
        self._leases: dict[LimitClass, OrderedDict[str, PermitLease]] = {limit: OrderedDict() for limit in LimitClass}
        self._local_decisions = Counter(
            "sluice_rate_limit_local_decisions",
            "Requests that this process counted for itself alone because Redis was away.",
            ("limit",),
            registry=registry,
        )

    async def take(self, bucket: Bucket, rule: Rule) -> LimitResult:
        """One request: counted, or refused and then not counted."""
        try:
            if bucket.limit in LEASED_CLASSES:
                return self._to_result(await self._lease_batch(bucket, rule), rule)
            return await self._take_or_peek(1, bucket, rule)
        except RedisUnavailable:
            return await self._fall_back(self._local.take, bucket, rule)

    async def peek(self, bucket: Bucket, rule: Rule) -> LimitResult:
        """The verdict that one request would get, without counting it."""
        try:
            return await self._take_or_peek(0, bucket, rule)
        except RedisUnavailable:
            return await self._fall_back(self._local.peek, bucket, rule)

    @property
    def bucket_count(self) -> int:
        """Buckets of which something is kept in memory."""
        return sum(map(len, self._leases.values()))

    async def _lease_batch(self, bucket: Bucket, rule: Rule) -> BucketState:
        share = self._lease(bucket)
        level = share.consume(self._monotonic(), rule)
        if level is not None:
            return level
        async with share.lock:
            level = share.consume(self._monotonic(), rule)  # of what another request has fetched meanwhile
            if level is None:
                level = share.store_result(
                    await self._run_script(bucket, rule, share.next_lease_size(rule)), rule, MIN_RETRY_NS
                )
        return level

    async def _take_or_peek(self, permits: int, bucket: Bucket, rule: Rule) -> LimitResult:
        """One permit, or none: then it is about what one would get."""
        known = self._leases[bucket.limit].get(bucket.holder)
        level = None if known is None else known.cached_rejection(self._monotonic(), rule)
        if level is None:
            answer = await self._run_script(bucket, rule, permits)
            level = gcra.peek(answer.ahead_ns, 0, rule)
            if answer.granted:
                level = level._replace(wait_ns=0)
            elif level.wait_ns and bucket.limit not in LEASED_CLASSES:
                level = self._lease(bucket).store_result(answer, rule)
        return self._to_result(level, rule)

    async def _run_script(self, bucket: Bucket, rule: Rule, permits: int) -> ScriptResult:
        asked_at = self._monotonic()
        key = f"{PREFIX}:{bucket.limit}:{bucket.holder}"
        granted, ahead = await self._redis.run(self._script, (key,), (rule.interval_ns, rule.burst, permits))
        return ScriptResult(int(granted), int(ahead), asked_at)

    async def _fall_back(
        self, ask: Callable[[Bucket, Rule], Awaitable[LimitResult]], bucket: Bucket, rule: Rule
    ) -> LimitResult:
        if self._unavailable_policies[bucket.limit] is UnavailablePolicy.REJECT:
            raise ServiceUnavailable("How often this was tried cannot be counted now.")
        self._local_decisions.labels(bucket.limit).inc()
        return await ask(bucket, rule)

    def _lease(self, bucket: Bucket) -> "PermitLease":
        """The one of this bucket, as the one used last; those that say nothing any more are dropped."""
        kept, now = self._leases[bucket.limit], self._monotonic()
        share = kept.setdefault(bucket.holder, PermitLease())
        kept.move_to_end(bucket.holder)
        while len(kept) > MAX_BUCKETS or (len(kept) > 1 and next(iter(kept.values())).is_idle(now)):
            kept.popitem(last=False)
        return share

    def _to_result(self, level: BucketState, rule: Rule) -> LimitResult:
        """Levels here are relative to now."""
        return limit_result(level, 0, self._clock(), rule)


class PermitLease:
    """What a process knows of one bucket, and what it holds of it. Times are of one clock, in nanoseconds."""

    __slots__ = ("_ahead_ns", "_asked_at", "_granted", "_permits", "_refused_until", "_size", "lock")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()  # of those that have to ask
        self._asked_at = 0
        self._ahead_ns = 0
        self._granted = 0
        self._permits = 0
        self._size = 1
        self._refused_until = 0

    def consume(self, now: int, rule: Rule) -> BucketState | None:
        """Pass one request by a permit that is held, or refuse it; None when it must be asked."""
        if self._permits and now < self._asked_at + LEASE_NS:
            self._permits -= 1
            return self._bucket_state(now, rule, 0)
        return self.cached_rejection(now, rule)

    def cached_rejection(self, now: int, rule: Rule) -> BucketState | None:
        """None when it must be asked."""
        return self._bucket_state(now, rule, self._refused_until - now) if now < self._refused_until else None

    def next_lease_size(self, rule: Rule) -> int:
        """How many permits to ask for: twice as many when the last ones were all of use, else as many as were."""
        if self._granted:
            spent = self._granted - self._permits
            self._size = 2 * self._size if spent == self._granted else max(1, spent)
        in_time = rule.requests * LEASE_NS // (rule.per_s * SECOND_NS)
        self._size = max(1, min(self._size, in_time, rule.burst // BURST_DIVISOR))
        return self._size

    def store_result(self, answer: ScriptResult, rule: Rule, pause_ns: int = 0) -> BucketState:
        """Keep what was granted and spend one of it, or keep the refusal, for `pause_ns` at least."""
        self._granted, self._ahead_ns, self._asked_at = answer
        self._permits = max(0, self._granted - 1)
        if self._granted:
            return self._bucket_state(self._asked_at, rule, 0)
        wait_ns = max(gcra.peek(self._ahead_ns, 0, rule).wait_ns, pause_ns)
        self._refused_until = self._asked_at + wait_ns
        return self._bucket_state(self._asked_at, rule, wait_ns)

    def is_idle(self, now: int) -> bool:
        """Whether nothing is lost with it."""
        return now >= max(self._refused_until, self._asked_at + max(LEASE_NS, self._ahead_ns))

    def _bucket_state(self, now: int, rule: Rule, wait_ns: int) -> BucketState:
        """The bucket as it would be with the permits that are held still in it, relative to `now`."""
        ahead = max(0, self._ahead_ns - (now - self._asked_at) - self._permits * rule.interval_ns)
        remaining = 0 if wait_ns else gcra.peek(ahead, 0, rule).remaining
        return BucketState(ahead, remaining, wait_ns)
