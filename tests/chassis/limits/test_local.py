"""The limiter inside the process: what it tells, and how much it keeps."""

from dataclasses import dataclass

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chassis.limits.limiter import SECOND_NS, Bucket, LimitClass, LimitResult, LocalLimiter, Rule

EPOCH = 1_800_000_000
RULE = Rule(60, 60, 3)  # one a second
MINE = Bucket(LimitClass.API, "mine")


@dataclass
class Time:
    """Both clocks of a limiter; they stand still until a test moves them, together or the wall clock alone."""

    ns: int = 0
    turned_ns: int = 0

    def monotonic(self) -> int:
        return self.ns

    def wall(self) -> int:
        return EPOCH * SECOND_NS + self.ns + self.turned_ns


@pytest.fixture
def time() -> Time:
    return Time()


@pytest.fixture
def limiter(time: Time) -> LocalLimiter:
    return LocalLimiter(4, monotonic=time.monotonic, clock=time.wall)


async def test_a_verdict_tells_burst_rest_and_when_it_is_full(limiter: LocalLimiter, time: Time) -> None:
    assert await limiter.peek(MINE, RULE) == LimitResult(3, 3, EPOCH, 0)
    assert await limiter.take(MINE, RULE) == LimitResult(3, 2, EPOCH + 1, 0)
    time.ns = SECOND_NS // 2
    assert await limiter.take(MINE, RULE) == LimitResult(3, 1, EPOCH + 2, 0)
    assert await limiter.take(MINE, RULE) == LimitResult(3, 0, EPOCH + 3, 0)
    assert (
        await limiter.peek(MINE, RULE) == await limiter.take(MINE, RULE) == LimitResult(3, 0, EPOCH + 3, SECOND_NS // 2)
    )
    time.ns = SECOND_NS
    assert await limiter.take(MINE, RULE) == LimitResult(3, 0, EPOCH + 4, 0)


@pytest.mark.parametrize("turned_s", [-86_400, 86_400])
async def test_a_turned_clock_neither_locks_out_nor_lets_in(limiter: LocalLimiter, time: Time, turned_s: int) -> None:
    for _ in range(3):
        await limiter.take(MINE, RULE)
    time.turned_ns = turned_s * SECOND_NS
    assert await limiter.take(MINE, RULE) == LimitResult(3, 0, EPOCH + turned_s + 3, SECOND_NS)


@given(st.lists(st.integers(0, 3 * SECOND_NS), max_size=40))
async def test_what_a_verdict_promises_holds(waits: list[int]) -> None:
    """At `reset` the bucket is full; after `retry_after`, and a second before not, a request passes."""
    time = Time()
    limiter = LocalLimiter(monotonic=time.monotonic, clock=time.wall)
    for wait in waits:
        time.ns += wait
        verdict = await limiter.take(MINE, RULE)
        left = (verdict.reset - EPOCH) * SECOND_NS - time.ns  # until `reset`
        later = Time(time.ns + left)
        again = LocalLimiter(monotonic=later.monotonic, clock=later.wall)
        again._full_at = limiter._full_at
        assert (await again.peek(MINE, RULE)).remaining == verdict.limit == RULE.burst
        assert (verdict.remaining == 0) or verdict.retry_after == 0
        later.ns = time.ns + verdict.retry_after * SECOND_NS
        if verdict.retry_after:
            assert (await again.peek(MINE, RULE)).retry_after == 0
            later.ns -= SECOND_NS
            assert (await again.peek(MINE, RULE)).retry_after > 0


async def test_buckets_are_apart_by_class_and_holder(limiter: LocalLimiter) -> None:
    for _ in range(3):
        assert not (await limiter.take(MINE, RULE)).retry_after
    assert (await limiter.take(MINE, RULE)).retry_after
    for other in (Bucket(LimitClass.ANALYSIS, "mine"), Bucket(LimitClass.API, "yours")):
        assert (await limiter.take(other, RULE)).remaining == 2


async def test_a_stranger_cannot_grow_its_memory_nor_push_out_others(limiter: LocalLimiter) -> None:
    for _ in range(3):
        await limiter.take(MINE, RULE)
    for address in range(1_000):
        await limiter.take(Bucket(LimitClass.FAILED_BEARER, str(address)), RULE)
    assert limiter.bucket_count == 4 + 1
    assert (await limiter.take(MINE, RULE)).retry_after


async def test_looking_keeps_nothing(limiter: LocalLimiter) -> None:
    for address in range(10):
        await limiter.peek(Bucket(LimitClass.FAILED_BEARER, str(address)), RULE)
    assert limiter.bucket_count == 0


async def test_over_the_bound_the_bucket_longest_unused_goes(limiter: LocalLimiter) -> None:
    for holder in "abcd":
        await limiter.take(Bucket(LimitClass.API, holder), RULE)
    await limiter.take(Bucket(LimitClass.API, "a"), RULE)
    await limiter.take(Bucket(LimitClass.API, "e"), RULE)
    left = [(await limiter.peek(Bucket(LimitClass.API, holder), RULE)).remaining for holder in "abcde"]
    assert left == [1, 3, 2, 2, 2]


async def test_full_buckets_are_dropped(limiter: LocalLimiter, time: Time) -> None:
    for holder in "abc":
        await limiter.take(Bucket(LimitClass.API, holder), RULE)
    time.ns = SECOND_NS
    await limiter.take(MINE, RULE)
    assert limiter.bucket_count == 1
