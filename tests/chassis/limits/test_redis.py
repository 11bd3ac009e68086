"""The limiter in Redis: it agrees with the one inside the process, is shared, and goes on without its server."""

import asyncio
from fractions import Fraction
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry

from chassis.errors import ServiceUnavailable
from chassis.limits import redis as shared
from chassis.limits.limiter import (
    SECOND_NS,
    UNAVAILABLE_POLICIES,
    Bucket,
    LimitClass,
    LimitResult,
    LocalLimiter,
    Rule,
    UnavailablePolicy,
)
from chassis.limits.redis import LEASE_NS, TAKE_SCRIPT, RedisLimiter
from chassis.redis import Redis, Script, open_redis
from tests.chassis.conftest import Connect, until
from tests.chassis.limits.test_local import EPOCH, Time
from tests.redis_server import RedisServer, slow

MICROSECOND = 1_000
# The same script by a clock that tests turn: microseconds in a key.
TURNED = Script(
    TAKE_SCRIPT.text.replace(
        "redis.call('TIME')", "{math.floor(redis.call('GET', 'now') / 1000000), redis.call('GET', 'now') % 1000000}"
    )
)
RULE = Rule(60, 60, 3)  # one a second
FAST = Rule(5_000, 1, 10_000)
MINE = Bucket(LimitClass.API, "mine")
MY_KEY = Bucket(LimitClass.OTLP, "key_mine")


class Counting:
    """Redis, and how often it was asked."""

    def __init__(self, redis: Redis) -> None:
        self._redis = redis
        self.asked = 0

    async def run(self, *what: Any) -> Any:
        self.asked += 1
        return await self._redis.run(*what)


def process(redis: Any, time: Time, registry: CollectorRegistry | None = None, **options: Any) -> RedisLimiter:
    """The limiter of one process."""
    local = LocalLimiter(monotonic=time.monotonic, clock=time.wall)
    return RedisLimiter(redis, local, registry, monotonic=time.monotonic, clock=time.wall, **options)


