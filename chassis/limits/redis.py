"""The limiter that several processes share. It is one script in Redis, which uses Redis's clock.

A bucket in Redis is two numbers: the time of its last update (in microseconds, by the server's clock), and how long
after that time it will be full (in nanoseconds). The arithmetic is the same as in `limiter`. When Redis does not
respond in time, the process's own limiter decides, if the policy of the class allows it.

Two cases need no round trip. When a bucket has rejected a request, the process rejects further requests for the
reported wait, because no other process can fill the bucket sooner. For classes in LEASED_CLASSES, the process takes
several permits at once and uses them within LEASE_NS. So over any number of processes, at most
`burst + rate * (t + LEASE_NS)` requests pass in any period of length t, as long as Redis loses no data.
"""

import asyncio
import time
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, NamedTuple

from prometheus_client import CollectorRegistry, Counter

from chassis.errors import ServiceUnavailable
from chassis.limits import limiter
from chassis.limits.limiter import (
    MAX_BUCKETS,
    SECOND_NS,
    UNAVAILABLE_POLICIES,
    Bucket,
    BucketState,
    LimitClass,
    Limiter,
    LimitResult,
    Rule,
    UnavailablePolicy,
    limit_result,
)
from chassis.redis import Redis, RedisUnavailable, Script

LEASE_NS: Final = SECOND_NS // 10  # unused permits of a lease expire after this time
MIN_RETRY_NS: Final = SECOND_NS // 50  # a leased bucket that rejected is not requested again sooner
BURST_DIVISOR: Final = 16  # one lease takes at most this part of a burst
LEASED_CLASSES: Final = frozenset({LimitClass.OTLP})  # one round trip per request would be too expensive
PREFIX: Final = "sluice:limit"

# KEYS: the bucket. ARGV: interval (ns), burst, permits wanted (0: only peek). Returns the granted permits, and the time
# until the bucket is full. Numbers are doubles, which are exact below 2^53, so for buckets that are full within 104
# days. When the clock is set back, no permits are lost or gained, and the bucket refills from the new time.
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
    """The script's result (granted permits, and nanoseconds until the bucket is full), and the time of the request in
    nanoseconds.
    """

    granted: int
    ahead_ns: int
    requested_at: int


class RedisLimiter:
    """Counts in buckets in `redis`. `local` counts while Redis is unavailable."""

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
        """Both clocks return nanoseconds. `monotonic` is used for leases, and `clock` (since 1970) for times that are
        sent to clients.
        """
        self._redis = redis
        self._local = local
        self._unavailable_policies = unavailable_policies
        self._script = script
        self._monotonic = monotonic
        self._clock = clock
        self._leases: dict[LimitClass, OrderedDict[str, PermitLease]] = {limit: OrderedDict() for limit in LimitClass}
        self._local_decisions = Counter(
            "sluice_rate_limit_local_decisions",
            "Requests that this process counted locally because Redis was unavailable.",
            ("limit",),
            registry=registry,
        )

    async def take(self, bucket: Bucket, rule: Rule) -> LimitResult:
        """Count one request, unless it is rejected."""
        try:
            if bucket.limit in LEASED_CLASSES:
                return self._to_result(await self._lease_batch(bucket, rule), rule)
            return await self._take_or_peek(1, bucket, rule)
        except RedisUnavailable:
            return await self._fall_back(self._local.take, bucket, rule)

    async def peek(self, bucket: Bucket, rule: Rule) -> LimitResult:
        """The result that one request would get, without counting it."""
        try:
            return await self._take_or_peek(0, bucket, rule)
        except RedisUnavailable:
            return await self._fall_back(self._local.peek, bucket, rule)

    @property
    def bucket_count(self) -> int:
        """Number of buckets with data in memory."""
        return sum(map(len, self._leases.values()))

    async def _lease_batch(self, bucket: Bucket, rule: Rule) -> BucketState:
        lease = self._lease(bucket)
        state = lease.consume(self._monotonic(), rule)
        if state is not None:
            return state
        async with lease.lock:
            state = lease.consume(self._monotonic(), rule)  # another request may have fetched permits
            if state is None:
                state = lease.store_result(
                    await self._run_script(bucket, rule, lease.next_lease_size(rule)), rule, MIN_RETRY_NS
                )
        return state

    async def _take_or_peek(self, permits: int, bucket: Bucket, rule: Rule) -> LimitResult:
        """Take permits, or only peek if `permits` is 0."""
        lease = self._leases[bucket.limit].get(bucket.holder)
        state = None if lease is None else lease.cached_rejection(self._monotonic(), rule)
        if state is None:
            result = await self._run_script(bucket, rule, permits)
            state = limiter.peek(result.ahead_ns, 0, rule)
            if result.granted:
                state = state._replace(wait_ns=0)
            elif state.wait_ns and bucket.limit not in LEASED_CLASSES:
                state = self._lease(bucket).store_result(result, rule)
        return self._to_result(state, rule)

    async def _run_script(self, bucket: Bucket, rule: Rule, permits: int) -> ScriptResult:
        requested_at = self._monotonic()
        key = f"{PREFIX}:{bucket.limit}:{bucket.holder}"
        granted, ahead = await self._redis.run(self._script, (key,), (rule.interval_ns, rule.burst, permits))
        return ScriptResult(int(granted), int(ahead), requested_at)

    async def _fall_back(
        self, local_call: Callable[[Bucket, Rule], Awaitable[LimitResult]], bucket: Bucket, rule: Rule
    ) -> LimitResult:
        if self._unavailable_policies[bucket.limit] is UnavailablePolicy.REJECT:
            raise ServiceUnavailable("Rate limiting is temporarily unavailable.")
        self._local_decisions.labels(bucket.limit).inc()
        return await local_call(bucket, rule)

    def _lease(self, bucket: Bucket) -> "PermitLease":
        """The lease of the bucket, marked as most recently used. Drops idle leases, and the oldest lease beyond
        MAX_BUCKETS.
        """
        leases, now = self._leases[bucket.limit], self._monotonic()
        lease = leases.setdefault(bucket.holder, PermitLease())
        leases.move_to_end(bucket.holder)
        while len(leases) > MAX_BUCKETS or (len(leases) > 1 and next(iter(leases.values())).is_idle(now)):
            leases.popitem(last=False)
        return lease

    def _to_result(self, state: BucketState, rule: Rule) -> LimitResult:
        """The result for clients. Bucket states in this module are relative to now."""
        return limit_result(state, 0, self._clock(), rule)


