"""What the ratios of pairs say, head to base, and what follows from it. Pure.

The median of the ratios is judged with its 99 % interval: between the k-th smallest ratio and the k-th largest, where
k is what the sign test gives for so many pairs, whatever the distribution of the noise is.

    worse         the median is above `WORSE`, and the whole interval above 1
    fine          the interval ends below `WORSE`; or the median does, and the interval is no wider than `NARROW`
    cannot tell   neither: more pairs are wanted, until there are as many as there may be
"""

from collections.abc import Collection, Mapping, Sequence
from enum import Enum
from math import comb
from statistics import median
from typing import Final, NamedTuple

WORSE: Final = 1.05
NARROW: Final = 0.10  # from one end of the interval to the other
FEWEST: Final = 8  # pairs: with fewer there is no interval
_OUTSIDE: Final = 0.005  # probability of each side


class Verdict(Enum):
    """Of one figure."""

    FINE = "fine"
    WORSE = "worse"
    UNTOLD = "cannot tell"


class Judged(NamedTuple):
    """The ratio of one figure: its median, the interval that it is in, and what that says."""

    ratio: float
    lower: float
    upper: float
    pairs: int
    verdict: Verdict


def judged(ratios: Sequence[float]) -> Judged:
    """Of at least `FEWEST` pairs."""
    ordered, middle = sorted(ratios), median(ratios)
    place = _place(len(ordered))
    lower, upper = ordered[place - 1], ordered[-place]
    if middle > WORSE and lower > 1:
        verdict = Verdict.WORSE
    elif upper < WORSE or (middle <= WORSE and upper - lower <= NARROW):
        verdict = Verdict.FINE
    else:
        verdict = Verdict.UNTOLD
    return Judged(middle, lower, upper, len(ordered), verdict)


def _place(pairs: int) -> int:
    """The k of the interval."""
    if pairs < FEWEST:
        raise ValueError(f"{pairs} pairs are too few: {FEWEST}")
    outside, place = 0.0, 0
    while outside + comb(pairs, place) / 2**pairs <= _OUTSIDE:
        outside += comb(pairs, place) / 2**pairs
        place += 1
    return place


class Outcome(NamedTuple):
    """The figures that are worse, with no page for it; those that a page allows; and those that cannot be told."""

    refused: Sequence[str]
    allowed: Sequence[str]
    untold: Sequence[str]

    @property
    def exit_code(self) -> int:
        """1: something is worse; 2: nothing is, as far as it can be told."""
        return 1 if self.refused else 2 if self.untold else 0


def outcome(verdicts: Mapping[str, Verdict], added: Collection[str]) -> Outcome:
    """What becomes of verdicts; `added` are the figures that new lines of docs/adr name: they may be worse."""
    worse = [figure for figure, verdict in verdicts.items() if verdict is Verdict.WORSE]
    untold = [figure for figure, verdict in verdicts.items() if verdict is Verdict.UNTOLD]
    return Outcome(
        [figure for figure in worse if figure not in added],
        [figure for figure in (*worse, *untold) if figure in added],
        [figure for figure in untold if figure not in added],
    )