RULES = st.builds(Rule, st.integers(1, 10_000), st.sampled_from([1, 60, 3_600]), st.integers(1, 12))
STEPS = st.lists(
    st.tuples(st.fractions(0, 3, max_denominator=4) | st.just(Fraction(0)), st.sampled_from(["take", "peek"])),
    max_size=25,
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(RULES, STEPS)
def test_it_agrees_with_the_limiter_inside_a_process(
    redis_of_the_session: RedisServer, rule: Rule, steps: list[tuple[Fraction, str]]
) -> None:
    """Two processes in turn, one of which has a memory of its own refusals alone."""

    async def compare() -> None:
        redis = open_redis(redis_of_the_session.url, 10.0)
        await redis.start()
        time = Time()
        local = LocalLimiter(monotonic=time.monotonic, clock=time.wall)
        processes = [process(redis, time, script=TURNED) for _ in range(2)]
        for number, (wait, ask) in enumerate(steps):
            time.ns += int(wait * rule.interval_ns) // MICROSECOND * MICROSECOND
            redis_of_the_session.ask("SET", "now", (EPOCH * SECOND_NS + time.ns) // MICROSECOND)
            expected = await getattr(local, ask)(MINE, rule)
            assert await getattr(processes[number % 2], ask)(MINE, rule) == expected
        await redis.close()

    redis_of_the_session.flush()
    asyncio.run(compare())


async def test_it_counts_by_the_clock_of_the_server(connect: Connect, redis_server: RedisServer) -> None:
    """The script itself, with the time that Redis has."""
    limiter = process(await connect(redis_server.url), Time())
    rule = Rule(1, 3_600, 2)
    assert [(await limiter.take(MINE, rule)).remaining for _ in range(2)] == [1, 0]
    refused = await limiter.take(MINE, rule)
    assert (refused.remaining, 3_590 <= refused.retry_after <= 3_600) == (0, True)
    (key,) = redis_server.ask("KEYS", "sluice:limit:*")
    assert key == "sluice:limit:api:mine"
    assert 7_190_000 <= redis_server.ask("PTTL", key) <= 7_201_000, "forgotten when it is full again"


@pytest.mark.parametrize("turned_us", [-86_400_000_000, 86_400_000_000], ids=["back", "ahead"])
async def test_a_server_whose_clock_is_turned_locks_nobody_out(
    turned_us: int, connect: Connect, redis_server: RedisServer
) -> None:
    redis, time = await connect(redis_server.url), Time()
    start = EPOCH * 10**6
    redis_server.ask("SET", "now", start)
    limiter = process(redis, time, script=TURNED)
    assert [(await limiter.take(MINE, RULE)).retry_after for _ in range(4)] == [0, 0, 0, 1]
    time.ns = SECOND_NS
    redis_server.ask("SET", "now", start + turned_us)
    assert (await limiter.take(MINE, RULE)).retry_after == (1 if turned_us < 0 else 0)
    time.ns += SECOND_NS
    redis_server.ask("SET", "now", start + turned_us + 10**6)
    assert (await limiter.take(MINE, RULE)).retry_after == 0


async def test_buckets_are_shared_and_apart_by_class_and_holder(connect: Connect, redis_server: RedisServer) -> None:
    redis_server.ask("SET", "now", EPOCH * 10**6)
    first, second = [process(await connect(redis_server.url), Time(), script=TURNED) for _ in range(2)]
    assert [(await one.take(MINE, RULE)).remaining for one in (first, second, first)] == [2, 1, 0]
    assert (await second.take(MINE, RULE)).retry_after == 1
    assert (await second.peek(MINE, RULE)).retry_after == 1
    for other in (Bucket(LimitClass.ANALYSIS, "mine"), Bucket(LimitClass.API, "yours")):
        assert (await second.take(other, RULE)).remaining == 2


async def test_of_many_at_once_as_many_pass_as_the_rule_says(connect: Connect, redis_server: RedisServer) -> None:
    rule = Rule(1, 3_600, 10)
    limiters = [process(await connect(redis_server.url, 10.0), Time()) for _ in range(3)]
    verdicts = await asyncio.gather(*(limiters[n % 3].take(MINE, rule) for n in range(50)))
    assert sum(not verdict.retry_after for verdict in verdicts) == 10


async def test_who_was_refused_is_refused_from_memory_until_then(connect: Connect, redis_server: RedisServer) -> None:
    redis, time = Counting(await connect(redis_server.url)), Time()
    redis_server.ask("SET", "now", EPOCH * 10**6)
    limiter = process(redis, time, script=TURNED)
    for _ in range(3):
        await limiter.take(MINE, RULE)
    for _ in range(100):
        assert await limiter.take(MINE, RULE) == LimitResult(3, 0, EPOCH + 3, SECOND_NS)
        assert await limiter.peek(MINE, RULE) == LimitResult(3, 0, EPOCH + 3, SECOND_NS)
    assert redis.asked == 4
    time.ns = SECOND_NS - 1
    assert (await limiter.take(MINE, RULE)).retry_after == 1
    time.ns = SECOND_NS
    redis_server.ask("SET", "now", (EPOCH + 1) * 10**6)
    assert (await limiter.take(MINE, RULE)).retry_after == 0


async def test_what_it_remembers_is_bounded(
    connect: Connect, redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(shared, "MAX_BUCKETS", 5)
    time = Time()
    limiter = process(await connect(redis_server.url), time)
    rule = Rule(1, 60, 1)
    for address in range(20):
        for _ in range(2):
            await limiter.take(Bucket(LimitClass.FAILED_KEY, str(address)), rule)
        await limiter.take(Bucket(LimitClass.OTLP, str(address)), FAST)
    assert limiter.bucket_count == 2 * 5
    time.ns = 10 * 60 * SECOND_NS
    await limiter.take(Bucket(LimitClass.OTLP, "20"), FAST)
    assert limiter.bucket_count == 5 + 1, "what says nothing any more is dropped"


async def test_permits_are_taken_in_bulk_as_they_are_used(connect: Connect, redis_server: RedisServer) -> None:
    redis, time = Counting(await connect(redis_server.url)), Time()
    redis_server.ask("SET", "now", EPOCH * 10**6)
    limiter = process(redis, time, script=TURNED)
    for _ in range(1_023):
        assert not (await limiter.take(MY_KEY, FAST)).retry_after
    assert redis.asked == 11, "1, 2, 4, ... up to what comes back in a tenth of a second"
    time.ns = LEASE_NS
    for _ in range(40):
        for _ in range(3):
            assert not (await limiter.take(MY_KEY, FAST)).retry_after
        time.ns += LEASE_NS
        redis_server.ask("INCRBY", "now", LEASE_NS // MICROSECOND)
    spent = 1_023 + 40 * 3
    left = (await process(redis, time, script=TURNED).peek(MY_KEY, FAST)).remaining
    assert left >= min(10_000, 10_000 - spent + 41 * 500) - 8, "one that needs few takes few"


async def test_what_is_told_counts_what_the_process_holds_as_still_there(
    connect: Connect, redis_server: RedisServer
) -> None:
    redis_server.ask("SET", "now", EPOCH * 10**6)
    limiter = process(await connect(redis_server.url), Time(), script=TURNED)
    rule = Rule(100, 1, 1_000)
    verdicts = [await limiter.take(MY_KEY, rule) for _ in range(8)]
    assert [verdict.remaining for verdict in verdicts] == [999, 998, 997, 996, 995, 994, 993, 992]
    assert {verdict.limit for verdict in verdicts} == {1_000}
    assert {verdict.reset for verdict in verdicts} == {EPOCH + 1}


BURSTS = st.lists(
    st.tuples(st.integers(0, 3), st.integers(0, 60), st.integers(0, 150_000)), min_size=1, max_size=25
)  # process, requests, microseconds until the next


@settings(max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.builds(Rule, st.integers(10, 300), st.just(1), st.integers(1, 100)), BURSTS)
def test_all_processes_together_keep_to_the_rule_and_its_bound(
    redis_of_the_session: RedisServer, rule: Rule, bursts: list[tuple[int, int, int]]
) -> None:
    """In any stretch of t at most `burst + rate * (t + HOLD)` requests pass."""
    passed: list[int] = []

    async def run() -> None:
        redis = open_redis(redis_of_the_session.url, 10.0)
        await redis.start()
        time = Time()
        processes = [process(redis, time, script=TURNED) for _ in range(4)]
        for number, requests, wait_us in bursts:
            redis_of_the_session.ask("SET", "now", (EPOCH * SECOND_NS + time.ns) // MICROSECOND)
            for _ in range(requests):
                if not (await processes[number].take(MY_KEY, rule)).retry_after:
                    passed.append(time.ns)
            time.ns += wait_us * MICROSECOND
        await redis.close()

    redis_of_the_session.flush()
    asyncio.run(run())
    for first, start in enumerate(passed):
        for last, end in enumerate(passed[first:], first):
            in_time = Fraction((end - start + LEASE_NS) * rule.requests, SECOND_NS)
            assert last - first + 1 <= rule.burst + in_time


async def test_a_flood_of_one_key_asks_seldom_and_gets_its_whole_rate(
    connect: Connect, redis_server: RedisServer
) -> None:
    """Fault 23, as far as it is the limiter's: the noisy key gets its rate and the others all they ask for."""
    redis, time = Counting(await connect(redis_server.url)), Time()
    rule = Rule(1_000, 1, 1_000)
    limiter = process(redis, time, script=TURNED)
    noisy = quiet = 0
    for millisecond in range(1_500):
        time.ns = millisecond * SECOND_NS // 1_000
        if millisecond % 20 == 0:
            redis_server.ask("SET", "now", (EPOCH * SECOND_NS + time.ns) // MICROSECOND)
        for _ in range(50):
            noisy += not (await limiter.take(MY_KEY, rule)).retry_after
        if millisecond % 100 == 0:
            quiet += not (await limiter.take(Bucket(LimitClass.OTLP, "key_quiet"), rule)).retry_after
    assert quiet == 15
    assert 1_000 + 0.9 * 1_500 <= noisy <= 1_000 + 1_600
    assert redis.asked <= 15 + 300, "of 75 015 requests"


async def test_without_redis_each_process_counts_for_itself_and_says_so(
    connect: Connect, own_redis: RedisServer
) -> None:
    registry, time = CollectorRegistry(), Time()
    redis = await connect(own_redis.url)
    limiter, other = process(redis, time, registry), process(redis, time)
    await limiter.take(MINE, RULE)
    own_redis.stop()
    verdicts = [await limiter.take(MINE, RULE) for _ in range(5)]
    assert [verdict.retry_after for verdict in verdicts] == [0, 0, 0, 1, 1]
    assert (await limiter.peek(MINE, RULE)).retry_after == 1
    assert (await other.take(MINE, RULE)).remaining == 2
    assert (await limiter.take(MY_KEY, FAST)).limit == FAST.burst
    counted = {limit: registry.get_sample_value("sluice_rate_limit_local_decisions_total", {"limit": limit}) or 0.0
               for limit in ("api", "otlp")}  # fmt: skip
    assert counted == {"api": 6.0, "otlp": 1.0}
    own_redis.start()
    await until(lambda: redis.is_up)
    assert (await limiter.take(MINE, RULE)).remaining == 2, "it has forgotten, and counts again"
    assert own_redis.ask("KEYS", "sluice:limit:*") == ["sluice:limit:api:mine"]


async def test_one_that_forgets_gives_a_new_burst_and_nothing_else(connect: Connect, redis_server: RedisServer) -> None:
    time = Time()
    limiter = process(await connect(redis_server.url), time)
    rule = Rule(1, 3_600, 2)
    assert [(await limiter.take(MINE, rule)).retry_after for _ in range(2)] == [0, 0]
    redis_server.flush()
    assert [bool((await limiter.take(MINE, rule)).retry_after) for _ in range(3)] == [False, False, True]


async def test_one_that_is_slow_holds_nobody_up(connect: Connect, own_redis: RedisServer) -> None:
    """What a late answer costs, it costs the requests that find out about it: once, and as long as the setting says."""
    async with slow(own_redis) as way:
        redis = await connect(own_redis.url_at(way.port), 0.2)
        limiter = process(redis, Time())
        await limiter.take(MINE, RULE)
        way.delay_s = 0.5
        async with asyncio.timeout(10):
            verdicts = await asyncio.gather(*(limiter.take(MY_KEY, FAST) for _ in range(1_000)))
        assert [verdict.retry_after for verdict in verdicts] == [0] * 1_000
        assert not redis.is_up


async def test_a_class_may_rather_refuse_than_count_alone(connect: Connect, own_redis: RedisServer) -> None:
    closed = {**UNAVAILABLE_POLICIES, LimitClass.FAILED_BEARER: UnavailablePolicy.REJECT}
    limiter = process(await connect(own_redis.url), Time(), unavailable_policies=closed)
    bucket = Bucket(LimitClass.FAILED_BEARER, "203.0.113.5")
    assert (await limiter.take(bucket, RULE)).remaining == 2
    own_redis.stop()
    for ask in (limiter.take, limiter.peek, limiter.take):
        with pytest.raises(ServiceUnavailable):
            await ask(bucket, RULE)
    assert (await limiter.take(MINE, RULE)).remaining == 2


def test_every_class_says_what_holds_without_redis() -> None:
    assert set(UNAVAILABLE_POLICIES) == set(LimitClass)
