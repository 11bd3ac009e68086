"""The generic cell rate algorithm: a bucket is one number, the time at which it will be full again.

    full_at   never earlier than now; each request moves it one interval on
    allowed   as long as that leaves it at most `burst` intervals ahead of now

So at most `burst + t / interval` requests pass in any stretch of t. Times are integer nanoseconds of one clock.
Source: ITU-T I.371, the virtual scheduling algorithm.
"""

from dataclasses import dataclass
from typing import Final, NamedTuple

SECOND_NS: Final = 10**9


@dataclass(frozen=True, slots=True)
class Rule:
    """`requests` in `per_s` seconds in the long run, `burst` at once; all at least 1."""

    requests: int
    per_s: int
    burst: int

    @property
    def interval_ns(self) -> int:
        """Time in which one request comes back; rounded up, so that never more pass than the rule says."""
        return -(-self.per_s * SECOND_NS // self.requests)


class BucketState(NamedTuple):
    """A bucket after a question: `full_at` to be kept, requests that are left, time until one would pass (0: now)."""

    full_at: int
    remaining: int
    wait_ns: int


def peek(full_at: int, now: int, rule: Rule) -> BucketState:
    """How the bucket stands; a wait of 0 says that one more request would pass."""
    interval = rule.interval_ns
    full_at = max(full_at, now)
    spare = now + rule.burst * interval - full_at
    return BucketState(full_at, max(0, spare // interval), max(0, interval - spare))


def take(full_at: int, now: int, rule: Rule) -> BucketState:
    """One request: it passed when the wait is 0. A refused one costs nothing."""
    level = peek(full_at, now, rule)
    if level.wait_ns:
        return level
    return BucketState(level.full_at + rule.interval_ns, level.remaining - 1, 0)
