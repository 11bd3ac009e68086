"""How many issues a project may get, and how many of them are announced: token buckets in storage time, so that reading
the same occurrences again decides the same.
"""

from dataclasses import dataclass
from typing import Final

_US: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class Rate:
    """At most `burst` at once, and `per_minute` from then on."""

    burst: int
    per_minute: float


NEW_ISSUES: Final = Rate(1_000, 100.0)
ANNOUNCEMENTS: Final = Rate(20, 2.0)


def refill(permits: float, rate: Rate, elapsed_us: int) -> float:
    """The permits after a time; a clock that went back adds none."""
    return min(float(rate.burst), permits + max(0, elapsed_us) / _US * rate.per_minute / 60)
