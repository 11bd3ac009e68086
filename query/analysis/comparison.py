"""What is compared, and what is found of it: values that the reads of a comparison share."""

from dataclasses import dataclass
from typing import Final, NamedTuple

from query.store import Store
from query.tree import Cohort

_UNIQUE: Final = 0.9  # distinct values by occurrences, beyond which a key is an identifier's
_FEW: Final = 20  # occurrences, below which that cannot be told


class Counted(NamedTuple):
    """A pair as a filter writes it, and how many spans of either cohort have it."""

    key: str
    value: str
    spike: int
    baseline: int


@dataclass(frozen=True, slots=True)
class Found:
    """Pairs that enough spans of the spike have. `identifiers`: keys left out. `cut`: a bound left out others."""

    pairs: tuple[Counted, ...] = ()
    identifiers: frozenset[str] = frozenset()
    cut: bool = False

    def __add__(self, other: "Found") -> "Found":
        return Found(self.pairs + other.pairs, self.identifiers | other.identifiers, self.cut or other.cut)


@dataclass(frozen=True, slots=True)
class Comparison:
    """What is compared: two cohorts of a project, by what at least `least` of the spike's `spans` have. `others`: the
    baseline's spans. `known`: the attributes of conditions that are worth looking for.
    """

    store: Store
    project_id: int
    spike: Cohort
    baseline: Cohort
    spans: int
    others: int
    least: int
    now_ns: int
    known: frozenset[str] | None = None


class Candidate(NamedTuple):
    """A pair of the spike that is to be counted in the baseline."""

    key: str
    value: str
    pair: int
    spans: int


def is_identifier(occurrences: int, distinct: int) -> bool:
    """Whether a key tells spans apart rather than what they have in common."""
    return occurrences >= _FEW and distinct > _UNIQUE * occurrences
