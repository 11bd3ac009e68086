"""The generic cell rate algorithm: a bucket is one number, the time at which it will be full again.

    full_at   never earlier than now; each request adds one interval
    allowed   while that leaves it at most `burst` intervals ahead of now

So at most `burst + t / interval` requests pass in any period of length t. Times are integer nanoseconds of one clock.
Source: ITU-T I.371, the virtual scheduling algorithm.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

SECOND_NS: Final = 10**9


@dataclass(frozen=True, slots=True)
class Rule:
    """`requests` per `per_s` seconds on average, `burst` at once; all at least 1."""

    requests: int
    per_s: int
    burst: int

    @property
    def interval_ns(self) -> int:
        """Time in which one permit is restored, in nanoseconds; rounded up, so that never more pass than allowed."""
        return -(-self.per_s * SECOND_NS // self.requests)


class BucketState(NamedTuple):
    """A bucket after a check: `full_at` to store, remaining requests, nanoseconds until one would pass (0: now)."""

    full_at: int
    remaining: int
    wait_ns: int


def peek(full_at: int, now: int, rule: Rule) -> BucketState:
    """The state of the bucket; `wait_ns` 0 means that one more request would pass."""
    interval = rule.interval_ns
    full_at = max(full_at, now)
    spare = now + rule.burst * interval - full_at
    return BucketState(full_at, max(0, spare // interval), max(0, interval - spare))


def take(full_at: int, now: int, rule: Rule) -> BucketState:
    """Count one request: it passes if `wait_ns` is 0. A rejected request costs nothing."""
    state = peek(full_at, now, rule)
    if state.wait_ns:
        return state
    return BucketState(state.full_at + rule.interval_ns, state.remaining - 1, 0)
