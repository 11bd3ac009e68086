"""Values that the reads of a comparison share: its cohorts, and the pairs found."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from query.read_store import ReadStore
from query.statements import Cohort

_IDENTIFIER_RATIO: Final = 0.9  # distinct values per occurrence above which a key is an identifier
_MIN_OCCURRENCES: Final = 20  # occurrences below which that cannot be determined


class PairCounts(NamedTuple):
    """A pair as a filter writes it, and the number of spans of each cohort that have it."""

    key: str
    value: str
    spike: int
    baseline: int


@dataclass(frozen=True, slots=True)
class ComparedPairs:
    """Pairs that enough spans of the spike have. `identifiers`: keys left out. `truncated`: a limit left out others."""

    pairs: tuple[PairCounts, ...] = ()
    identifiers: frozenset[str] = frozenset()
    truncated: bool = False

    def __add__(self, other: "ComparedPairs") -> "ComparedPairs":
        return ComparedPairs(
            self.pairs + other.pairs, self.identifiers | other.identifiers, self.truncated or other.truncated
        )


@dataclass(frozen=True, slots=True)
class Comparison:
    """Two cohorts of a project, compared by the values that at least `min_spans` of the spike's `spike_spans` spans
    have. `baseline_spans`: the spans of the baseline. `existing_attributes`: the attributes of conditions that may
    exist.
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
    """Whether a key identifies single spans rather than a common property of them."""
    return occurrences >= _MIN_OCCURRENCES and distinct > _IDENTIFIER_RATIO * occurrences
