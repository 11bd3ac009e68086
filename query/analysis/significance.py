"""The statistics of a comparison (docs/explore.md, "Comparisons"). Pure: computed from counts alone.

S and B are the spans of spike and baseline, s and b those of them that have a value.
"""

from dataclasses import dataclass
from math import ceil, inf, sqrt
from typing import Final

MIN_Z: Final = 4.0  # thousands of values are tested, so chance must be far less likely than in a single test
MIN_SPIKE_COUNT: Final = 5  # spans of the spike below which a share is meaningless
_MIN_SPIKE_COUNT_DIVISOR: Final = 100  # the default minimum is one in 100 spans of the spike


@dataclass(frozen=True, slots=True)
class Totals:
    """S and B; neither is 0."""

    spike: int
    baseline: int


@dataclass(frozen=True, slots=True)
class Score:
    """The statistics of one value; `lift` is None if the baseline lacks it."""

    spike_share: float
    baseline_share: float
    expected: float
    surplus: float
    lift: float | None
    contribution: float
    z: float

    @property
    def rank(self) -> tuple[float, float]:
        """Sort key, the most over-represented first."""
        return (-self.contribution, -inf if self.lift is None else -self.lift)


def default_min_spike_count(spike: int) -> int:
    """The minimum number of spike spans with a value: one in a hundred, at least 5."""
    return max(MIN_SPIKE_COUNT, ceil(spike / _MIN_SPIKE_COUNT_DIVISOR))


def score(totals: Totals, spike: int, baseline: int) -> Score:
    """The statistics of a value that `spike` and `baseline` spans have."""
    spike_share, baseline_share = spike / totals.spike, baseline / totals.baseline
    expected = totals.spike * baseline / totals.baseline
    surplus = spike - expected
    return Score(
        spike_share=spike_share,
        baseline_share=baseline_share,
        expected=expected,
        surplus=surplus,
        lift=spike_share / baseline_share if baseline else None,
        contribution=surplus / totals.spike,
        z=_z(totals, spike, baseline),
    )


def _z(totals: Totals, spike: int, baseline: int) -> float:
    """The distance of the shares in standard deviations (two-proportion z-test with the pooled share)."""
    pooled = (spike + baseline) / (totals.spike + totals.baseline)
    variance = pooled * (1 - pooled) * (1 / totals.spike + 1 / totals.baseline)
    # 0 if every span has the value, or none has
    return (spike / totals.spike - baseline / totals.baseline) / sqrt(variance) if variance > 0 else 0.0