class PermitLease:
    """The last known state of one bucket, and the leased permits. All times are nanoseconds of the same clock."""

    __slots__ = ("_ahead_ns", "_granted", "_permits", "_refused_until", "_requested_at", "_size", "lock")

    def __init__(self) -> None:
        self.lock = asyncio.Lock()  # held while fetching permits from Redis
        self._requested_at = 0
        self._ahead_ns = 0
        self._granted = 0
        self._permits = 0
        self._size = 1
        self._refused_until = 0

    def consume(self, now: int, rule: Rule) -> BucketState | None:
        """Pass one request with a leased permit, or reject it. None when Redis must decide."""
        if self._permits and now < self._requested_at + LEASE_NS:
            self._permits -= 1
            return self._bucket_state(now, rule, 0)
        return self.cached_rejection(now, rule)

    def cached_rejection(self, now: int, rule: Rule) -> BucketState | None:
        """The rejection that is still valid, or None."""
        return self._bucket_state(now, rule, self._refused_until - now) if now < self._refused_until else None

    def next_lease_size(self, rule: Rule) -> int:
        """The number of permits to request: twice the last number if all were used, otherwise the number of used
        ones.
        """
        if self._granted:
            used = self._granted - self._permits
            self._size = 2 * self._size if used == self._granted else max(1, used)
        max_usable = rule.requests * LEASE_NS // (rule.per_s * SECOND_NS)
        self._size = max(1, min(self._size, max_usable, rule.burst // BURST_DIVISOR))
        return self._size

    def store_result(self, result: ScriptResult, rule: Rule, min_wait_ns: int = 0) -> BucketState:
        """Store the granted permits and use one of them, or store the rejection for at least `min_wait_ns`."""
        self._granted, self._ahead_ns, self._requested_at = result
        self._permits = max(0, self._granted - 1)
        if self._granted:
            return self._bucket_state(self._requested_at, rule, 0)
        wait_ns = max(limiter.peek(self._ahead_ns, 0, rule).wait_ns, min_wait_ns)
        self._refused_until = self._requested_at + wait_ns
        return self._bucket_state(self._requested_at, rule, wait_ns)

    def is_idle(self, now: int) -> bool:
        """Whether the lease contains no information and can be dropped."""
        return now >= max(self._refused_until, self._requested_at + max(LEASE_NS, self._ahead_ns))

    def _bucket_state(self, now: int, rule: Rule, wait_ns: int) -> BucketState:
        """The bucket's state relative to `now`, as if the leased permits were still in it."""
        ahead = max(0, self._ahead_ns - (now - self._requested_at) - self._permits * rule.interval_ns)
        remaining = 0 if wait_ns else limiter.peek(ahead, 0, rule).remaining
        return BucketState(ahead, remaining, wait_ns)
