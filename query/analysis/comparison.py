"""What is compared, and what is found of it: values that the reads of a comparison share."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from query.read_store import ReadStore
from query.statements import Cohort

_IDENTIFIER_RATIO: Final = 0.9  # distinct values by occurrences, beyond which a key is an identifier's
_MIN_OCCURRENCES: Final = 20  # occurrences, below which that cannot be told


class PairCounts(NamedTuple):
    """A pair as a filter writes it, and how many spans of either cohort have it."""

    key: str
    value: str
    spike: int
    baseline: int


@dataclass(frozen=True, slots=True)
class ComparedPairs:
    """Pairs that enough spans of the spike have. `identifiers`: keys left out. `cut`: a bound left out others."""

    pairs: tuple[PairCounts, ...] = ()
    identifiers: frozenset[str] = frozenset()
    truncated: bool = False

    def __add__(self, other: "ComparedPairs") -> "ComparedPairs":
        return ComparedPairs(
            self.pairs + other.pairs, self.identifiers | other.identifiers, self.truncated or other.truncated
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is compared: two cohorts of a project, by what at least `least` of the spike's `spans` have. `others`: the
    baseline's spans. `known`: the attributes of conditions that are worth looking for.
    """

    store: ReadStore
    project_id: int
    spike: Cohort
    baseline: Cohort
    spike_spans: int
    baseline_spans: int
    min_spans: int
    now_ns: int
    existing_attributes: frozenset[str] | None = None


class CandidatePair(NamedTuple):
    """A pair of the spike that is to be counted in the baseline."""

    key: str
    value: str
    pair_hash: int
    spans: int


def is_identifier(occurrences: int, distinct: int) -> bool:
    """Whether a key tells spans apart rather than what they have in common."""
    return occurrences >= _MIN_OCCURRENCES and distinct > _IDENTIFIER_RATIO * occurrences
